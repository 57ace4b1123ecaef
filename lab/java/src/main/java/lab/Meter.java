package lab;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.HdrHistogram.Histogram;

/** The counts of this process, as `Meter` in `src/app/meter.rs` has them. */
final class Meter {
  private static final long LONGEST = 600_000_000_000L;
  /** The ticks a second of the system's clock of processor time, the same on each Linux. */
  private static final double TICKS = 100;

  final AtomicLong sent = new AtomicLong();
  final AtomicLong received = new AtomicLong();
  final AtomicLong duplicates = new AtomicLong();
  final AtomicLong damaged = new AtomicLong();
  private final long began = System.nanoTime();
  private final Histogram latency = new Histogram(LONGEST, 3);

  synchronized void latency(long nanos) {
    latency.recordValue(Math.min(nanos, LONGEST));
  }

  synchronized void forgetLatencies() {
    latency.reset();
  }

  /** How things stand, as `Mark` in `src/app/meter.rs` is written. */
  synchronized String mark() throws IOException {
    return String.format(
        Locale.ROOT,
        "{\"time\": %.6f, \"sent\": %d, \"received\": %d, \"duplicates\": %d, \"damaged\": %d, \"cpu\": %.2f, "
            + "\"peak_rss\": %d, \"threads\": %d, \"latency\": {\"p50\": %.6f, \"p99\": %.6f, \"p999\": %.6f, "
            + "\"max\": %.6f}}",
        (System.nanoTime() - began) / 1e9,
        sent.get(),
        received.get(),
        duplicates.get(),
        damaged.get(),
        processorTime(),
        status("VmHWM:") * 1024,
        status("Threads:"),
        latency.getValueAtPercentile(50) / 1e6,
        latency.getValueAtPercentile(99) / 1e6,
        latency.getValueAtPercentile(99.9) / 1e6,
        latency.getMaxValue() / 1e6);
  }

  /** In user space and in the kernel, in s. */
  private static double processorTime() throws IOException {
    String stat = Files.readString(Path.of("/proc/self/stat"));
    // The name of the program, which is in brackets, may hold blanks; the 14th and 15th fields are ticks.
    String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
    return (Long.parseLong(fields[11]) + Long.parseLong(fields[12])) / TICKS;
  }

  private static long status(String name) throws IOException {
    try (Stream<String> lines = Files.lines(Path.of("/proc/self/status"))) {
      String line = lines.filter(it -> it.startsWith(name)).findFirst().orElseThrow();
      return Long.parseLong(line.split("\\s+")[1]);
    }
  }
}
