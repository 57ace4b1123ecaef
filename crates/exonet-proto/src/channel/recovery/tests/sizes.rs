//! Sizes of datagrams: probes of the MTU, refusals by the system, black holes.

use super::*;

#[test]
fn a_lost_mtu_probe_is_no_congestion() {
    let mut end = End::measured();
    let mut refuted = 0;
    let mut now = 100;
    while let Some(size) = end.path.mtu_probe(ms(now), usize::MAX) {
        let probe = end.send_as(ms(now), PacketInfo { mtu_probe: true, ..PacketInfo::data(size) });
        assert_eq!(end.path.mtu_probe(ms(now), usize::MAX), None, "one at a time");
        for _ in 0..3 {
            end.send(ms(now));
        }
        now += 100;
        let arrived = if size <= 1_300 { probe..probe + 4 } else { probe + 1..probe + 4 };
        let report = end.ack(ms(now), &[arrived]);
        refuted += report.lost;
        assert_eq!(report.mtu_changed, report.lost == 0);
    }
    assert_eq!((end.path.datagram_size(), end.path.in_flight()), (1_300, 0));
    assert!(refuted >= 3 && !end.path.is_lossy());
    let told = end.scribe.told();
    assert!(!told.iter().any(|what| matches!(what, Told::Loss { .. })));
    assert_eq!(told.iter().rfind(|what| matches!(what, Told::Mtu(_))), Some(&Told::Mtu(1_300)));
}

#[test]
fn what_the_system_refuses_is_no_loss() {
    let mut end = End::measured();
    let size = end.path.mtu_probe(ms(100), usize::MAX).unwrap();
    let probe = end.send_as(ms(100), PacketInfo { mtu_probe: true, ..PacketInfo::data(size) });
    end.path.on_refused(ms(100), &mut end.sent, probe..probe + 1, size, |fate, item| {
        end.fates.push((fate, item));
    });
    assert_eq!((end.path.in_flight(), end.path.pto_at()), (0, None));
    assert_eq!(end.fates(), vec![(Fate::Lost, probe)], "whatever it carried");
    for _ in 0..5 {
        end.send(ms(101));
    }
    assert_eq!(end.ack(ms(201), &[probe + 1..probe + 6]).lost, 0);
    assert!(end.path.mtu_probe(ms(201), usize::MAX).unwrap() < size);
}

#[test]
fn a_train_that_the_system_refuses_leaves_smaller() {
    let mut end = widened();
    let first = end.send_as(ms(300), PacketInfo::data(1_472));
    end.send_as(ms(300), PacketInfo::data(1_472));
    let numbers = first..first + 2;
    end.path.on_refused(ms(300), &mut end.sent, numbers, 1_472, |fate, item| {
        end.fates.push((fate, item));
    });
    assert_eq!(end.fates().split_off(1), vec![(Fate::Lost, first), (Fate::Lost, first + 1)]);
    assert_eq!((end.path.datagram_size(), end.path.in_flight()), (BASE, 0));
    let told = end.scribe.told();
    assert!(told.contains(&Told::Mtu(BASE)) && !told.iter().any(|what| matches!(what, Told::Loss { .. })));
    // The least size is not reduced further: that would never end.
    let least = end.send_as(ms(301), PacketInfo::data(BASE));
    end.path.on_refused(ms(301), &mut end.sent, least..least + 1, BASE, |_, _| panic!());
    assert_eq!(end.path.in_flight(), u64::from(BASE));
}

#[test]
fn far_larger_datagrams_are_tried_where_they_are_of_use() {
    let open = |window| {
        let config = Config { max_datagram: 65_000, ..Config::default() };
        let mut end = End::under(Scribe::new(window), config);
        end.send(ms(0));
        end.ack(ms(100), &[0..1]);
        let size = end.path.mtu_probe(ms(100), 0).unwrap();
        assert_eq!(size, ETHERNET, "whatever there is to send");
        end.send_as(ms(100), PacketInfo { mtu_probe: true, ..PacketInfo::data(size) });
        end.ack(ms(200), &[1..2]);
        end
    };
    // 125 % of the window in 100 ms: 3,852 bytes take more than a millisecond, or less.
    assert_eq!(open(300_000).path.mtu_probe(ms(200), usize::MAX), None);
    assert_eq!(open(320_000).path.mtu_probe(ms(200), usize::MAX), Some(3_852));
    assert_eq!(open(320_000).path.mtu_probe(ms(200), 3_852), None, "one datagram holds all there is");
}

/// A path that has found 1,472 bytes.
fn widened() -> End {
    let mut end = End::measured();
    let size = end.path.mtu_probe(ms(100), usize::MAX).unwrap();
    let probe = end.send_as(ms(100), PacketInfo { mtu_probe: true, ..PacketInfo::data(size) });
    end.ack(ms(200), &[probe..probe + 1]);
    assert_eq!(end.path.datagram_size(), 1_472);
    end
}

#[test]
fn a_black_hole_leads_back_to_the_base() {
    let mut end = widened();
    for _ in 0..10 {
        end.send_as(ms(300), PacketInfo::data(1_472));
    }
    let small = end.send(ms(310));
    let report = end.ack(ms(410), &[small..small + 1]);
    assert!(report.mtu_changed);
    assert_eq!(end.path.datagram_size(), BASE);
    assert!(end.scribe.told().contains(&Told::Mtu(BASE)));
}

#[test]
fn probes_into_silence_are_small() {
    let mut end = widened();
    end.send(ms(300));
    end.path.on_pto(ms(700));
    end.path.on_pto(ms(1_000));
    assert_eq!(end.path.datagram_size(), 1_472);
    end.path.on_pto(ms(1_400));
    assert_eq!(end.path.datagram_size(), BASE);
    assert_eq!(end.path.mtu_probe(ms(1_400), usize::MAX), None);
    end.ack(ms(1_500), &[2..3]);
    assert_eq!(end.path.datagram_size(), 1_472);
}
