//! The shell lines of docs/tunnel.md, run as they stand there, with ports that are free.

use std::net::TcpStream;

use super::port;
use crate::readme::{commands, shell};
use crate::skip::skipped;
use crate::support::{Listener, Running, World, free_address, until};

const PAGE: &str = include_str!("../../../../../docs/tunnel.md");

#[test]
fn the_lines_of_the_page_do_what_it_says() {
    let there = |program: &str| std::process::Command::new(program).arg("--version").output().is_ok();
    if !there("python3") || !there("curl") {
        return skipped("python3 and curl are not here");
    }
    let world = World::new();
    world.file("index.html", b"from the far end\n");
    let [target, local, socks] = [(); 3].map(|()| free_address().port());
    let (mut far, mut held): (Option<Listener>, Vec<Running>) = (None, Vec::new());
    let mut fetched = 0;
    for line in commands(PAGE) {
        let line = line.replace("8000", &target.to_string()).replace("8080", &local.to_string());
        let line = line.replace("1080", &socks.to_string());
        let peer = far.as_ref().map_or("", |far| &far.peer);
        let line = line.replace("ID@HOST:PORT", peer);
        if line.starts_with("exon proxy serve") {
            let line = format!("exec {line} --bind 127.0.0.1:0 --json");
            far = Some(world.listener_of("listening", shell(&world, &line)));
        } else if line.starts_with("exon forward") {
            let mut near = Running::start(shell(&world, &format!("exec {line} --json")));
            assert_eq!([port(&mut near).port(), port(&mut near).port()], [local, socks]);
            held.push(near);
        } else if line.starts_with("python3") {
            held.push(Running::start(shell(&world, &format!("exec {line}"))));
            until("the web server is there", || TcpStream::connect(("127.0.0.1", target)).is_ok());
        } else {
            let told = Running::start(shell(&world, &line)).end().expect(0);
            assert_eq!(told.stdout, "from the far end\n", "{line}");
            fetched += 1;
        }
    }
    assert_eq!(fetched, 2);
}
