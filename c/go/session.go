package exonet

/*
#include <exonet.h>
#include <string.h>

// Plain pointers go to these functions: a struct that holds a pointer of Go must not.
struct session_limits { int64_t idle_ms; uint64_t life_ms, longest; };

static exonet_session_options session_options(struct session_limits limits) {
	exonet_session_options options;
	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.idle_ms = limits.idle_ms;
	options.life_ms = limits.life_ms;
	options.longest = limits.longest;
	return options;
}

static exonet_code open_session(exonet_node *node, const char *peer, size_t peer_len, const char *name, size_t name_len,
		const char *id, size_t id_len, struct session_limits limits, exonet_session **session, exonet_error **error) {
	exonet_session_options options = session_options(limits);
	exonet_str to = {peer, peer_len}, called = {name, name_len}, known = {id, id_len};
	if (id_len > 0) {
		return exonet_session_attach(node, to, called, known, &options, session, error);
	}
	return exonet_session_open(node, to, called, &options, session, error);
}

static exonet_code accept_session(exonet_node *node, int64_t timeout_ms, uint64_t longest, exonet_session **session,
		exonet_error **error) {
	struct session_limits limits = {0, 0, longest};
	exonet_session_options options = session_options(limits);
	return exonet_session_accept(node, timeout_ms, &options, session, error);
}

struct session_treatment { uint64_t deadline_ms; bool processed, durable; };

static exonet_send_options session_send_options(const char *trace, size_t trace_len, struct session_treatment how) {
	exonet_send_options options;
	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.deadline_ms = how.deadline_ms;
	options.confirm = how.processed ? EXONET_CONFIRM_PROCESSED : EXONET_CONFIRM_DELIVERED;
	options.durable = how.durable;
	options.traceparent.data = trace;
	options.traceparent.len = trace_len;
	return options;
}

static exonet_code send_in_session(exonet_session *session, const void *body, size_t body_len, const char *trace,
		size_t trace_len, struct session_treatment how, exonet_receipt **receipt, exonet_error **error) {
	exonet_send_options options = session_send_options(trace, trace_len, how);
	exonet_bytes all = {(const uint8_t *)body, body_len};
	return exonet_session_send(session, all, &options, receipt, error);
}

static exonet_code answer_in_session(exonet_session *session, exonet_delivery *delivery, const void *body, size_t body_len,
		const char *trace, size_t trace_len, struct session_treatment how, exonet_receipt **receipt, exonet_error **error) {
	exonet_send_options options = session_send_options(trace, trace_len, how);
	exonet_bytes all = {(const uint8_t *)body, body_len};
	return exonet_session_answer(session, delivery, all, &options, receipt, error);
}

static exonet_code begin_in_session(exonet_session *session, const char *trace, size_t trace_len,
		struct session_treatment how, exonet_session_writer **writer, exonet_error **error) {
	exonet_send_options options = session_send_options(trace, trace_len, how);
	return exonet_session_begin(session, &options, writer, error);
}

static exonet_code write_in_session(exonet_session_writer *writer, const void *data, size_t len, exonet_error **error) {
	exonet_bytes some = {(const uint8_t *)data, len};
	return exonet_session_writer_write(writer, some, error);
}

static exonet_code refuse_session(exonet_session *session, const char *reason, size_t len, exonet_error **error) {
	exonet_str why = {reason, len};
	return exonet_session_refuse(session, why, error);
}
*/
import "C"

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"time"
)

// SessionEnd is how a session has ended.
type SessionEnd int32

// How a session may end: see exonet_session_end in exonet.h.
const (
	EndNone      SessionEnd = C.EXONET_END_NONE
	EndClosed    SessionEnd = C.EXONET_END_CLOSED
	EndAborted   SessionEnd = C.EXONET_END_ABORTED
	EndRefused   SessionEnd = C.EXONET_END_REFUSED
	EndExpired   SessionEnd = C.EXONET_END_EXPIRED
	EndForgotten SessionEnd = C.EXONET_END_FORGOTTEN
)

func (e SessionEnd) String() string {
	names := []string{"none", "closed", "aborted", "refused", "expired", "forgotten"}
	if e < 0 || int(e) >= len(names) {
		return fmt.Sprintf("end %d", int32(e))
	}
	return names[e]
}

// SessionChange is what has changed in a session.
type SessionChange int32

// What may change in a session: see exonet_session_change in exonet.h.
const (
	ChangeOther     SessionChange = C.EXONET_CHANGE_OTHER
	ChangeAccepted  SessionChange = C.EXONET_CHANGE_ACCEPTED
	ChangeConnected SessionChange = C.EXONET_CHANGE_CONNECTED
	ChangeAway      SessionChange = C.EXONET_CHANGE_AWAY
	ChangeBack      SessionChange = C.EXONET_CHANGE_BACK
	ChangeMoved     SessionChange = C.EXONET_CHANGE_MOVED
	ChangeRestarted SessionChange = C.EXONET_CHANGE_RESTARTED
	ChangeClosing   SessionChange = C.EXONET_CHANGE_CLOSING
	ChangeEnded     SessionChange = C.EXONET_CHANGE_ENDED
)

// SessionEvent tells what has changed in a session.
type SessionEvent struct {
	Change SessionChange
	// Address is the peer's, with ChangeConnected and ChangeMoved.
	Address string
	// Duration is how long the peer has been away, with ChangeAway and ChangeBack.
	Duration time.Duration
	// End and Reason say how the session has ended, with ChangeEnded.
	End    SessionEnd
	Reason string
}

// SessionOptions are the limits of a session. Each zero is a default: see exonet_session_options in exonet.h.
type SessionOptions struct {
	Idle    time.Duration // negative: never
	Life    time.Duration
	Longest uint64
}

// Session is one end of a session: messages in order, in both directions. A session that is collected before it has ended, or was closed or
// detached, is aborted, unless its node was closed first.
type Session struct {
	ID       string
	Name     string
	Peer     string
	IsClient bool

	session *C.exonet_session
}

func held(session *C.exonet_session) *Session {
	s := &Session{
		ID:       text(C.exonet_session_id(session)),
		Name:     text(C.exonet_session_name(session)),
		Peer:     text(C.exonet_session_peer(session)),
		IsClient: bool(C.exonet_session_is_client(session)),
		session:  session,
	}
	runtime.SetFinalizer(s, func(s *Session) { C.exonet_session_free(s.session) })
	return s
}

// OpenSession opens a session with a peer, under a name of 1 to 200 bytes. It does not wait for the peer.
func (n *Node) OpenSession(peer, name string, options SessionOptions) (*Session, error) {
	return n.session(peer, name, "", options)
}

// AttachSession takes a handle on a session that this identity takes part in already, by its ID.
func (n *Node) AttachSession(peer, name, id string, options SessionOptions) (*Session, error) {
	if id == "" {
		return nil, &Error{Code: Usage, Message: "the id of the session is empty"}
	}
	return n.session(peer, name, id, options)
}

func (n *Node) session(peer, name, id string, options SessionOptions) (*Session, error) {
	limits := C.struct_session_limits{
		idle_ms: C.int64_t(millis(options.Idle)),
		life_ms: millis(options.Life),
		longest: C.uint64_t(options.Longest),
	}
	if options.Idle < 0 {
		limits.idle_ms = -1
	}
	var session *C.exonet_session
	failed := n.with(func(node *C.exonet_node) error {
		var err *C.exonet_error
		to, toLen := strData(peer)
		called, calledLen := strData(name)
		known, knownLen := strData(id)
		return failure(C.open_session(node, to, toLen, called, calledLen, known, knownLen, limits, &session, &err), &err)
	})
	if failed != nil {
		return nil, failed
	}
	return held(session), nil
}

// AcceptSession waits for a session that a peer has opened. Messages of more than longest bytes are rejected; 0 is the default, 16 MiB.
func (n *Node) AcceptSession(ctx context.Context, longest uint64) (*Session, error) {
	var session *C.exonet_session
	failed := n.with(func(node *C.exonet_node) error {
		return wait(ctx, func(ms C.int64_t) error {
			var err *C.exonet_error
			return failure(C.accept_session(node, ms, C.uint64_t(longest), &session, &err), &err)
		})
	})
	if failed != nil {
		return nil, failed
	}
	return held(session), nil
}

func (o SendOptions) treatment() (C.struct_session_treatment, error) {
	if len(o.Tag) > 0 {
		return C.struct_session_treatment{}, &Error{Code: NotSent, Message: "a message of a session has no tag of its own"}
	}
	return C.struct_session_treatment{
		deadline_ms: millis(o.Deadline),
		processed:   C.bool(o.Processed),
		durable:     C.bool(o.Durable),
	}, nil
}

// Send sends a message of any size after all earlier ones of the session.
func (s *Session) Send(body []byte, options SendOptions) (*Receipt, error) {
	defer runtime.KeepAlive(s)
	how, failed := options.treatment()
	if failed != nil {
		return nil, failed
	}
	var (
		receipt = &Receipt{}
		err     *C.exonet_error
	)
	data, size := bytesData(body)
	trace, traceLen := strData(options.Traceparent)
	code := C.send_in_session(s.session, data, size, trace, traceLen, how, &receipt.receipt, &err)
	if failed := failure(code, &err); failed != nil {
		return nil, failed
	}
	return receipt.owned(), nil
}

// Answer acknowledges a message of the session and sends another in the session, in one step: see Delivery.Answer. If the handle gives the
// session up while this waits for room, the Error has Closed, and the message is handed out again.
func (s *Session) Answer(delivery *Delivery, body []byte, options SendOptions) (*Receipt, error) {
	defer runtime.KeepAlive(s)
	defer runtime.KeepAlive(delivery)
	how, failed := options.treatment()
	if failed != nil {
		return nil, failed
	}
	var (
		receipt = &Receipt{}
		err     *C.exonet_error
	)
	data, size := bytesData(body)
	trace, traceLen := strData(options.Traceparent)
	code := C.answer_in_session(s.session, delivery.delivery, data, size, trace, traceLen, how, &receipt.receipt, &err)
	if failed := failure(code, &err); failed != nil {
		return nil, failed
	}
	return receipt.owned(), nil
}

// SessionWriter is a message of a session that is written in chunks. Until it is finished or closed, no other message can be sent in the
// session.
type SessionWriter struct{ writer *C.exonet_session_writer }

// Begin begins a message that is written in chunks.
func (s *Session) Begin(options SendOptions) (*SessionWriter, error) {
	defer runtime.KeepAlive(s)
	how, failed := options.treatment()
	if failed != nil {
		return nil, failed
	}
	var (
		writer = &SessionWriter{}
		err    *C.exonet_error
	)
	trace, traceLen := strData(options.Traceparent)
	code := C.begin_in_session(s.session, trace, traceLen, how, &writer.writer, &err)
	if failed := failure(code, &err); failed != nil {
		return nil, failed
	}
	runtime.SetFinalizer(writer, func(w *SessionWriter) { C.exonet_session_writer_free(w.writer) })
	return writer, nil
}

// Write adds to the message. It waits for room.
func (w *SessionWriter) Write(data []byte) (int, error) {
	defer runtime.KeepAlive(w)
	var err *C.exonet_error
	some, size := bytesData(data)
	if failed := failure(C.write_in_session(w.writer, some, size, &err), &err); failed != nil {
		return 0, failed
	}
	return len(data), nil
}

// Finish ends the message: from here on the peer gets it, as a whole.
func (w *SessionWriter) Finish() (*Receipt, error) {
	defer runtime.KeepAlive(w)
	var (
		receipt = &Receipt{}
		err     *C.exonet_error
	)
	code := C.exonet_session_writer_finish(w.writer, &receipt.receipt, &err)
	if failed := failure(code, &err); failed != nil {
		return nil, failed
	}
	return receipt.owned(), nil
}

// Close gives the message up if it was not finished: the peer sees nothing of it.
func (w *SessionWriter) Close() error {
	runtime.SetFinalizer(w, nil)
	C.exonet_session_writer_free(w.writer)
	w.writer = nil
	return nil
}

// Recv waits for the next message. io.EOF: the peer has closed the session, and everything was received. An Error with SessionMissing is
// returned once, and the next call continues after what is missing; one with SessionEnded is returned from then on.
func (s *Session) Recv(ctx context.Context) (*Delivery, error) {
	defer runtime.KeepAlive(s)
	var got *C.exonet_delivery
	failed := wait(ctx, func(ms C.int64_t) error {
		var err *C.exonet_error
		code := C.exonet_session_recv(s.session, ms, &got, &err)
		if code == C.EXONET_SESSION_FINISHED {
			C.exonet_error_free(err)
			return io.EOF
		}
		return failure(code, &err)
	})
	if failed != nil {
		return nil, failed
	}
	return received(got, nil), nil
}

// NextEvent waits for what happens in the session beside messages. What the peer's application does is noticed only while Recv waits.
func (s *Session) NextEvent(ctx context.Context) (SessionEvent, error) {
	defer runtime.KeepAlive(s)
	var event *C.exonet_session_event
	failed := wait(ctx, func(ms C.int64_t) error {
		var err *C.exonet_error
		return failure(C.exonet_session_next_event(s.session, ms, &event, &err), &err)
	})
	if failed != nil {
		return SessionEvent{}, failed
	}
	defer C.exonet_session_event_free(event)
	return SessionEvent{
		Change:   SessionChange(C.exonet_session_event_change(event)),
		Address:  text(C.exonet_session_event_address(event)),
		Duration: time.Duration(C.exonet_session_event_duration(event)) * time.Millisecond,
		End:      SessionEnd(C.exonet_session_event_end(event)),
		Reason:   text(C.exonet_session_event_reason(event)),
	}, nil
}

// Finish sends nothing more: the peer is told so after all earlier messages. Messages of the peer can still be received.
func (s *Session) Finish() (*Receipt, error) {
	defer runtime.KeepAlive(s)
	var (
		receipt = &Receipt{}
		err     *C.exonet_error
	)
	if failed := failure(C.exonet_session_finish(s.session, &receipt.receipt, &err), &err); failed != nil {
		return nil, failed
	}
	return receipt.owned(), nil
}

// Close ends the session: what was sent gets timeout at most to arrive. An Error with SessionAway says that not all has.
func (s *Session) Close(timeout time.Duration) error {
	defer runtime.KeepAlive(s)
	var err *C.exonet_error
	return failure(C.exonet_session_close(s.session, C.int64_t(millis(timeout)), &err), &err)
}

// Abort ends the session now: what has not left is cancelled.
func (s *Session) Abort() error {
	defer runtime.KeepAlive(s)
	var err *C.exonet_error
	return failure(C.exonet_session_abort(s.session, &err), &err)
}

// Refuse refuses a session that the peer has opened, and tells it why.
func (s *Session) Refuse(reason string) error {
	defer runtime.KeepAlive(s)
	var err *C.exonet_error
	data, size := strData(reason)
	return failure(C.refuse_session(s.session, data, size, &err), &err)
}

// Detach gives the handle up, and leaves the session as it is, for AttachSession or AcceptSession.
func (s *Session) Detach() error {
	defer runtime.KeepAlive(s)
	var err *C.exonet_error
	return failure(C.exonet_session_detach(s.session, &err), &err)
}
