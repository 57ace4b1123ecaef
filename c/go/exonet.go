// Package exonet sends messages between machines that arrive exactly once. It is a thin layer over the C library libexonet, which
// pkg-config has to find; docs/c.md is the guide.
package exonet

/*
#cgo pkg-config: exonet
#include <exonet.h>
#include <string.h>

// Plain pointers go to these functions: a struct that holds a pointer of Go must not.
static exonet_str str(const char *data, size_t len) { exonet_str text = {data, len}; return text; }
static exonet_bytes bytes(const void *data, size_t len) { exonet_bytes some = {(const uint8_t *)data, len}; return some; }

struct settings { uint64_t max_message, doubt_timeout_ms, keepalive_ms; uint32_t attempts; };

static exonet_code open_node(const char *dir, size_t dir_len, const char *bind, size_t bind_len, const char *allow,
		size_t allow_len, const char *durability, size_t durability_len, const char *names, size_t names_len,
		struct settings rest, exonet_node **node, exonet_error **error) {
	exonet_node_options options;
	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.state_dir = str(dir, dir_len);
	options.bind = str(bind, bind_len);
	options.allow = str(allow, allow_len);
	options.durability = str(durability, durability_len);
	options.names = str(names, names_len);
	options.max_message = rest.max_message;
	options.doubt_timeout_ms = rest.doubt_timeout_ms;
	options.keepalive_ms = rest.keepalive_ms;
	options.attempts = rest.attempts;
	return exonet_node_open(&options, node, error);
}

struct treatment { uint64_t deadline_ms; bool processed, durable; };

static exonet_send_options send_options(const void *tag, size_t tag_len, const char *trace, size_t trace_len,
		struct treatment how) {
	exonet_send_options options;
	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.tag = bytes(tag, tag_len);
	options.deadline_ms = how.deadline_ms;
	options.confirm = how.processed ? EXONET_CONFIRM_PROCESSED : EXONET_CONFIRM_DELIVERED;
	options.durable = how.durable;
	options.traceparent = str(trace, trace_len);
	return options;
}

static exonet_code send_message(exonet_node *node, const char *peer, size_t peer_len, const void *body, size_t body_len,
		const void *tag, size_t tag_len, const char *trace, size_t trace_len, struct treatment how, exonet_receipt **receipt,
		exonet_error **error) {
	exonet_send_options options = send_options(tag, tag_len, trace, trace_len, how);
	return exonet_send(node, str(peer, peer_len), bytes(body, body_len), &options, receipt, error);
}

static exonet_code answer_message(exonet_delivery *delivery, exonet_node *node, const void *body, size_t body_len,
		const void *tag, size_t tag_len, const char *trace, size_t trace_len, struct treatment how, exonet_receipt **receipt,
		exonet_error **error) {
	exonet_send_options options = send_options(tag, tag_len, trace, trace_len, how);
	return exonet_delivery_answer(delivery, node, bytes(body, body_len), &options, receipt, error);
}

static exonet_code ack_and_send(exonet_delivery *delivery, exonet_node *node, const char *peer, size_t peer_len,
		const void *body, size_t body_len, const void *tag, size_t tag_len, const char *trace, size_t trace_len,
		struct treatment how, exonet_receipt **receipt, exonet_error **error) {
	exonet_send_options options = send_options(tag, tag_len, trace, trace_len, how);
	return exonet_delivery_ack_and_send(delivery, node, str(peer, peer_len), bytes(body, body_len), &options, receipt, error);
}

static exonet_code start_call(exonet_node *node, const char *peer, size_t peer_len, const char *method, size_t method_len,
		const void *body, size_t body_len, uint64_t deadline_ms, exonet_call **call, exonet_error **error) {
	exonet_call_options options;
	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.deadline_ms = deadline_ms;
	return exonet_call_start(node, str(peer, peer_len), str(method, method_len), bytes(body, body_len), &options, call, error);
}

static exonet_code serve_method(exonet_node *node, const char *method, size_t len, exonet_service **service, exonet_error **error) {
	return exonet_serve(node, str(method, len), NULL, service, error);
}

static exonet_code reply(exonet_request *request, const void *body, size_t len, exonet_error **error) {
	return exonet_request_reply(request, bytes(body, len), error);
}

static exonet_code fail(exonet_request *request, uint32_t status, const void *body, size_t len, exonet_error **error) {
	return exonet_request_fail(request, status, bytes(body, len), error);
}

static exonet_code reject(exonet_delivery *delivery, uint32_t status, const char *reason, size_t len, exonet_error **error) {
	return exonet_delivery_reject(delivery, status, str(reason, len), error);
}
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
	"unsafe"
)

// Code says what kind of error it is: EXONET_USAGE and so on, as exonet.h has them.
type Code int32

// Codes that programs ask for.
const (
	Closed         = Code(C.EXONET_CLOSED)
	InDoubt        = Code(C.EXONET_IN_DOUBT)
	NotDelivered   = Code(C.EXONET_NOT_DELIVERED)
	CallFailed     = Code(C.EXONET_CALL_FAILED)
	CallUnknown    = Code(C.EXONET_CALL_UNKNOWN)
	CallExpired    = Code(C.EXONET_CALL_EXPIRED)
	CallCancelled  = Code(C.EXONET_CALL_CANCELLED)
	CallRefused    = Code(C.EXONET_CALL_REFUSED)
	SessionMissing = Code(C.EXONET_SESSION_MISSING)
	SessionEnded   = Code(C.EXONET_SESSION_ENDED)
	SessionAway    = Code(C.EXONET_SESSION_AWAY)
	StreamGap      = Code(C.EXONET_STREAM_GAP)
	StreamBroken   = Code(C.EXONET_STREAM_BROKEN)
	Naming         = Code(C.EXONET_NAMING)
	NotSent        = Code(C.EXONET_NOT_SENT)
	Usage          = Code(C.EXONET_USAGE)
)

// Error is what went wrong.
type Error struct {
	Code    Code
	Message string
	// Status and Body are what a server said of a call that it failed.
	Status uint32
	Body   []byte
	// HasNotRun says of a call that it certainly has not run, and may be made again.
	HasNotRun bool
	// End says, with SessionEnded, how a session has ended.
	End SessionEnd
}

func (e *Error) Error() string { return "exonet: " + e.Message }

// Is makes errors.Is(err, &Error{Code: Closed}) compare codes.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Code == e.Code
}

var errTimeout = errors.New("exonet: it is not there yet")

// failure takes the place of the error, since Go may read the error itself before the call that sets it.
func failure(code C.exonet_code, place **C.exonet_error) error {
	switch {
	case code == C.EXONET_OK:
		return nil
	case code == C.EXONET_TIMEOUT:
		return errTimeout
	}
	err := *place
	defer C.exonet_error_free(err)
	return &Error{
		Code:      Code(code),
		Message:   text(C.exonet_error_message(err)),
		Status:    uint32(C.exonet_error_status(err)),
		Body:      some(C.exonet_error_body(err)),
		HasNotRun: bool(C.exonet_error_has_not_run(err)),
		End:       SessionEnd(C.exonet_error_session_end(err)),
	}
}

func text(s C.exonet_str) string { return C.GoStringN(s.data, C.int(s.len)) }

func some(b C.exonet_bytes) []byte {
	if b.len == 0 {
		return nil
	}
	copied := make([]byte, int(b.len))
	copy(copied, unsafe.Slice((*byte)(unsafe.Pointer(b.data)), int(b.len)))
	return copied
}

func strData(s string) (*C.char, C.size_t) {
	return (*C.char)(unsafe.Pointer(unsafe.StringData(s))), C.size_t(len(s))
}

func bytesData(b []byte) (unsafe.Pointer, C.size_t) {
	return unsafe.Pointer(unsafe.SliceData(b)), C.size_t(len(b))
}

// slice is how long a thread waits in C before it looks whether its context has ended.
const slice = 100 * time.Millisecond

// wait calls one until it is there, fails, or the context ends.
func wait(ctx context.Context, one func(C.int64_t) error) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := one(C.int64_t(slice.Milliseconds())); err != errTimeout {
			return err
		}
	}
}

func millis(d time.Duration) C.uint64_t {
	if d <= 0 {
		return 0
	}
	return C.uint64_t((d + time.Millisecond - 1) / time.Millisecond)
}

// Options say how a node is to be. Each zero is a default: see exonet_node_options in exonet.h.
type Options struct {
	StateDir     string
	Bind         string
	Allow        string // "anyone", or ids with commas between
	Durability   string
	Names        string // "file:PATH" or ID@HOST:PORT: then name:NAME is a peer
	MaxMessage   uint64
	DoubtTimeout time.Duration
	Keepalive    time.Duration
	Attempts     uint32
}

// Node sends and receives messages. Its methods may be called by any goroutine.
type Node struct {
	mu   sync.RWMutex
	node *C.exonet_node
}

// Open opens a node.
func Open(options Options) (*Node, error) {
	var (
		node *C.exonet_node
		err  *C.exonet_error
	)
	dir, dirLen := strData(options.StateDir)
	bind, bindLen := strData(options.Bind)
	allow, allowLen := strData(options.Allow)
	durability, durabilityLen := strData(options.Durability)
	names, namesLen := strData(options.Names)
	rest := C.struct_settings{
		max_message:      C.uint64_t(options.MaxMessage),
		doubt_timeout_ms: millis(options.DoubtTimeout),
		keepalive_ms:     millis(options.Keepalive),
		attempts:         C.uint32_t(options.Attempts),
	}
	code := C.open_node(dir, dirLen, bind, bindLen, allow, allowLen, durability, durabilityLen, names, namesLen, rest,
		&node, &err)
	if failed := failure(code, &err); failed != nil {
		return nil, failed
	}
	return &Node{node: node}, nil
}

// with calls f with the node, which is not freed meanwhile.
func (n *Node) with(f func(*C.exonet_node) error) error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.node == nil {
		return &Error{Code: Closed, Message: "the node is closed: open another"}
	}
	return f(n.node)
}

// ID is the key of the node.
func (n *Node) ID() (id string) {
	n.with(func(node *C.exonet_node) error { id = text(C.exonet_node_id(node)); return nil })
	return id
}

// Address is how the node is reached from the same machine: ID@HOST:PORT.
func (n *Node) Address() (address string) {
	n.with(func(node *C.exonet_node) error { address = text(C.exonet_node_address(node)); return nil })
	return address
}

// Stats gives the figures of the node as JSON.
func (n *Node) Stats() (json string, failed error) {
	failed = n.with(func(node *C.exonet_node) error {
		var (
			figures *C.char
			err     *C.exonet_error
		)
		code := C.exonet_node_stats(node, &figures, &err)
		json = C.GoString(figures)
		C.exonet_text_free(figures)
		return failure(code, &err)
	})
	return json, failed
}

// Close ends the node: it waits until all is settled, for timeout at most, and gives how many messages are not.
func (n *Node) Close(timeout time.Duration) (open uint64, failed error) {
	failed = n.with(func(node *C.exonet_node) error {
		var (
			left C.uint64_t
			err  *C.exonet_error
		)
		code := C.exonet_node_close(node, C.int64_t(millis(timeout)), &left, &err)
		open = uint64(left)
		return failure(code, &err)
	})
	// What waited in the node has been told that it is closed.
	n.mu.Lock()
	defer n.mu.Unlock()
	C.exonet_node_free(n.node)
	n.node = nil
	return open, failed
}

// SendOptions say how a message is to be treated.
type SendOptions struct {
	Tag       []byte
	Deadline  time.Duration
	Processed bool // to be told that the message was processed, not only delivered
	Durable   bool // to be refused by a node without a journal
	// Traceparent is the trace that the message is part of, as in the header of W3C Trace Context.
	Traceparent string
}

func (o SendOptions) how() C.struct_treatment {
	return C.struct_treatment{
		deadline_ms: millis(o.Deadline),
		processed:   C.bool(o.Processed),
		durable:     C.bool(o.Durable),
	}
}

// Outcome is what became of a message.
type Outcome int32

// What may become of a message: see exonet_outcome_kind in exonet.h.
const (
	Delivered Outcome = C.EXONET_DELIVERED
	Processed Outcome = C.EXONET_PROCESSED
	Rejected  Outcome = C.EXONET_REJECTED
	Expired   Outcome = C.EXONET_EXPIRED
	Cancelled Outcome = C.EXONET_CANCELLED
	Refused   Outcome = C.EXONET_REFUSED
	Unknown   Outcome = C.EXONET_UNKNOWN
	Kept      Outcome = C.EXONET_KEPT
)

func (o Outcome) String() string {
	names := []string{"open", "delivered", "processed", "rejected", "expired", "cancelled", "refused", "unknown", "kept"}
	if o < 0 || int(o) >= len(names) {
		return fmt.Sprintf("outcome %d", int32(o))
	}
	return names[o]
}

// Settled is what became of a message, and what was said of it.
type Settled struct {
	Outcome Outcome
	Status  uint32
	Late    bool
	Reason  string
	ID      string
	// The durability level that the receiver has declared: "memory", "process", "batched" or "sync". Empty: the outcome does not
	// come from the receiver.
	ReceiverDurability string
}

// Receipt is a hold on a message that was sent.
type Receipt struct{ receipt *C.exonet_receipt }

// Send sends a message to a peer, ID@HOST:PORT. After an Error with InDoubt, the next process of the identity may send
// it; after any other, nothing was queued.
func (n *Node) Send(peer string, body []byte, options SendOptions) (*Receipt, error) {
	receipt := &Receipt{}
	failed := n.with(func(node *C.exonet_node) error {
		var err *C.exonet_error
		to, toLen := strData(peer)
		data, dataLen := bytesData(body)
		tag, tagLen := bytesData(options.Tag)
		trace, traceLen := strData(options.Traceparent)
		code := C.send_message(node, to, toLen, data, dataLen, tag, tagLen, trace, traceLen, options.how(), &receipt.receipt, &err)
		return failure(code, &err)
	})
	if failed != nil {
		return nil, failed
	}
	return receipt.owned(), nil
}

func (r *Receipt) owned() *Receipt {
	runtime.SetFinalizer(r, func(r *Receipt) { C.exonet_receipt_free(r.receipt) })
	return r
}

// Wait waits for what becomes of the message.
func (r *Receipt) Wait(ctx context.Context) (Settled, error) {
	defer runtime.KeepAlive(r)
	var outcome C.exonet_outcome
	failed := wait(ctx, func(ms C.int64_t) error {
		var err *C.exonet_error
		return failure(C.exonet_receipt_wait(r.receipt, ms, &outcome, &err), &err)
	})
	if failed != nil {
		return Settled{}, failed
	}
	return Settled{
		Outcome: Outcome(outcome.kind),
		Status:  uint32(outcome.status),
		Late:    bool(outcome.late),
		Reason:  text(C.exonet_receipt_reason(r.receipt)),
		ID:      text(C.exonet_receipt_id(r.receipt)),

		ReceiverDurability: text(C.exonet_receipt_receiver_durability(r.receipt)),
	}, nil
}

// Cancel withdraws the message. Asked: it has left, and its outcome tells whether its receiver gave it back.
func (r *Receipt) Cancel() (asked bool, failed error) {
	defer runtime.KeepAlive(r)
	var (
		left C.bool
		err  *C.exonet_error
	)
	code := C.exonet_receipt_cancel(r.receipt, &left, &err)
	return bool(left), failure(code, &err)
}

// Delivery is a received message. It is delivered when Ack or Answer says so; dropped before, it is handed out again.
type Delivery struct {
	From    string
	ID      string
	Tag     []byte
	Body    []byte
	Attempt uint32
	// Traceparent is the trace that the message is part of, or empty.
	Traceparent string

	delivery *C.exonet_delivery
	// node has received the message, unless that is one of a session.
	node *Node
}

// Recv waits for a message.
func (n *Node) Recv(ctx context.Context) (*Delivery, error) {
	var got *C.exonet_delivery
	failed := n.with(func(node *C.exonet_node) error {
		return wait(ctx, func(ms C.int64_t) error {
			var err *C.exonet_error
			return failure(C.exonet_recv(node, ms, &got, &err), &err)
		})
	})
	if failed != nil {
		return nil, failed
	}
	return received(got, n), nil
}

func received(got *C.exonet_delivery, node *Node) *Delivery {
	delivery := &Delivery{
		From:        text(C.exonet_delivery_from(got)),
		ID:          text(C.exonet_delivery_id(got)),
		Tag:         some(C.exonet_delivery_tag(got)),
		Body:        some(C.exonet_delivery_body(got)),
		Attempt:     uint32(C.exonet_delivery_attempt(got)),
		Traceparent: text(C.exonet_delivery_traceparent(got)),
		delivery:    got,
		node:        node,
	}
	runtime.SetFinalizer(delivery, func(d *Delivery) { C.exonet_delivery_free(d.delivery) })
	return delivery
}

// Ack acknowledges the message: from here on it is delivered.
func (d *Delivery) Ack(status uint32) error {
	defer runtime.KeepAlive(d)
	var err *C.exonet_error
	return failure(C.exonet_delivery_ack(d.delivery, C.uint32_t(status), &err), &err)
}

// Answer acknowledges the message and sends an answer to its sender, in one step: both happen, or neither, also if the process is killed and
// the node has a journal. It waits for room in the queue to the sender. A message of a session is answered by Session.Answer.
//
// If it fails, nothing was sent, and the delivery is as it was before: acknowledge, reject or put it off, or answer with something else. Only
// after an Error with NotDelivered, Closed or InDoubt is there nothing left to do. InDoubt: the node ended before the answer was safely on the
// disk, and the next process of the identity may have done both.
func (d *Delivery) Answer(body []byte, options SendOptions) (*Receipt, error) {
	return d.answer(func(node *C.exonet_node, receipt **C.exonet_receipt, err **C.exonet_error) C.exonet_code {
		data, dataLen := bytesData(body)
		tag, tagLen := bytesData(options.Tag)
		trace, traceLen := strData(options.Traceparent)
		return C.answer_message(d.delivery, node, data, dataLen, tag, tagLen, trace, traceLen, options.how(), receipt, err)
	})
}

// AckAndSend acknowledges the message and sends another to any peer, in one step. Everything else is as for Answer.
func (d *Delivery) AckAndSend(peer string, body []byte, options SendOptions) (*Receipt, error) {
	return d.answer(func(node *C.exonet_node, receipt **C.exonet_receipt, err **C.exonet_error) C.exonet_code {
		to, toLen := strData(peer)
		data, dataLen := bytesData(body)
		tag, tagLen := bytesData(options.Tag)
		trace, traceLen := strData(options.Traceparent)
		return C.ack_and_send(d.delivery, node, to, toLen, data, dataLen, tag, tagLen, trace, traceLen, options.how(), receipt, err)
	})
}

func (d *Delivery) answer(send func(*C.exonet_node, **C.exonet_receipt, **C.exonet_error) C.exonet_code) (*Receipt, error) {
	defer runtime.KeepAlive(d)
	if d.node == nil {
		return nil, &Error{Code: Usage, Message: "this is a message of a session: answer it by Session.Answer"}
	}
	receipt := &Receipt{}
	failed := d.node.with(func(node *C.exonet_node) error {
		var err *C.exonet_error
		return failure(send(node, &receipt.receipt, &err), &err)
	})
	if failed != nil {
		return nil, failed
	}
	return receipt.owned(), nil
}

// Reject does not take the message, and will not have it again.
func (d *Delivery) Reject(status uint32, reason string) error {
	defer runtime.KeepAlive(d)
	var err *C.exonet_error
	data, size := strData(reason)
	return failure(C.reject(d.delivery, C.uint32_t(status), data, size, &err), &err)
}

// Retry hands the message out again after a while.
func (d *Delivery) Retry(after time.Duration) error {
	defer runtime.KeepAlive(d)
	var err *C.exonet_error
	return failure(C.exonet_delivery_retry(d.delivery, millis(after), &err), &err)
}

// Call calls a method of a peer. If the context ends first, the call is given up: it has run once or not at all.
func (n *Node) Call(ctx context.Context, peer, method string, body []byte) (reply []byte, failed error) {
	var deadline time.Duration
	if at, ok := ctx.Deadline(); ok {
		if deadline = time.Until(at); deadline <= 0 {
			return nil, context.DeadlineExceeded
		}
	}
	failed = n.with(func(node *C.exonet_node) error {
		var (
			call *C.exonet_call
			err  *C.exonet_error
		)
		to, toLen := strData(peer)
		name, nameLen := strData(method)
		data, dataLen := bytesData(body)
		code := C.start_call(node, to, toLen, name, nameLen, data, dataLen, millis(deadline), &call, &err)
		if failed := failure(code, &err); failed != nil {
			return failed
		}
		defer C.exonet_call_free(call)
		failed := wait(ctx, func(ms C.int64_t) error {
			var err *C.exonet_error
			return failure(C.exonet_call_wait(call, ms, &err), &err)
		})
		reply = some(C.exonet_call_reply(call))
		return failed
	})
	return reply, failed
}

// Request is a call to be answered.
type Request struct {
	Caller string
	ID     string
	Body   []byte
}

// Failure is an error with a number: what a handler returns to say more than that it failed.
type Failure struct {
	Status uint32
	Body   []byte
}

func (f *Failure) Error() string { return fmt.Sprintf("status %d: %s", f.Status, f.Body) }

// Serve answers calls of a method, each in a goroutine of its own, until the context or the node ends.
func (n *Node) Serve(ctx context.Context, method string, handler func(Request) ([]byte, error)) error {
	var service *C.exonet_service
	failed := n.with(func(node *C.exonet_node) error {
		var err *C.exonet_error
		name, size := strData(method)
		return failure(C.serve_method(node, name, size, &service, &err), &err)
	})
	if failed != nil {
		return failed
	}
	var running sync.WaitGroup
	defer C.exonet_service_free(service)
	defer running.Wait()
	for {
		var request *C.exonet_request
		failed := wait(ctx, func(ms C.int64_t) error {
			var err *C.exonet_error
			return failure(C.exonet_service_next(service, ms, &request, &err), &err)
		})
		if failed != nil {
			return failed
		}
		running.Add(1)
		go func() {
			defer running.Done()
			defer C.exonet_request_free(request)
			answer(request, handler)
		}()
	}
}

func answer(request *C.exonet_request, handler func(Request) ([]byte, error)) {
	body, failed := handler(Request{
		Caller: text(C.exonet_request_caller(request)),
		ID:     text(C.exonet_request_id(request)),
		Body:   some(C.exonet_request_body(request)),
	})
	// An answer that comes too late is nobody's any more.
	var said *Failure
	switch {
	case failed == nil:
		data, size := bytesData(body)
		C.reply(request, data, size, nil)
	case errors.As(failed, &said):
		data, size := bytesData(said.Body)
		C.fail(request, C.uint32_t(said.Status), data, size, nil)
	default:
		data, size := bytesData([]byte(failed.Error()))
		C.fail(request, 1, data, size, nil)
	}
}
