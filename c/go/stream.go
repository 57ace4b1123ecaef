package exonet

/*
#include <exonet.h>
#include <string.h>

// Plain pointers go to these functions: a struct that holds a pointer of Go must not.
static exonet_code open_stream(exonet_node *node, const char *peer, size_t peer_len, const char *name, size_t name_len,
		exonet_stream **stream, exonet_error **error) {
	exonet_str to = {peer, peer_len}, called = {name, name_len};
	return exonet_stream_open(node, to, called, stream, error);
}

struct stream_treatment { uint64_t deadline_ms; bool processed, durable; };

static exonet_send_options stream_send_options(const void *tag, size_t tag_len, const char *trace, size_t trace_len,
		struct stream_treatment how) {
	exonet_send_options options;
	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.tag.data = (const uint8_t *)tag;
	options.tag.len = tag_len;
	options.deadline_ms = how.deadline_ms;
	options.confirm = how.processed ? EXONET_CONFIRM_PROCESSED : EXONET_CONFIRM_DELIVERED;
	options.durable = how.durable;
	options.traceparent.data = trace;
	options.traceparent.len = trace_len;
	return options;
}

static exonet_code send_in_stream(exonet_stream *stream, const void *body, size_t body_len, const void *tag, size_t tag_len,
		const char *trace, size_t trace_len, struct stream_treatment how, exonet_receipt **receipt, exonet_error **error) {
	exonet_send_options options = stream_send_options(tag, tag_len, trace, trace_len, how);
	exonet_bytes all = {(const uint8_t *)body, body_len};
	return exonet_stream_send(stream, all, &options, receipt, error);
}

static exonet_code ack_and_send_in_stream(exonet_stream *stream, exonet_delivery *delivery, const void *body, size_t body_len,
		const void *tag, size_t tag_len, const char *trace, size_t trace_len, struct stream_treatment how,
		exonet_receipt **receipt, exonet_error **error) {
	exonet_send_options options = stream_send_options(tag, tag_len, trace, trace_len, how);
	exonet_bytes all = {(const uint8_t *)body, body_len};
	return exonet_stream_ack_and_send(stream, delivery, all, &options, receipt, error);
}
*/
import "C"

import (
	"context"
	"io"
	"runtime"
)

// Stream is one end of a stream: messages in order, in both directions. A stream that is collected ends neither direction: another handle
// continues at the same place.
type Stream struct {
	Name string
	Peer string

	stream *C.exonet_stream
	node   *Node
}

func streamed(stream *C.exonet_stream, node *Node) *Stream {
	s := &Stream{
		Name:   text(C.exonet_stream_name(stream)),
		Peer:   text(C.exonet_stream_peer(stream)),
		stream: stream,
		node:   node,
	}
	runtime.SetFinalizer(s, func(s *Stream) { C.exonet_stream_free(s.stream) })
	return s
}

// OpenStream takes a handle on the stream with a peer, under a name of 1 to 255 bytes. Nothing is sent yet. There can be one handle for a
// peer and a name at a time.
func (n *Node) OpenStream(peer, name string) (*Stream, error) {
	var stream *C.exonet_stream
	failed := n.with(func(node *C.exonet_node) error {
		var err *C.exonet_error
		to, toLen := strData(peer)
		called, calledLen := strData(name)
		return failure(C.open_stream(node, to, toLen, called, calledLen, &stream, &err), &err)
	})
	if failed != nil {
		return nil, failed
	}
	return streamed(stream, n), nil
}

// AcceptStream waits for a stream that a peer has begun.
func (n *Node) AcceptStream(ctx context.Context) (*Stream, error) {
	var stream *C.exonet_stream
	failed := n.with(func(node *C.exonet_node) error {
		return wait(ctx, func(ms C.int64_t) error {
			var err *C.exonet_error
			return failure(C.exonet_stream_accept(node, ms, &stream, &err), &err)
		})
	})
	if failed != nil {
		return nil, failed
	}
	return streamed(stream, n), nil
}

func (o SendOptions) inStream() C.struct_stream_treatment {
	return C.struct_stream_treatment{
		deadline_ms: millis(o.Deadline),
		processed:   C.bool(o.Processed),
		durable:     C.bool(o.Durable),
	}
}

// Send sends a message after all earlier ones of the stream. It has no tag.
func (s *Stream) Send(body []byte, options SendOptions) (*Receipt, error) {
	defer runtime.KeepAlive(s)
	var (
		receipt = &Receipt{}
		err     *C.exonet_error
	)
	data, size := bytesData(body)
	tag, tagLen := bytesData(options.Tag)
	trace, traceLen := strData(options.Traceparent)
	code := C.send_in_stream(s.stream, data, size, tag, tagLen, trace, traceLen, options.inStream(), &receipt.receipt, &err)
	if failed := failure(code, &err); failed != nil {
		return nil, failed
	}
	return receipt.owned(), nil
}

// AckAndSend acknowledges a message and sends another in the stream, in one step: see Delivery.Answer. The delivery may be of this stream, of
// another, or of none.
func (s *Stream) AckAndSend(delivery *Delivery, body []byte, options SendOptions) (*Receipt, error) {
	defer runtime.KeepAlive(s)
	defer runtime.KeepAlive(delivery)
	var (
		receipt = &Receipt{}
		err     *C.exonet_error
	)
	data, size := bytesData(body)
	tag, tagLen := bytesData(options.Tag)
	trace, traceLen := strData(options.Traceparent)
	code := C.ack_and_send_in_stream(s.stream, delivery.delivery, data, size, tag, tagLen, trace, traceLen, options.inStream(),
		&receipt.receipt, &err)
	if failed := failure(code, &err); failed != nil {
		return nil, failed
	}
	return receipt.owned(), nil
}

// Recv waits for the next message, which is handed out when the one before it has been acknowledged, rejected or put off. io.EOF: the stream
// has ended, and everything was received. An Error with StreamGap is returned once, and the next call continues after what is missing; one
// with StreamBroken says that there is no more.
func (s *Stream) Recv(ctx context.Context) (*Delivery, error) {
	defer runtime.KeepAlive(s)
	var got *C.exonet_delivery
	failed := wait(ctx, func(ms C.int64_t) error {
		var err *C.exonet_error
		code := C.exonet_stream_recv(s.stream, ms, &got, &err)
		if code == C.EXONET_STREAM_ENDED {
			C.exonet_error_free(err)
			return io.EOF
		}
		return failure(code, &err)
	})
	if failed != nil {
		return nil, failed
	}
	return received(got, s.node), nil
}

// Close ends this direction after all messages that were sent in it. The receipt tells when the peer's application has received the end.
func (s *Stream) Close() (*Receipt, error) {
	return s.end(func(receipt **C.exonet_receipt, err **C.exonet_error) C.exonet_code {
		return C.exonet_stream_close(s.stream, receipt, err)
	})
}

// Reset ends this direction, and cancels the messages that have not left. The peer's Recv fails with StreamBroken after those that have.
// It waits for a Send of another goroutine in this stream, and for room.
func (s *Stream) Reset() (*Receipt, error) {
	return s.end(func(receipt **C.exonet_receipt, err **C.exonet_error) C.exonet_code {
		return C.exonet_stream_reset(s.stream, receipt, err)
	})
}

func (s *Stream) end(how func(**C.exonet_receipt, **C.exonet_error) C.exonet_code) (*Receipt, error) {
	defer runtime.KeepAlive(s)
	var (
		receipt = &Receipt{}
		err     *C.exonet_error
	)
	code := how(&receipt.receipt, &err)
	if failed := failure(code, &err); failed != nil {
		return nil, failed
	}
	return receipt.owned(), nil
}
