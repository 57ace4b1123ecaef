package exonet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

func open(t *testing.T) *Node {
	t.Helper()
	node, err := Open(Options{Bind: "127.0.0.1:0", Allow: "anyone"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { node.Close(time.Second) })
	return node
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestAMessageArrives(t *testing.T) {
	alice, bob, ctx := open(t), open(t), within(t)
	body := bytes.Repeat([]byte("0123456789"), 100_000)
	receipt, err := alice.Send(bob.Address(), body, SendOptions{Tag: []byte("large"), Processed: true})
	if err != nil {
		t.Fatal(err)
	}
	delivery, err := bob.Recv(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if delivery.From != alice.ID() || string(delivery.Tag) != "large" || !bytes.Equal(delivery.Body, body) {
		t.Fatalf("another message: %s %q, %d bytes", delivery.From, delivery.Tag, len(delivery.Body))
	}
	if err := delivery.Ack(9); err != nil {
		t.Fatal(err)
	}
	if err := delivery.Ack(9); !errors.Is(err, &Error{Code: Usage}) {
		t.Fatalf("acknowledged twice: %v", err)
	}
	settled, err := receipt.Wait(ctx)
	if err != nil || settled.Outcome != Processed || settled.Status != 9 || settled.ID != delivery.ID ||
		settled.ReceiverDurability != "memory" {
		t.Fatalf("%+v, %v", settled, err)
	}
	figures, err := alice.Stats()
	var all map[string]uint64
	if err != nil || json.Unmarshal([]byte(figures), &all) != nil || all["sent"] != 1 {
		t.Fatalf("%s, %v", figures, err)
	}
}

func TestAMessageIsRejected(t *testing.T) {
	alice, bob, ctx := open(t), open(t), within(t)
	receipt, err := alice.Send(bob.Address(), []byte("?"), SendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	delivery, err := bob.Recv(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := delivery.Reject(3, "no such thing"); err != nil {
		t.Fatal(err)
	}
	settled, err := receipt.Wait(ctx)
	if err != nil || settled.Outcome != Rejected || settled.Status != 3 || settled.Reason != "no such thing" {
		t.Fatalf("%+v, %v", settled, err)
	}
}

func TestCallsAreAnswered(t *testing.T) {
	alice, bob, ctx := open(t), open(t), within(t)
	serving, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		done <- bob.Serve(serving, "double", func(r Request) ([]byte, error) {
			if len(r.Body) == 0 {
				return nil, &Failure{Status: 7, Body: []byte("nothing")}
			}
			return append(r.Body, r.Body...), nil
		})
	}()
	// The method may not be served yet.
	var err error
	for {
		if _, err = alice.Call(ctx, bob.Address(), "double", []byte("x")); err == nil {
			break
		}
		var failed *Error
		if !errors.As(err, &failed) || !failed.HasNotRun {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for i := 0; i < 32; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			reply, err := alice.Call(ctx, bob.Address(), "double", []byte("ab"))
			if err != nil || string(reply) != "abab" {
				t.Errorf("%q, %v", reply, err)
			}
		}()
	}
	all.Wait()
	var failed *Error
	_, err = alice.Call(ctx, bob.Address(), "double", nil)
	if !errors.As(err, &failed) || failed.Code != CallFailed || failed.Status != 7 || string(failed.Body) != "nothing" {
		t.Fatalf("%v", err)
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
}

func TestWaitingEnds(t *testing.T) {
	bob := open(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, err := bob.Recv(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v", err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := bob.Recv(context.Background())
		done <- err
	}()
	bob.Close(time.Second)
	if err := <-done; !errors.Is(err, &Error{Code: Closed}) || !says(err, "open another") {
		t.Fatalf("%v", err)
	}
	if _, err := bob.Send("x", nil, SendOptions{}); !errors.Is(err, &Error{Code: Closed}) || !says(err, "open another") {
		t.Fatalf("%v", err)
	}
}

func says(err error, part string) bool { return strings.Contains(err.Error(), part) }

func TestErrorsSayWhatIsWrong(t *testing.T) {
	if _, err := Open(Options{Bind: "nowhere"}); err == nil || !says(err, "nowhere") {
		t.Fatalf("%v", err)
	}
	alice := open(t)
	if _, err := alice.Send("bob", nil, SendOptions{}); !errors.Is(err, &Error{Code: Usage}) || !says(err, "ID@HOST:PORT") {
		t.Fatalf("%v", err)
	}
	if _, err := alice.Send(alice.Address(), nil, SendOptions{Durable: true}); !errors.Is(err, &Error{Code: Usage}) {
		t.Fatalf("%v", err)
	}
}
