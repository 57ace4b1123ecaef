//! Peers that say something else.

use exonet::{Allow, Node, Outcome, PeerAddr};

use super::{Target, client, entrance, proxy, say, say_all, why};
use crate::support::World;

/// What becomes of a first message in a stream of this name.
async fn opens(node: &Node, far: &PeerAddr, name: &str, first: &str) -> Outcome {
    let (mut sender, _) = node.peer(far).stream(name.to_owned()).unwrap().split();
    let outcome = sender.send(first.to_owned()).await.unwrap().await.outcome;
    drop(sender.reset().await);
    outcome
}

/// The answer to it.
async fn answer(node: &Node, far: &PeerAddr, name: &str, first: &str) -> String {
    let (mut sender, mut receiver) = node.peer(far).stream(name.to_owned()).unwrap().split();
    drop(sender.send(first.to_owned()).await.unwrap());
    let answer = receiver.recv_at_most_once().await.unwrap().unwrap();
    drop(sender.reset().await);
    String::from_utf8(answer.body.as_whole().unwrap().to_vec()).unwrap()
}

#[test]
fn garbage_is_rejected_and_harms_no_one() {
    let world = World::new();
    let target = Target::echo();
    let far = proxy(&world, &["--allow-to", "127.0.0.1:*"]);
    let (_near, at) = entrance(&world, target.at, &far.peer);
    let peer: PeerAddr = far.peer.parse().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let node = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
        let run = "00000000000000aa";
        let open = |run: &str, to: &str| format!(r#"{{"v":1,"run":"{run}","to":"{to}"}}"#);
        let to = target.at.to_string();
        for (n, (name, first)) in [
            ("orders", open(run, &to)),
            ("tunnel/x", "hello".to_owned()),
            ("tunnel/00000000000000bb", "hello".to_owned()),
            ("tcp/00000000000000aa", "GET / HTTP/1.1\r\n".to_owned()),
            ("tcp/00000000000000aa", open("00000000000000bb", &to)),
            ("tcp/00000000000000aa", open(run, "127.1:80")),
            ("tcp/00000000000000aa", open(run, &to).replace(r#""v":1"#, r#""v":2"#)),
        ]
        .into_iter()
        .enumerate()
        {
            let name = if name.starts_with("tcp/") { format!("{name}/{n}") } else { name.to_owned() };
            let outcome = opens(&node, &peer, &name, &first).await;
            assert!(matches!(outcome, Outcome::Rejected { .. }), "{name} {first}: {outcome:?}");
        }
        let plain = node.peer(&peer).send("hello").await.unwrap().await;
        assert!(matches!(plain.outcome, Outcome::Rejected { .. }), "{plain:?}");
        let denied = answer(&node, &peer, "tcp/00000000000000aa/90", &open(run, "db:1")).await;
        assert!(denied.contains(r#""code":"denied""#), "{denied}");
        let no_port = format!(r#"{{"v":1,"run":"{run}","reverse":{{"near":"{run}","port":0,"from":""}}}}"#);
        let odd = answer(&node, &peer, "tcp/00000000000000aa/91", &no_port).await;
        assert!(odd.contains(r#""code":"malformed""#), "{odd}");
        let made = answer(&node, &peer, "tcp/00000000000000aa/92", &open(run, &to)).await;
        assert!(made.contains(&format!(r#""address":"{to}""#)), "{made}");
    });
    say_all(client(at), b"all is well");
}

/// The rest of what comes, as text.
async fn rest(receiver: &mut exonet::stream::StreamReceiver) -> String {
    let mut all = Vec::new();
    while let Ok(Some(part)) = receiver.recv_at_most_once().await {
        all.extend_from_slice(part.body.as_whole().unwrap());
    }
    String::from_utf8_lossy(&all).into_owned()
}

#[test]
fn a_kept_connection_belongs_to_its_peer_and_frames_that_lie_end_no_other() {
    let world = World::new();
    let target = Target::echo();
    let mut far = proxy(&world, &["--allow-to", "127.0.0.1:*"]);
    let (_near, at) = entrance(&world, target.at, &far.peer);
    let mut stood = client(at);
    say(&mut stood, b"before");
    let peer: PeerAddr = far.peer.parse().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let token = "0123456789abcdef0123456789abcdef";
        let run = "00000000000000aa";
        let open = format!(r#"{{"v":1,"run":"{run}","to":"{}","keep":"{token}"}}"#, target.at);
        let resume = format!(r#"{{"v":1,"run":"{run}","resume":"{token}"}}"#);
        let node = || async { Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap() };
        let (owner, other) = (node().await, node().await);
        let made = answer(&owner, &peer, "tcp/00000000000000aa/0", &open).await;
        assert!(made.contains(r#""kept":true"#), "{made}");
        let stolen = answer(&other, &peer, "tcp/00000000000000aa/0", &resume).await;
        assert!(stolen.contains(r#""code":"gone""#), "{stolen}");
        let again = answer(&owner, &peer, "tcp/00000000000000aa/1", &resume).await;
        assert!(again.contains(r#""kept":true"#), "{again}");
        // Nothing was sent, so nothing can be here.
        for (n, (lie, words)) in [
            (&[3, 0, 0, 0, 0, 0, 0, 0, 1][..], "a frame comes before the first one"),
            (b"GET / HTTP/1.1\r\n", "a frame of an unknown kind"),
            (&[1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1], "it has 1 bytes, of 0 that were sent"),
        ]
        .into_iter()
        .enumerate()
        {
            let open = open.replace("0123456789abcdef0", &format!("0123456789abcdef{}", n + 1));
            let name = format!("tcp/00000000000000aa/{}", n + 10);
            let (mut sender, mut receiver) = owner.peer(&peer).stream(name).unwrap().split();
            drop(sender.send(open).await.unwrap());
            receiver.recv_at_most_once().await.unwrap().unwrap();
            drop(sender.send(lie.to_vec()).await.unwrap());
            let told = rest(&mut receiver).await;
            assert!(told.contains(words), "{told:?}");
            assert_eq!(why(&mut far.running), "failed");
            drop(sender.close().await);
        }
    });
    say_all(stood, b"all is well");
}
