package exonet

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// short opens a node that sends messages of 1,000 bytes at most.
func short(t *testing.T) *Node {
	t.Helper()
	node, err := Open(Options{Bind: "127.0.0.1:0", Allow: "anyone", MaxMessage: 1_000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { node.Close(time.Second) })
	return node
}

// asks sends a question, and gives it as it was received.
func asks(t *testing.T, ctx context.Context, alice, bob *Node) (*Receipt, *Delivery) {
	t.Helper()
	receipt, err := alice.Send(bob.Address(), []byte("question"), SendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return receipt, next(t, ctx, bob)
}

// next gives the next message of a node.
func next(t *testing.T, ctx context.Context, node *Node) *Delivery {
	t.Helper()
	delivery, err := node.Recv(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return delivery
}

// becomes waits for the outcome of a message, which is this one.
func becomes(t *testing.T, ctx context.Context, receipt *Receipt, outcome Outcome) Settled {
	t.Helper()
	settled, err := receipt.Wait(ctx)
	if err != nil || settled.Outcome != outcome {
		t.Fatalf("%+v, %v", settled, err)
	}
	return settled
}

// isTooLong answers with more than a node of short sends.
func isTooLong(t *testing.T, delivery *Delivery) {
	t.Helper()
	receipt, err := delivery.Answer(make([]byte, 2_000), SendOptions{})
	if receipt != nil || !errors.Is(err, &Error{Code: NotSent}) || !strings.Contains(err.Error(), "2000 bytes") {
		t.Fatalf("%v", err)
	}
}

func TestAMessageIsAnswered(t *testing.T) {
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	alice, bob, carol, ctx := open(t), short(t), open(t), within(t)
	asked, question := asks(t, ctx, alice, bob)
	how := SendOptions{Tag: []byte("t"), Processed: true, Traceparent: trace}
	answered, err := question.Answer([]byte("answer"), how)
	if err != nil {
		t.Fatal(err)
	}
	becomes(t, ctx, asked, Delivered)
	if err := question.Ack(0); !errors.Is(err, &Error{Code: Usage}) {
		t.Fatalf("acknowledged after the answer: %v", err)
	}
	answer := next(t, ctx, alice)
	if answer.From != bob.ID() || string(answer.Tag) != "t" || string(answer.Body) != "answer" || answer.Traceparent != trace {
		t.Fatalf("%+v", answer)
	}
	if err := answer.Ack(5); err != nil {
		t.Fatal(err)
	}
	if settled := becomes(t, ctx, answered, Processed); settled.Status != 5 || settled.ID != answer.ID {
		t.Fatalf("%+v", settled)
	}

	asked, question = asks(t, ctx, alice, bob)
	if _, err := question.AckAndSend("nobody", nil, SendOptions{}); !errors.Is(err, &Error{Code: Usage}) {
		t.Fatalf("%v", err)
	}
	sent, err := question.AckAndSend(carol.Address(), []byte("and on"), SendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	on := next(t, ctx, carol)
	if on.From != bob.ID() || string(on.Body) != "and on" {
		t.Fatalf("%+v", on)
	}
	if err := on.Ack(0); err != nil {
		t.Fatal(err)
	}
	becomes(t, ctx, asked, Delivered)
	becomes(t, ctx, sent, Delivered)
}

func TestAnAnswerThatIsNotSentLeavesTheMessage(t *testing.T) {
	alice, bob, ctx := open(t), short(t), within(t)
	asked, question := asks(t, ctx, alice, bob)
	isTooLong(t, question)
	if err := question.Retry(0); err != nil {
		t.Fatal(err)
	}
	question = next(t, ctx, bob)
	if question.Attempt != 2 {
		t.Fatalf("%+v", question)
	}
	isTooLong(t, question)
	if _, err := question.Answer([]byte("in short"), SendOptions{}); err != nil {
		t.Fatal(err)
	}
	becomes(t, ctx, asked, Delivered)
	answer := next(t, ctx, alice)
	if string(answer.Body) != "in short" {
		t.Fatalf("%+v", answer)
	}
	if err := answer.Ack(0); err != nil {
		t.Fatal(err)
	}

	asked, question = asks(t, ctx, alice, bob)
	isTooLong(t, question)
	if err := question.Reject(7, "it has no answer"); err != nil {
		t.Fatal(err)
	}
	if settled := becomes(t, ctx, asked, Rejected); settled.Status != 7 || settled.Reason != "it has no answer" {
		t.Fatalf("%+v", settled)
	}

	_, question = asks(t, ctx, alice, bob)
	bob.Close(0)
	if _, err := question.Answer([]byte("late"), SendOptions{}); !errors.Is(err, &Error{Code: Closed}) {
		t.Fatalf("%v", err)
	}
}

func TestASessionIsAnsweredInTheSession(t *testing.T) {
	alice, bob, ctx := open(t), open(t), within(t)
	client, server := talk(t, ctx, alice, bob)
	asked, err := client.Send([]byte("question"), SendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	question, err := server.Recv(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := question.Answer(nil, SendOptions{}); !errors.Is(err, &Error{Code: Usage}) {
		t.Fatalf("%v", err)
	}
	if _, err := question.AckAndSend(alice.Address(), nil, SendOptions{}); !errors.Is(err, &Error{Code: Usage}) {
		t.Fatalf("%v", err)
	}
	if _, err := server.Answer(question, nil, SendOptions{Tag: []byte("x")}); !errors.Is(err, &Error{Code: NotSent}) {
		t.Fatalf("%v", err)
	}
	_, plain := asks(t, ctx, alice, bob)
	if _, err := server.Answer(plain, nil, SendOptions{}); !errors.Is(err, &Error{Code: Usage}) {
		t.Fatalf("%v", err)
	}
	if err := plain.Ack(0); err != nil {
		t.Fatal(err)
	}
	body := bytes.Repeat([]byte("0123456789"), 30_000)
	if _, err := server.Answer(question, body, SendOptions{}); err != nil {
		t.Fatal(err)
	}
	hears(t, ctx, client, body)
	becomes(t, ctx, asked, Delivered)

	asked, err = client.Send([]byte("one more"), SendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if question, err = server.Recv(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Finish(); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Answer(question, []byte("late"), SendOptions{}); !errors.Is(err, &Error{Code: NotSent}) {
		t.Fatalf("%v", err)
	}
	if err := question.Ack(0); err != nil {
		t.Fatal(err)
	}
	becomes(t, ctx, asked, Delivered)
}
