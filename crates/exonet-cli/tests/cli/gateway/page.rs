//! The shell lines of docs/gateway.md, run as they stand there, with ports that are free.

use serde_json::Value;

use crate::readme::{commands, shell};
use crate::skip::skipped;
use crate::support::{Listener, Running, World, free_address, until};

const PAGE: &str = include_str!("../../../../../docs/gateway.md");

#[test]
fn the_lines_of_the_page_do_what_it_says() {
    if std::process::Command::new("curl").arg("--version").output().is_err() {
        return skipped("curl is not here");
    }
    let world = World::new();
    world.file("photo.jpg", b"\xff\xd8 a photo\n");
    world.file("names", b"b\na\n");
    let [port, desk] = [(); 2].map(|()| free_address().port().to_string());
    let till = world.listen(&["--as", "till"]);
    let sorter = world.serve(&["--as", "sorter", "--method", "sort", "--exec", "sort"]);
    let (mut ups, mut peers): (Vec<Listener>, _) =
        (Vec::new(), vec![("TILL", till.peer), ("SORTER", sorter.peer)]);
    let (mut setup, mut handle, mut held, mut asked) = (String::new(), String::new(), Vec::new(), Vec::new());
    let (mut curls, mut answers, mut streams) = (0, 0, Vec::new());
    for line in commands(PAGE) {
        let line = line.replace("3967", "{shop}").replace("3968", "{desk}");
        let line = line.replace("{shop}", &port).replace("{desk}", &desk).replace("HANDLE", &handle);
        if line.starts_with("exon up") {
            let line = line.replace("--detach", "--bind 127.0.0.1:0 --json");
            let command = shell(&world, &format!("exec {line}"));
            let listener = world.listener_of("up", command);
            if line.contains("--as shop") {
                peers.push(("SHOP", listener.peer.clone()));
            }
            ups.push(listener);
        } else if let Some((name, value)) =
            line.split_once('=').filter(|(name, _)| name.bytes().all(|c| c.is_ascii_uppercase()))
        {
            let known = peers.iter().find(|(known, _)| *known == name);
            let value = known.map_or(value, |(_, peer)| peer);
            setup.push_str(&format!("{name}={value}; "));
        } else if let Some(line) = line.strip_suffix('&') {
            // What waits for what the next line does.
            let is_curl = line.starts_with("curl");
            if line.starts_with("exon call") {
                let look = format!("{setup} curl -s -H \"$AUTH\" http://127.0.0.1:{port}/v1/node");
                until("the method is served", || {
                    Running::start(shell(&world, &look)).end().stdout.contains("\"price\"")
                });
            }
            let mut running = Running::start(shell(&world, &format!("{setup} exec {line}")));
            curls += usize::from(is_curl);
            if line.contains("/events") {
                let data = running.hears("data: ");
                handle = handle_of(data.strip_prefix("data: ").unwrap()).unwrap();
                // What it has is given again when it leaves.
                streams.push(running);
            } else if is_curl {
                asked.push(running);
            } else {
                held.push((line.to_owned(), running));
                if let Some(asked) = asked.pop() {
                    handle = handle_of(&asked.end().expect(0).stdout).unwrap();
                }
            }
        } else {
            let told = Running::start(shell(&world, &format!("{setup} {line}"))).end().expect(0);
            if line.starts_with("curl") {
                curls += 1;
                let told: Value = serde_json::from_str(&told.stdout).unwrap_or_else(|_| told.stdout.into());
                assert!(told.get("error").is_none(), "{line}\n{told}");
                answers += usize::from(told["messages"][0]["tag"] == "price" && line.contains(&desk));
                handle = handle_of(&told.to_string()).unwrap_or(handle);
            }
        }
    }
    assert_eq!(curls, PAGE.matches("\ncurl ").count());
    assert_eq!(answers, 1);
    all_end(held);
    for up in ups {
        up.running.end().expect(130);
    }
}

/// Fails unless the lines that ran beside others have ended as the page says.
fn all_end(lines: Vec<(String, Running)>) {
    for (line, running) in lines {
        let code = if line.contains("no tea") { 4 } else { 0 };
        let told = running.end().expect(code);
        assert!(!line.starts_with("exon call") || told.stdout == "2.50", "{}", told.stdout);
    }
}

/// The handle in an answer.
fn handle_of(told: &str) -> Option<String> {
    let told: Value = serde_json::from_str(told).ok()?;
    let one = |list: &str| told[list][0]["handle"].as_str();
    let handle = one("messages").or(one("calls")).or(told["handle"].as_str());
    handle.map(str::to_owned)
}
