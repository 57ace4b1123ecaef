package lab;

import io.netty.channel.EventLoop;
import java.util.ArrayDeque;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/**
 * The work on a request: a timer as the one of tokio, which is the work of the other servers. Such a timer ends at the first
 * whole ms of its clock at which it is over, and an event loop that has nothing to do looks again after whole ms. A more
 * precise timer would make the work shorter here than there.
 *
 * <p>For the thread of one event loop.
 */
final class Timer {
  private static final long MS = 1_000_000;

  private record Work(long end, Runnable then) {}

  private final EventLoop loop;
  private final long lasts;
  private final long began = System.nanoTime();
  /** All last equally long, so the first is over first. */
  private final ArrayDeque<Work> open = new ArrayDeque<>();
  private Future<?> alarm;

  Timer(EventLoop loop, long ms) {
    this.loop = loop;
    this.lasts = ms * MS;
  }

  void start(Runnable then) {
    open.add(new Work(wholeMs(now() + lasts), then));
    look();
  }

  /** Ends what is over. */
  private void look() {
    long now = now();
    while (!open.isEmpty() && open.peek().end * MS <= now) {
      open.remove().then.run();
    }
    if (alarm != null) {
      alarm.cancel(false);
    }
    alarm = null;
    if (!open.isEmpty()) {
      long left = wholeMs(open.peek().end * MS - now());
      alarm = loop.schedule(this::look, left, TimeUnit.MILLISECONDS);
    }
  }

  private long now() {
    return System.nanoTime() - began;
  }

  /** Rounds up. */
  private static long wholeMs(long nanos) {
    return (nanos + MS - 1) / MS;
  }
}
