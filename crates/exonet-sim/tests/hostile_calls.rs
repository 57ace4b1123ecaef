//! A hostile peer with its own channel: calls.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::common::siege::{Intruder, Siege, aftermath, ask, small};
use crate::common::{MS, SECOND};
use exonet_proto::Slot;
use exonet_proto::node::{Config, Event, Limits, Outcome, Outgoing};
use exonet_proto::wire::Reply;
use exonet_sim::{LinkConfig, NodeIndex, World};

/// A call in wire form: of normal priority, with the extension CALL.
const CALL: &[u8] = &[0b1001, 2, 1, 0];

/// The victim's application calls the intruder.
fn call(world: &mut World, host: NodeIndex, intruder: &Intruder) {
    let (id, at) = (intruder.it.id(), intruder.at);
    world.name_to(host, at);
    let _ = world.with(host, |node, now| node.call(now, id, &[at], Outgoing::default()));
}

/// Sends every frame of calls, with any number.
#[test]
fn frames_of_calls_of_any_number_hurt_nobody_else() {
    let (mut world, host, _) = Siege::new("frames of calls").hold(|world, host, gang, _| {
        for intruder in gang {
            intruder.insist(world);
            call(world, host, intruder);
            let numbers: Vec<Slot> = (0..100).map(|_| Slot(intruder.number())).collect();
            intruder.say(world, |writer| {
                for s in numbers {
                    writer.reply_ack(s);
                    writer.probe(s);
                    writer.no_call(s);
                    writer.computing(s);
                    writer.reply(Reply { s, status: s.0 as u32, body: b"!" });
                }
            });
        }
    });
    world.with(host, |node, now| {
        for peer in node.peers() {
            node.abandon_peer(now, &peer);
        }
    });
    aftermath(&mut world, host, "frames of calls");
}

#[test]
fn calls_whose_replies_are_never_wanted_are_bounded() {
    let limits = Limits { replies: 50, reply_bytes: 80 * 160, ..small().limits };
    let config = Config { limits, ..small() };
    let siege = Siege { config, ..Siege::new("unwanted replies") };
    let (mut world, host, _) = siege.hold(|world, _, gang, _| {
        for intruder in gang {
            intruder.insist(world);
            let (r, s) = (intruder.r, intruder.hi.0.saturating_sub(40));
            intruder.say(world, |writer| {
                ask(writer, s, 100, s);
                if let Some(mut frame) = writer.messages(r, Slot(s)) {
                    (0..40).for_each(|_| assert!(frame.push(CALL, b"")));
                }
            });
        }
    });
    assert!(world.taken_from_foes(host) > 1_000, "they were taken");
    assert!(world.node(host).unwrap().stats().replies_forgotten > 1_000, "and answered");
    aftermath(&mut world, host, "unwanted replies");
}

/// A peer that grants a slot, and then denies the call before it could have been delivered.
#[test]
fn who_denies_a_call_that_was_not_asked_about_is_not_heard() {
    let mut world = World::new(1, LinkConfig::perfect(MS));
    let host = world.add(small(), true);
    let mut intruder = Intruder::connected(&mut world, host);
    world.run_for(100 * MS);
    call(&mut world, host, &intruder);
    world.run_for(10 * MS);
    intruder.hear(&mut world);
    let asked = intruder.said.iter().rev().find_map(|said| match said {
        exonet_sim::hostile::Said::Ask(ask) => Some(*ask),
        _ => None,
    });
    let s = asked.unwrap().s;
    let (lo, hi) = (s, Slot(s.0 + 4));
    let claim = exonet_proto::wire::Claim { hi, lo, up: hi, closed: false, part: false };
    intruder.say(&mut world, |writer| {
        let r = exonet_proto::Incarnation(1);
        writer.state_live(exonet_proto::Incarnation(0), r, None, claim, std::iter::once(lo.0..hi.0), 1);
    });
    world.run_for(10 * MS);
    intruder.say(&mut world, |writer| {
        (s.0..s.0 + 4).for_each(|s| assert!(writer.no_call(Slot(s))));
    });
    world.run_for(10 * MS);
    let unknown = |event: &Event| matches!(event, Event::Outcome { outcome: Outcome::Unknown, .. });
    assert!(!world.events(host).iter().any(unknown));
    assert_eq!(world.node(host).unwrap().stats().unknown, 0, "its token is for STATE to judge");
    // It may answer calls that it never took: that harms nothing else.
    intruder.say(&mut world, |writer| {
        (s.0..s.0 + 4).for_each(|s| assert!(writer.reply(Reply { s: Slot(s), status: 9, body: b"" })));
    });
    world.run_for(SECOND);
    let replies =
        world.events(host).iter().filter(|event| matches!(event, Event::Reply { status: 9, .. })).count();
    assert_eq!((replies, world.node(host).unwrap().open_messages().len()), (1, 0), "it is the reply");
}
