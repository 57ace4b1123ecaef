//! Completions, manual pages, a unit for systemd; and one style for all errors.

use std::fs;

use crate::support::{World, arg, entries};

#[test]
fn completions_know_the_commands() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = world.run(&["completions", shell]).expect(0).stdout;
        for word in ["listen", "completions", "allow", "peer"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let world = World::new();
    let pages = world.path("man");
    world.run(&["man", "--dir", arg(&pages)]).expect(0);
    let names = entries(&pages);
    for name in ["exon.1", "exon-listen.1", "exon-peer-add.1", "exon-bench-client.1"] {
        assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("crowd")), "{names:?}");
    let page = fs::read_to_string(pages.join("exon-listen.1")).unwrap();
    assert!(page.contains(".TH") && page.contains("EXAMPLES"), "{page}");
    assert_eq!(world.run(&["man", "listen"]).expect(0).stdout, page);
    assert!(world.run(&["man", "nothing"]).expect(1).stderr.contains("nothing"));
}

#[test]
fn a_unit_says_what_runs() {
    let world = World::new();
    let unit = world.run(&[
        "service",
        "listen",
        "--out",
        "in box",
        "--allow",
        &exonet_proto::NodeId([1; 32]).to_string(),
    ]);
    let unit = unit.expect(0).stdout;
    let start = unit.lines().find(|line| line.starts_with("ExecStart=/")).unwrap();
    assert!(start.contains(" listen --out \"/") && start.contains("in box\" --allow "), "{start}");
    assert!(unit.contains("SuccessExitStatus=130") && unit.contains("WantedBy=default.target"), "{unit}");
    // Relative paths of other options mean the same in the unit.
    let here = std::env::current_dir().unwrap();
    assert!(unit.contains(&format!("WorkingDirectory=-{}\n", here.display())), "{unit}");
    let system = world.run(&["service", "--system", "serve", "--echo"]).expect(0).stdout;
    assert!(system.contains("User=exon") && system.contains("EXONET_STATE=/var/lib/exonet"), "{system}");
    assert!(!system.contains("WorkingDirectory"), "{system}");
    // Paths also stay the same if the unit starts elsewhere, as one of the system does.
    let at_home = |path: &str| here.join(path).display().to_string();
    let words =
        ["service", "--system", "serve", "--state", "st", "--method", "m", "--exec", "./sort", "x=./y"];
    let unit = world.run(&words).expect(0).stdout;
    let start = format!("--state {} --method m --exec {} x=./y\n", at_home("st"), at_home("sort"));
    assert!(unit.contains(&start), "{unit}");
    let line =
        world.run(&["service", "--json", "share", "d", "--anyone", "--state=d"]).expect(0).lines().remove(0);
    assert_eq!((&line["type"], &line["name"]), (&"unit".into(), &"exon-share.service".into()));
    let start = format!("share {0} --anyone --state={0}\n", at_home("d"));
    assert!(line["text"].as_str().unwrap().contains(&start), "{line}");
    // A path may look like the command, and a name like a path.
    let unit = world.run(&["service", "share", "share", "--anyone", "--as", "share"]).expect(0).stdout;
    assert!(unit.contains(&format!(" share {} --anyone --as share\n", at_home("share"))), "{unit}");
    let unit =
        world.run(&["service", "serve", "--echo", "--name", "till", "--names", "file:n"]).expect(0).stdout;
    assert!(unit.contains(&format!(" --names file:{}\n", at_home("n"))), "{unit}");
    assert!(world.run(&["service", "up", "--detach"]).expect(2).stderr.contains("--detach"));
    let up = world.run(&["service", "up", "--as", "shop"]).expect(0).stdout;
    assert!(up.contains(" up --as shop\n"), "{up}");
    let injected = world.run(&["service", "listen", "--out", "a\nExecStartPre=/bin/true"]).expect(2);
    assert!(
        injected.stderr.contains("control character") && injected.stdout.is_empty(),
        "{}",
        injected.stderr
    );
    assert!(world.run(&["service", "ping", "x"]).expect(2).stderr.contains("exon ping"));
    assert!(world.run(&["service", "listen", "--nonsense"]).expect(2).stderr.contains("--nonsense"));
}

#[test]
fn errors_have_one_style() {
    let world = World::new();
    for args in [
        &["frobnicate"][..],
        &["send", "nobody", "x"],
        &["id", "nothere"],
        &["demo", "--size", "0"],
        &["demo", "--size", "2000000"],
    ] {
        let ended = world.run(args);
        assert!(matches!(ended.code, Some(1 | 2)), "{args:?}");
        assert!(ended.stderr.starts_with("exon: ") && !ended.stderr.contains("error:"), "{}", ended.stderr);
    }
    let usage = world.run(&["send", "nobody", "x", "--json"]).expect(2);
    assert_eq!(usage.lines()[0]["type"], "error");
    assert!(usage.lines()[0]["error"].as_str().unwrap().contains("nobody"), "{}", usage.stdout);
}

#[test]
fn the_help_of_a_service_has_examples() {
    let help = World::new().run(&["service", "up", "--help"]).expect(0).stdout;
    assert!(help.contains("exon service up --as shop"), "{help}");
}
