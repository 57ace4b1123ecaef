use proptest::prelude::*;

use super::*;

fn addr(text: &str) -> PathAddr {
    PathAddr { remote: text.parse().unwrap(), local: None, pipe: None }
}

proptest! {
    /// Whatever arrives and leaves, an unproven path never gets more than three times what came from it.
    #[test]
    fn no_amplification(steps in prop::collection::vec((any::<bool>(), 0_u64..2_000), 1..200)) {
        let mut path = Path::unproven(addr("192.0.2.1:9"));
        let (mut received, mut sent) = (0, 0);
        for (arrives, bytes) in steps {
            if arrives {
                path.on_received(bytes);
                received += bytes;
            } else if path.allowance() >= bytes {
                path.on_sent(bytes);
                sent += bytes;
            }
            prop_assert!(sent <= 3 * received);
            prop_assert_eq!(path.allowance(), 3 * received - sent);
        }
        path.validate();
        prop_assert_eq!(path.allowance(), u64::MAX);
    }
}

#[test]
fn the_budget_does_not_wrap() {
    let mut path = Path::unproven(addr("192.0.2.1:9"));
    path.on_received(u64::MAX);
    path.on_received(u64::MAX);
    assert_eq!(path.allowance(), u64::MAX);
    path.on_sent(u64::MAX);
    path.on_sent(1);
    assert_eq!(path.allowance(), 0);
}

#[test]
fn an_unknown_local_address_fits_any() {
    let mut here = addr("192.0.2.1:9");
    let there = PathAddr { local: Some("198.51.100.1".parse().unwrap()), ..here };
    assert!(here.same(&there) && there.same(&here));
    here.local = Some("198.51.100.2".parse().unwrap());
    assert!(!here.same(&there) && !here.same_hosts(&there));
    assert!(addr("192.0.2.1:9").same_hosts(&addr("192.0.2.1:10")));
    assert!(!addr("192.0.2.1:9").same(&addr("192.0.2.1:10")));
    assert!(!addr("192.0.2.1:9").same_hosts(&addr("192.0.2.2:9")));
}

#[test]
fn a_challenge_is_repeated_until_it_expires() {
    let ms = |ms: u64| Mono(ms * 1_000_000);
    let mut challenge = PathValidator::new(ms(0), [7; 8], Duration::from_millis(10));
    let mut sent = Vec::new();
    for now in 0..100 {
        if challenge.due(ms(now)).is_some() {
            challenge.on_sent(ms(now));
            sent.push(now);
        }
    }
    assert_eq!(sent, vec![0, 10, 20]);
    assert_eq!(challenge.expires(), ms(30));
    assert!(challenge.is_answer([7; 8]) && !challenge.is_answer([8; 8]));
}
