package exonet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
)

// begins opens a stream between two nodes, and sends its first message.
func begins(t *testing.T, ctx context.Context, alice, bob *Node) (out, in *Stream) {
	t.Helper()
	out, err := alice.OpenStream(bob.Address(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Send([]byte("0"), SendOptions{}); err != nil {
		t.Fatal(err)
	}
	in, err = bob.AcceptStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return out, in
}

// follows gives the next message of a stream, which has this body.
func follows(t *testing.T, ctx context.Context, stream *Stream, body string) *Delivery {
	t.Helper()
	delivery, err := stream.Recv(ctx)
	if err != nil || string(delivery.Body) != body {
		t.Fatalf("%+v, %v", delivery, err)
	}
	return delivery
}

// goesOn takes the next message of a stream, which has this body.
func goesOn(t *testing.T, ctx context.Context, stream *Stream, body string) {
	t.Helper()
	if err := follows(t, ctx, stream, body).Ack(0); err != nil {
		t.Fatal(err)
	}
}

func TestAStreamKeepsItsOrder(t *testing.T) {
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	alice, bob, ctx := open(t), open(t), within(t)
	if _, err := alice.OpenStream(bob.Address(), ""); !errors.Is(err, &Error{Code: Usage}) {
		t.Fatalf("%v", err)
	}
	out, in := begins(t, ctx, alice, bob)
	if in.Name != "orders" || in.Peer != alice.ID() || out.Peer != bob.ID() {
		t.Fatalf("%q with %s", in.Name, in.Peer)
	}
	if _, err := out.Send(nil, SendOptions{Tag: []byte("x")}); !errors.Is(err, &Error{Code: NotSent}) {
		t.Fatalf("%v", err)
	}
	goesOn(t, ctx, in, "0")
	var last *Receipt
	for i := 1; i < 50; i++ {
		var err error
		if last, err = out.Send([]byte(fmt.Sprint(i)), SendOptions{Processed: true, Traceparent: trace}); err != nil {
			t.Fatal(err)
		}
	}
	end, err := out.Close()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Send(nil, SendOptions{}); !errors.Is(err, &Error{Code: NotSent}) {
		t.Fatalf("%v", err)
	}
	for i := 1; i < 50; i++ {
		delivery := follows(t, ctx, in, fmt.Sprint(i))
		if delivery.Traceparent != trace || delivery.From != alice.ID() {
			t.Fatalf("%+v", delivery)
		}
		if err := delivery.Ack(uint32(i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := in.Recv(ctx); err != io.EOF {
		t.Fatalf("%v", err)
	}
	if settled := becomes(t, ctx, last, Processed); settled.Status != 49 {
		t.Fatalf("%+v", settled)
	}
	becomes(t, ctx, end, Delivered)
}

func TestAStreamGoesOnAtAnotherNode(t *testing.T) {
	alice, bob, carol, ctx := open(t), short(t), open(t), within(t)
	_, in := begins(t, ctx, alice, bob)
	on, err := bob.OpenStream(carol.Address(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	first := follows(t, ctx, in, "0")
	if _, err := on.AckAndSend(first, make([]byte, 2_000), SendOptions{}); !errors.Is(err, &Error{Code: NotSent}) {
		t.Fatalf("%v", err)
	}
	sent, err := on.AckAndSend(first, []byte("0, and on"), SendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Ack(0); !errors.Is(err, &Error{Code: Usage}) {
		t.Fatalf("acknowledged after the answer: %v", err)
	}
	far, err := carol.AcceptStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	goesOn(t, ctx, far, "0, and on")
	becomes(t, ctx, sent, Delivered)
	// A message of a stream can be answered outside of it.
	if _, err := on.Send([]byte("question"), SendOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := follows(t, ctx, far, "question").Answer([]byte("answer"), SendOptions{}); err != nil {
		t.Fatal(err)
	}
	if answer := next(t, ctx, bob); string(answer.Body) != "answer" || answer.From != carol.ID() {
		t.Fatalf("%+v", answer)
	}
}

func TestAStreamIsGivenUp(t *testing.T) {
	alice, bob, ctx := open(t), open(t), within(t)
	out, in := begins(t, ctx, alice, bob)
	goesOn(t, ctx, in, "0")
	if _, err := out.Reset(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Send(nil, SendOptions{}); !errors.Is(err, &Error{Code: NotSent}) {
		t.Fatalf("%v", err)
	}
	if _, err := in.Recv(ctx); !errors.Is(err, &Error{Code: StreamBroken}) {
		t.Fatalf("%v", err)
	}
	// The other direction goes on.
	if _, err := in.Send([]byte("back"), SendOptions{}); err != nil {
		t.Fatal(err)
	}
	goesOn(t, ctx, out, "back")
}
