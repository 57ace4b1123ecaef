package lab;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.BitSet;

/** The head of every message, as in `src/app/stamp.rs`: {@code number (u64) | actor (u32) | check (u32)}. */
final class Stamp {
  private static final int HEAD = 16;
  /** No run has so many messages. */
  private static final long ABSURD = 1L << 30;

  /** The numbers that have come. */
  private final BitSet seen = new BitSet();

  /** A message of the actor 0. */
  static byte[] message(long number, int bytes) {
    byte[] message = new byte[bytes];
    Arrays.fill(message, (byte) 0x5a);
    ByteBuffer.wrap(message).putLong(number).putInt(0).putInt(check(number, 0, bytes));
    return message;
  }

  /** Notes that a request has come. */
  void note(ByteBuffer message, Meter meter) {
    long number = message.remaining() < HEAD ? -1 : message.getLong();
    if (number < 0 || number >= ABSURD) {
      meter.damaged.incrementAndGet();
      return;
    }
    int length = message.remaining() + Long.BYTES;
    int actor = message.getInt();
    if (message.getInt() != check(number, actor, length)) {
      meter.damaged.incrementAndGet();
    } else if (seen.get((int) number)) {
      meter.duplicates.incrementAndGet();
    } else {
      seen.set((int) number);
      meter.received.incrementAndGet();
    }
  }

  private static int check(long number, int actor, int length) {
    long mix = number ^ ((long) actor << 32) ^ length;
    return (int) ((mix * 0x9e3779b97f4a7c15L ^ 0x123456789abcdef0L) >>> 32);
  }
}
