package lab;

import io.netty.channel.EventLoop;
import io.rsocket.Payload;
import io.rsocket.RSocket;
import io.rsocket.SocketAcceptor;
import io.rsocket.core.RSocketConnector;
import io.rsocket.core.RSocketServer;
import io.rsocket.core.Resume;
import io.rsocket.frame.decoder.PayloadDecoder;
import io.rsocket.transport.netty.client.TcpClientTransport;
import io.rsocket.transport.netty.server.TcpServerTransport;
import io.rsocket.util.DefaultPayload;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;
import reactor.netty.resources.LoopResources;
import reactor.netty.tcp.TcpClient;
import reactor.netty.tcp.TcpServer;

/**
 * RSocket's sessions: a connection that can be resumed, with one request-channel, for each client. The same work as in
 * `src/peer/session`, and the same line to the lab as in `src/child.rs`.
 *
 * <p>One thread does all of it, as in the other peers.
 */
public final class Sessions {
  private static final LoopResources LOOPS = LoopResources.create("lab", 1, true);
  private static final Meter METER = new Meter();

  private static volatile boolean started;
  private static volatile boolean stopped;
  /** Clients that wait for the start; for the loop's thread. */
  private static final List<Client> WAITING = new ArrayList<>();

  private Sessions() {}

  /** {@code server ADDRESS PORT MS}, or {@code client ADDRESS PORT BYTES FROM...}. */
  public static void main(String[] words) throws IOException {
    InetSocketAddress server = new InetSocketAddress(words[1], Integer.parseInt(words[2]));
    int number = Integer.parseInt(words[3]);
    if (words[0].equals("server")) {
      serve(server, number);
    } else {
      for (int n = 4; n < words.length; n++) {
        new Client(number).connect(server, new InetSocketAddress(words[n], 0));
      }
    }
    listen();
  }

  private static void serve(InetSocketAddress at, int ms) {
    Stamp stamps = new Stamp();
    Timer timer = new Timer(LOOPS.onServer(true).next(), ms);
    SocketAcceptor answers =
        SocketAcceptor.forRequestChannel(
            requests ->
                Flux.from(requests)
                    .doOnNext(request -> stamps.note(request.getData(), METER))
                    .concatMap(
                        request ->
                            ms == 0
                                ? Mono.just(request)
                                : Mono.create(answer -> timer.start(() -> answer.success(request)))));
    TcpServer server = TcpServer.create().bindAddress(() -> at).runOn(LOOPS);
    RSocketServer.create(answers)
        .resume(new Resume())
        .payloadDecoder(PayloadDecoder.ZERO_COPY)
        .bind(TcpServerTransport.create(server))
        .subscribe(
            bound -> say("ready", "\"" + at.getAddress().getHostAddress() + ":" + at.getPort() + "\""),
            Sessions::fail);
  }

  /** A client. After it has connected, for the loop's thread. */
  private static final class Client {
    private final int bytes;
    private final Sinks.Many<Payload> requests = Sinks.many().unicast().onBackpressureBuffer();
    private byte[] request;
    private long asked;

    Client(int bytes) {
      this.bytes = bytes;
    }

    void connect(InetSocketAddress to, InetSocketAddress from) {
      TcpClient client =
          TcpClient.newConnection().remoteAddress(() -> to).bindAddress(() -> from).runOn(LOOPS);
      RSocketConnector.create()
          .resume(new Resume())
          .payloadDecoder(PayloadDecoder.ZERO_COPY)
          .connect(TcpClientTransport.create(client))
          .subscribe(this::talk, Sessions::fail);
    }

    private void talk(RSocket socket) {
      socket
          .requestChannel(requests.asFlux())
          .subscribe(this::take, Sessions::fail, () -> fail(new IOException("the server has closed the channel")));
      ask();
    }

    private void ask() {
      request = Stamp.message(METER.sent.getAndIncrement(), bytes);
      asked = System.nanoTime();
      requests.emitNext(DefaultPayload.create(request), Sinks.EmitFailureHandler.FAIL_FAST);
    }

    private void take(Payload answer) {
      long after = System.nanoTime() - asked;
      if (answer.getData().equals(ByteBuffer.wrap(request))) {
        METER.latency(after);
        METER.received.incrementAndGet();
      } else {
        METER.damaged.incrementAndGet();
      }
      answer.release();
      if (!started) {
        WAITING.add(this);
      } else if (!stopped) {
        ask();
      }
    }
  }

  private static void start() {
    started = true;
    EventLoop loop = LOOPS.onClient(true).next();
    loop.execute(() -> {
      WAITING.forEach(Client::ask);
      WAITING.clear();
    });
  }

  /** Hears the orders of the lab, a word a line. The process ends when they end. */
  private static void listen() throws IOException {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String word = in.readLine(); word != null; word = in.readLine()) {
      switch (word) {
        case "reset" -> METER.forgetLatencies();
        case "start" -> start();
        case "stop" -> stopped = true;
        default -> {}
      }
      say("mark", METER.mark());
    }
    System.exit(0);
  }

  private static void say(String key, String value) {
    System.out.println("{\"" + key + "\": " + value + "}");
  }

  private static void fail(Throwable error) {
    String why = error.toString().replaceAll("[^ -~]|[\"\\\\]", " ");
    say("failed", "\"" + why + "\"");
    System.exit(1);
  }
}
