package exonet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"testing"
	"time"
)

// talk opens a session between two nodes.
func talk(t *testing.T, ctx context.Context, alice, bob *Node) (client, server *Session) {
	t.Helper()
	client, err := alice.OpenSession(bob.Address(), "chat", SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	server, err = bob.AcceptSession(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	return client, server
}

// hears takes the next message of a session, which has this body.
func hears(t *testing.T, ctx context.Context, session *Session, body []byte) {
	t.Helper()
	delivery, err := session.Recv(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(delivery.Body, body) {
		t.Fatalf("another message, of %d bytes", len(delivery.Body))
	}
	if err := delivery.Ack(4); err != nil {
		t.Fatal(err)
	}
}

func TestASessionGoesBothWays(t *testing.T) {
	alice, bob, ctx := open(t), open(t), within(t)
	client, server := talk(t, ctx, alice, bob)
	if !client.IsClient || server.IsClient || client.ID != server.ID || server.Name != "chat" || server.Peer != alice.ID() {
		t.Fatalf("%+v, %+v", client, server)
	}
	receipt, err := client.Send([]byte("hello"), SendOptions{Processed: true})
	if err != nil {
		t.Fatal(err)
	}
	hears(t, ctx, server, []byte("hello"))
	settled, err := receipt.Wait(ctx)
	if err != nil || settled.Outcome != Processed || settled.Status != 4 {
		t.Fatalf("%+v, %v", settled, err)
	}
	if _, err := client.Send(nil, SendOptions{Tag: []byte("x")}); !errors.Is(err, &Error{Code: NotSent}) {
		t.Fatalf("%v", err)
	}

	// In chunks, and given up.
	for _, finish := range []bool{false, true} {
		writer, err := client.Begin(SendOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Send(nil, SendOptions{}); !errors.Is(err, &Error{Code: Usage}) {
			t.Fatalf("%v", err)
		}
		if _, err := io.Copy(writer, bytes.NewReader(bytes.Repeat([]byte("0123456789"), 30_000))); err != nil {
			t.Fatal(err)
		}
		if finish {
			if _, err := writer.Finish(); err != nil {
				t.Fatal(err)
			}
		}
		writer.Close()
	}
	hears(t, ctx, server, bytes.Repeat([]byte("0123456789"), 30_000))

	if _, err := server.Send([]byte("bye"), SendOptions{}); err != nil {
		t.Fatal(err)
	}
	hears(t, ctx, client, []byte("bye"))
	for {
		event, err := client.NextEvent(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if event.Change == ChangeAccepted {
			break
		}
		// The connection may have been there before the handle.
		if event.Change != ChangeConnected || event.Address == "" {
			t.Fatalf("%+v", event)
		}
	}
	if _, err := client.Finish(); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Recv(ctx); err != io.EOF {
		t.Fatalf("%v", err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Close(time.Minute) }()
	if _, err := client.Recv(ctx); err != io.EOF {
		t.Fatalf("%v", err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := server.Recv(ctx); !errors.Is(err, &Error{Code: Closed}) {
		t.Fatalf("%v", err)
	}
}

func TestASessionEndsInSeveralWays(t *testing.T) {
	alice, bob, ctx := open(t), open(t), within(t)
	client, server := talk(t, ctx, alice, bob)
	if err := server.Refuse("not today"); err != nil {
		t.Fatal(err)
	}
	var failed *Error
	if _, err := client.Recv(ctx); !errors.As(err, &failed) || failed.Code != SessionEnded || failed.End != EndRefused {
		t.Fatalf("%v", err)
	}
	for {
		event, err := client.NextEvent(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if event.Change == ChangeEnded {
			if event.End != EndRefused || event.Reason != "not today" || event.End.String() != "refused" {
				t.Fatalf("%+v", event)
			}
			break
		}
	}

	client, server = talk(t, ctx, alice, bob)
	if err := client.Abort(); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Recv(ctx); !errors.As(err, &failed) || failed.End != EndAborted {
		t.Fatalf("%v", err)
	}

	client, server = talk(t, ctx, alice, bob)
	if err := client.Detach(); err != nil {
		t.Fatal(err)
	}
	again, err := alice.AttachSession(bob.Address(), "chat", client.ID, SessionOptions{Idle: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Send([]byte("still here"), SendOptions{}); err != nil {
		t.Fatal(err)
	}
	hears(t, ctx, server, []byte("still here"))
}

func TestTracesAndNames(t *testing.T) {
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	bob, ctx := open(t), within(t)
	alice, err := Open(Options{Names: "file:" + filepath.Join(t.TempDir(), "names")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { alice.Close(time.Second) })
	if _, err := alice.Send("name:chat", nil, SendOptions{}); !errors.Is(err, &Error{Code: Naming}) {
		t.Fatalf("%v", err)
	}
	if _, err := alice.Send(bob.Address(), nil, SendOptions{Traceparent: trace}); err != nil {
		t.Fatal(err)
	}
	delivery, err := bob.Recv(ctx)
	if err != nil || delivery.Traceparent != trace {
		t.Fatalf("%+v, %v", delivery, err)
	}
}
