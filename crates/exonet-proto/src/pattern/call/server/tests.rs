use super::*;

const S: Slot = Slot(7);
const MS: u64 = 1_000_000;

fn frame() -> Form {
    Form::Frame { status: 0, body: Bytes::from_static(b"reply") }
}

fn said(server: &mut Server) -> (bool, Option<(Slot, bool)>) {
    (server.next_reply().is_some(), server.next_answer())
}

#[test]
fn a_probe_draws_what_there_is() {
    let mut server = Server::default();
    server.probe(S);
    assert_eq!(said(&mut server), (false, Some((S, false))), "no call");
    server.begin(Mono(0), S);
    server.probe(S);
    assert_eq!(said(&mut server), (false, Some((S, true))), "computing");
    server.reply(S, frame(), 0, 0, Mono(1_000 * MS));
    server.sent(Mono(0), S, Duration::from_millis(10));
    assert_eq!(said(&mut server), (false, None), "nothing until the timer");
    server.probe(S);
    assert_eq!(said(&mut server), (true, None), "the reply, and nothing else");
    server.end(S);
    server.probe(S);
    assert_eq!(said(&mut server), (false, Some((S, false))), "not any more");
}

#[test]
fn a_reply_is_sent_less_and_less_often_until_its_time_is_over() {
    let mut server = Server::default();
    server.begin(Mono(0), S);
    server.reply(S, frame(), 0, 0, Mono(10_000 * MS));
    let (mut now, mut waits) = (Mono(0), Vec::new());
    while server.next_reply().is_some() {
        server.sent(now, S, Duration::from_millis(100));
        let next = server.deadline();
        waits.push(next.since(now).as_millis());
        now = next;
        if let Some(over) = server.on_timeout(now) {
            assert_eq!((over, now), (S, Mono(10_000 * MS)));
            assert!(server.end(over).is_some());
        }
    }
    assert_eq!(waits[..5], [100, 200, 400, 800, 1_000]);
    assert_eq!((waits.len(), server.deadline()), (13, Mono::NEVER));
    assert!(server.is_empty());
}

#[test]
fn a_call_that_is_computed_is_never_given_up() {
    let mut server = Server::default();
    server.begin(Mono(0), S);
    assert!(server.end(S).is_none());
    assert!(server.is_computing(S) && server.computes());
}

#[test]
fn answers_that_are_owed_are_bounded() {
    let mut server = Server::default();
    (0..3_000).for_each(|s| server.probe(Slot(s)));
    assert_eq!(server.counts().2, MAX_ANSWERS);
}
