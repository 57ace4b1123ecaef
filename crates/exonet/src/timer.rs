//! The driver's alarm clock.
//!
//! tokio's timers have a resolution of a millisecond. That is longer than a round trip in a data centre, so pacing,
//! acknowledgements and probes need finer timers. On Linux this is a `timerfd` on the node's own clock, which after a
//! suspend rings at once for a deadline that has passed.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use exonet_proto::Mono;

use self::system::Alarm;

/// When the deadline moves to a later time, the alarm follows at most this often.
const PUT_OFF_EVERY: Duration = Duration::from_millis(10);

/// An alarm that may ring too early and is then set again: so a deadline that moves to a later time costs a system
/// call only now and then. If the alarm always followed, a node whose probe timeout moves with each message would pay
/// a system call per message. If it never followed, a node with little traffic would pay a turn of its driver for
/// each alarm that rings too early.
///
/// The holder of the node's lock sets it, so that a caller need not wake the driver to set it. Only the driver waits
/// for it.
pub(crate) struct Timer {
    alarm: Alarm,
    set_for: AtomicU64,
    /// When the alarm was last set to a later time.
    put_off: AtomicU64,
}

impl Timer {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self { alarm: Alarm::new()?, set_for: AtomicU64::new(Mono::NEVER.0), put_off: AtomicU64::new(0) })
    }

    /// Makes sure that the alarm rings at `at` or before. Returns when it will ring. The caller must hold the node's
    /// lock.
    pub(crate) fn arm(&self, now: Mono, at: Mono) -> Mono {
        let set_for = self.set_for();
        let put_off = Mono(self.put_off.load(Ordering::Relaxed));
        let puts_off = at.since(set_for) >= PUT_OFF_EVERY && now.since(put_off) >= PUT_OFF_EVERY;
        if puts_off {
            self.put_off.store(now.0, Ordering::Relaxed);
        }
        if at < set_for || puts_off {
            match self.alarm.set(now, at) {
                Ok(()) => self.set_for.store(at.0, Ordering::Relaxed),
                Err(error) => tracing::warn!(%error, "cannot set the timer"),
            }
        }
        self.set_for()
    }

    /// Waits until the alarm rings, even if another thread sets it meanwhile. Cancel-safe.
    ///
    /// If another thread sets the alarm while this method returns, the alarm counts as not set, and the task that
    /// waited sets it again.
    pub(crate) async fn ring(&self) {
        self.alarm.ring().await;
        self.set_for.store(Mono::NEVER.0, Ordering::Relaxed);
    }

    /// When the alarm rings, or when it should have rung.
    pub(crate) fn set_for(&self) -> Mono {
        Mono(self.set_for.load(Ordering::Relaxed))
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::io;
    use std::os::fd::OwnedFd;

    use exonet_proto::Mono;
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    pub(super) struct Alarm(AsyncFd<OwnedFd>);

    const NANOS: u64 = 1_000_000_000;

    impl Alarm {
        pub(super) fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let fd = timerfd_create(TimerfdClockId::Boottime, flags)?;
            // tokio deprecates this function because a descriptor may change while it is registered. This one is
            // owned and never changes.
            #[allow(deprecated)]
            Ok(Self(AsyncFd::with_interest(fd, Interest::READABLE)?))
        }

        pub(super) fn set(&self, _now: Mono, at: Mono) -> io::Result<()> {
            // Zero would switch the alarm off.
            let at = at.0.max(1);
            let it_value = Timespec {
                tv_sec: i64::try_from(at / NANOS).unwrap_or(i64::MAX),
                tv_nsec: i64::try_from(at % NANOS).unwrap_or(0) as _,
            };
            let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
            timerfd_settime(
                self.0.get_ref(),
                TimerfdTimerFlags::ABSTIME,
                &Itimerspec { it_interval, it_value },
            )?;
            Ok(())
        }

        pub(super) async fn ring(&self) {
            loop {
                let Ok(mut ready) = self.0.readable().await else {
                    return;
                };
                let read = ready.try_io(|fd| Ok(rustix::io::read(fd, &mut [0; 8])?));
                // An error means that another thread set the alarm in between.
                if read.is_ok() {
                    // There is nothing more to read before the alarm is set again. Reporting that now saves a second read.
                    ready.clear_ready();
                    return;
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use core::future::{Future, poll_fn};
    use core::pin::Pin;
    use core::task::{Context, Poll, ready};
    use core::time::Duration;
    use std::io;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use exonet_proto::Mono;
    use tokio::time::{Instant, Sleep, sleep_until};

    const FAR: Duration = Duration::from_secs(1 << 30);

    /// If the sleep is reset, it wakes the task that waits at the new time.
    pub(super) struct Alarm(Mutex<Pin<Box<Sleep>>>);

    impl Alarm {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self(Mutex::new(Box::pin(sleep_until(Instant::now() + FAR)))))
        }

        pub(super) fn set(&self, now: Mono, at: Mono) -> io::Result<()> {
            self.sleep().as_mut().reset(Instant::now() + at.since(now));
            Ok(())
        }

        pub(super) async fn ring(&self) {
            let elapsed = |cx: &mut Context<'_>| {
                let mut sleep = self.sleep();
                ready!(sleep.as_mut().poll(cx));
                // The alarm has rung, and must not ring again before it is set.
                sleep.as_mut().reset(Instant::now() + FAR);
                Poll::Ready(())
            };
            poll_fn(elapsed).await;
        }

        fn sleep(&self) -> MutexGuard<'_, Pin<Box<Sleep>>> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use core::time::Duration;

    #[tokio::test]
    async fn rings_when_due_and_not_before() {
        let (clock, timer) = (Clock::start(), Timer::new().unwrap());
        let start = clock.mono();
        let due = start + Duration::from_millis(2);
        assert_eq!(timer.arm(start, due), due);
        timer.ring().await;
        assert!(clock.mono() >= due);
        assert_eq!(timer.set_for(), Mono::NEVER);
    }

    #[tokio::test]
    async fn is_put_off_for_good_and_set_again() {
        let (clock, timer) = (Clock::start(), Timer::new().unwrap());
        let now = clock.mono() + PUT_OFF_EVERY;
        let soon = now + Duration::from_millis(1);
        timer.arm(now, soon);
        assert_eq!(timer.arm(now, Mono::NEVER), Mono::NEVER);
        // On systems other than Linux, the alarm rings after the time from `now` to `soon`, counted from this call.
        let due = if cfg!(target_os = "linux") { soon } else { clock.mono() + Duration::from_millis(1) };
        assert_eq!(timer.arm(now, soon), soon);
        timer.ring().await;
        assert!(clock.mono() >= due);
    }

    #[tokio::test]
    async fn rings_for_who_waits_already_when_it_is_set() {
        let (clock, timer) = (Clock::start(), Timer::new().unwrap());
        let sets = async {
            // By now the other task waits.
            tokio::task::yield_now().await;
            let now = clock.mono();
            timer.arm(now, now + Duration::from_millis(2))
        };
        let ((), due) = tokio::join!(timer.ring(), sets);
        assert!(clock.mono() >= due);
        assert_eq!(timer.set_for(), Mono::NEVER);
    }

    #[tokio::test]
    async fn moves_forward_at_once_and_back_now_and_then() {
        let (clock, timer) = (Clock::start(), Timer::new().unwrap());
        let now = clock.mono() + PUT_OFF_EVERY;
        let hour = now + Duration::from_secs(3_600);
        timer.arm(now, hour);
        let soon = now + Duration::from_millis(1);
        assert_eq!(timer.arm(now, soon), soon);
        assert_eq!(timer.arm(now, soon + PUT_OFF_EVERY / 2), soon, "it may ring early");
        assert_eq!(timer.arm(now, hour), hour);
        assert_eq!(timer.arm(now, soon), soon);
        assert_eq!(timer.arm(now + PUT_OFF_EVERY / 2, hour), soon, "it has just been put off");
        timer.ring().await;
    }
}
