// Exonet sends messages between machines. Each message arrives exactly once. docs/c.md is the guide.
//
// cbindgen writes this file from c/src. A test compares the two.
//
// Texts: a text is UTF-8, with its length in bytes (exonet_str). A text that the library returns also ends with a NUL, which the length does
// not count. If the pointer of a text or of bytes is NULL, its length must be 0.
//
// Handles: a handle is a pointer to a type that this file does not define. A function that makes a handle writes it to the parameter before
// the last one. If the function fails, it writes NULL there. The caller owns the handle, and frees it once, with the function of its type
// whose name ends in _free. These functions accept NULL, and then do nothing. Handles may be freed in any order.
//
// Memory: texts and bytes that a function returns from a handle are valid until that handle is freed. The library copies the texts, bytes
// and options that a caller passes, so the caller may free them after the call.
//
// Errors: a function that can fail returns an exonet_code. Its last parameter is an exonet_error **, which may be NULL. If the code is
// EXONET_OK or EXONET_TIMEOUT, the function sets it to NULL. Otherwise it sets it to an error, which the caller owns.
//
// Times: all times are in milliseconds, in whole numbers. With a negative timeout a function waits until there is a result. With a timeout
// of 0 it returns at once.
//
// Options: each struct of options begins with its size, so that later versions can add fields at its end. A field that is 0 has its default.
// A pointer that is NULL means that all fields have their defaults: exonet_send_options options = {.size = sizeof options};
//
// Events: an event belongs to a node. The program takes it with exonet_node_next_event, or has it passed to the callback of the node. The
// token of an event is a number that the program chose for the message, call, method or session.
//
// Threads: any thread may call any function, and several threads may use a handle at the same time. A thread may free a handle only when
// no other thread uses it. After a fork, only one of the two processes may use the library: the parent, or the child if the parent has not
// used it before.

#ifndef EXONET_H
#define EXONET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The version of this interface. Functions and fields may be added without a change of it.
#define EXONET_ABI 1

// All members get the message, and all must have it.
#define EXONET_MODE_ALL 0

// All members get the message, and one must have it. Then the other copies are withdrawn.
#define EXONET_MODE_ANY 1

// `send` members get the message, the cheapest by what is known of them, and `acks` of them must have it. A member
// that certainly does not get it is replaced. Then the other copies are withdrawn.
#define EXONET_MODE_QUORUM 2

// The `send` cheapest members get the message, and all of these must have it. A member that certainly does not get it,
// or does not take it for a while, is replaced.
#define EXONET_MODE_BALANCED 3

// The sender is told that the receiving application has the message. The default.
#define EXONET_CONFIRM_DELIVERED 0

// The sender is told that the receiving application has processed the message.
#define EXONET_CONFIRM_PROCESSED 1

// Before all others.
#define EXONET_PRIORITY_URGENT 1

// The default.
#define EXONET_PRIORITY_NORMAL 0

// After normal ones.
#define EXONET_PRIORITY_LOW -1

// After all others.
#define EXONET_PRIORITY_BULK -2

// The result of a function.
enum exonet_code
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Success.
    EXONET_OK = 0,
    // The result is not there yet. The operation continues: wait again.
    EXONET_TIMEOUT = 1,
    // An argument is wrong, or the function cannot be called now. The message says which.
    EXONET_USAGE = 2,
    // The node is closed, or the object of the call has ended.
    EXONET_CLOSED = 3,
    // The node, or the session, could not be opened.
    EXONET_NOT_OPENED = 4,
    // The message was not accepted: nothing has been queued.
    EXONET_NOT_SENT = 5,
    // The queue to the peer is full, and the caller did not want to wait: nothing has been queued.
    EXONET_FULL = 6,
    // The message was not delivered, and must not be acted on: its record is gone.
    EXONET_NOT_DELIVERED = 7,
    // The message is settled, or has left and cannot be withdrawn: its outcome tells which.
    EXONET_NOT_CANCELLED = 8,
    // The call was answered by a failure: see exonet_error_status and exonet_error_body.
    EXONET_CALL_FAILED = 9,
    // The call ran once or not at all, and it will not be known which.
    EXONET_CALL_UNKNOWN = 10,
    // The deadline of the call came before it left: it certainly does not run.
    EXONET_CALL_EXPIRED = 11,
    // The call was withdrawn before it left: it certainly does not run.
    EXONET_CALL_CANCELLED = 12,
    // The call was not accepted, here or by the peer: it certainly does not run.
    EXONET_CALL_REFUSED = 13,
    // The method cannot be served.
    EXONET_NOT_SERVED = 14,
    // The system refuses a resource: a thread, a pipe.
    EXONET_SYSTEM = 15,
    // A fault of the library, which should be reported. The handle may only be freed.
    EXONET_PANIC = 16,
    // The stream has ended, and all of it was received.
    EXONET_STREAM_ENDED = 17,
    // Messages are missing here in the stream, or came before this process. The stream continues after them.
    EXONET_STREAM_GAP = 18,
    // The sender has given up the rest of the stream, or has forgotten it: there is no more.
    EXONET_STREAM_BROKEN = 19,
    // The peer has closed the session, and all its messages were received.
    EXONET_SESSION_FINISHED = 20,
    // Messages are missing here in the session. The session continues after them.
    EXONET_SESSION_MISSING = 21,
    // The session has ended, and not because both ends closed it: see exonet_error_session_end.
    EXONET_SESSION_ENDED = 22,
    // The peer has not settled all messages of the session in time. The node continues with them.
    EXONET_SESSION_AWAY = 23,
    // The name service does not answer, does not know the name, or refuses: the message says which.
    EXONET_NAMING = 24,
    // The node ended before what was to be sent was safely on the disk: the next process of the identity may send it.
    EXONET_IN_DOUBT = 25,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum exonet_code exonet_code;
#else
typedef int32_t exonet_code;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The kind of an event.
enum exonet_event_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // A message has arrived: `delivery`. After exonet_node_watch_messages.
    EXONET_EVENT_MESSAGE = 1,
    // A message that was sent with `notify` is settled: `token` and `outcome`.
    EXONET_EVENT_SETTLED = 2,
    // A call that was made with `notify` has ended: `token`. exonet_call_wait tells how.
    EXONET_EVENT_CALL_ENDED = 3,
    // A call of a method that is served with `notify` has to be answered: `token` and `request`.
    EXONET_EVENT_REQUEST = 4,
    // The node was closed. The last event.
    EXONET_EVENT_CLOSED = 5,
    // A peer has opened a session: `session`. After exonet_node_watch_sessions.
    EXONET_EVENT_SESSION_OPENED = 6,
    // A message of a session has arrived: `token` and `delivery`. After exonet_session_watch.
    EXONET_EVENT_SESSION_MESSAGE = 7,
    // Something has changed in a session: `token` and `session_event`. After exonet_session_watch.
    EXONET_EVENT_SESSION_CHANGED = 8,
    // The verdict on a message that was sent to a group with `notify` is known: `token`. exonet_group_receipt_wait
    // tells it.
    EXONET_EVENT_GROUP_DECIDED = 9,
    // A message that was sent to a group with `notify` has ended at every member: `token`. After
    // EXONET_EVENT_GROUP_DECIDED.
    EXONET_EVENT_GROUP_ENDED = 10,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum exonet_event_kind exonet_event_kind;
#else
typedef int32_t exonet_event_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The kind of a message's outcome.
enum exonet_outcome_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // There is no outcome yet.
    EXONET_OPEN = 0,
    // The receiving application has the message, once.
    EXONET_DELIVERED = 1,
    // The receiving application has processed it: `status`. For a message with EXONET_CONFIRM_PROCESSED.
    EXONET_PROCESSED = 2,
    // The receiving application has rejected it: `status`, and exonet_receipt_reason.
    EXONET_REJECTED = 3,
    // Its deadline came first: certainly never delivered.
    EXONET_EXPIRED = 4,
    // It was withdrawn: certainly never delivered.
    EXONET_CANCELLED = 5,
    // The peer has refused it: certainly never delivered. exonet_receipt_reason says why.
    EXONET_REFUSED = 6,
    // One of the two sides no longer knows: it happened once or not at all.
    EXONET_UNKNOWN = 7,
    // This node ended first: the next life of its identity continues with the message.
    EXONET_KEPT = 8,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum exonet_outcome_kind exonet_outcome_kind;
#else
typedef int32_t exonet_outcome_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How a session has ended.
enum exonet_session_end
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // It has not ended, or the end is one that this version of the interface has no name for.
    EXONET_END_NONE = 0,
    // Both ends have closed it.
    EXONET_END_CLOSED = 1,
    // One end has aborted it.
    EXONET_END_ABORTED = 2,
    // The server does not want it. The message of the error, or exonet_session_event_reason, says why.
    EXONET_END_REFUSED = 3,
    // It was silent for longer than `idle_ms`, or has lasted for `life_ms`.
    EXONET_END_EXPIRED = 4,
    // One of the two ends no longer knows the session: its process has ended, and had no journal.
    EXONET_END_FORGOTTEN = 5,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum exonet_session_end exonet_session_end;
#else
typedef int32_t exonet_session_end;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The kind of a verdict.
enum exonet_verdict_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // There is no verdict yet.
    EXONET_VERDICT_OPEN = 0,
    // As many members as required have the message.
    EXONET_VERDICT_REACHED = 1,
    // Too many members can no longer have it, and no other may take their place.
    EXONET_VERDICT_TOO_FEW = 2,
    // The deadline came first.
    EXONET_VERDICT_DEADLINE = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum exonet_verdict_kind exonet_verdict_kind;
#else
typedef int32_t exonet_verdict_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The state of a message to a group at one member.
enum exonet_member_state
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Not chosen: nothing was sent to it. Until the verdict, it may take the place of another member.
    EXONET_MEMBER_SPARE = 0,
    // Chosen, and certainly not delivered as far as this node knows.
    EXONET_MEMBER_QUEUED = 1,
    // The message has left, and its outcome is not known.
    EXONET_MEMBER_IN_DOUBT = 2,
    // Chosen, but this node did not accept the copy: nothing was sent. `reason` says why.
    EXONET_MEMBER_SKIPPED = 3,
    // It has ended: `outcome`.
    EXONET_MEMBER_SETTLED = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum exonet_member_state exonet_member_state;
#else
typedef int32_t exonet_member_state;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What has changed in a session.
enum exonet_session_change
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Something that this version of the interface has no name for.
    EXONET_CHANGE_OTHER = 0,
    // The server has accepted the session.
    EXONET_CHANGE_ACCEPTED = 1,
    // There is a connection to the peer: exonet_session_event_address. If there was one when this handle was made, this
    // event does not come.
    EXONET_CHANGE_CONNECTED = 2,
    // The peer answers none of the messages that are on their way to it: exonet_session_event_duration is how long.
    // The session continues when the peer is back.
    EXONET_CHANGE_AWAY = 3,
    // The peer is heard again: exonet_session_event_duration is how long it was away.
    EXONET_CHANGE_BACK = 4,
    // The peer is at another address: exonet_session_event_address.
    EXONET_CHANGE_MOVED = 5,
    // Another process has the peer's identity. If it has no journal, the session will end with EXONET_END_FORGOTTEN.
    EXONET_CHANGE_RESTARTED = 6,
    // The peer sends nothing more, and all its messages were received.
    EXONET_CHANGE_CLOSING = 7,
    // The session has ended: exonet_session_event_end. The last event of the session.
    EXONET_CHANGE_ENDED = 8,
    // Messages are missing before the next one: exonet_session_event_missing. Only for a session that is watched;
    // exonet_session_recv returns EXONET_SESSION_MISSING instead.
    EXONET_CHANGE_MISSING = 9,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum exonet_session_change exonet_session_change;
#else
typedef int32_t exonet_session_change;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// A call that was made. If it is freed before its end, it is given up.
typedef struct exonet_call exonet_call;

// A received message. It is delivered when exonet_delivery_ack succeeds; if it is freed before, it is handed out
// again.
typedef struct exonet_delivery exonet_delivery;

// An error. It belongs to the caller: exonet_error_free.
typedef struct exonet_error exonet_error;

// Peers that messages are sent to together. Messages that were sent continue when it is freed.
typedef struct exonet_group exonet_group;

// A handle on a message that was sent to a group. Freeing it neither cancels the message nor speeds it up.
typedef struct exonet_group_receipt exonet_group_receipt;

// A name that is bound to a node. It stays bound when it is freed, for the next process of the identity.
typedef struct exonet_name exonet_name;

// A node: it sends and receives messages, each exactly once.
typedef struct exonet_node exonet_node;

// A handle on a message that was sent. Freeing it neither cancels the message nor speeds it up.
typedef struct exonet_receipt exonet_receipt;

// A call that has to be answered. If it is freed without an answer, it fails.
typedef struct exonet_request exonet_request;

// A method that is served. Freeing it ends the service: calls that were taken can still be answered.
typedef struct exonet_service exonet_service;

// A session with a peer: messages in order, in both directions, with a beginning and an end that both ends know. If it
// is freed before it has ended, it is aborted, unless its node was closed first.
typedef struct exonet_session exonet_session;

// An event of a session: what has changed, with its details.
typedef struct exonet_session_event exonet_session_event;

// Accepts the sessions of one name. Freeing it leaves sessions that were accepted as they are.
typedef struct exonet_session_listener exonet_session_listener;

// A message of a session that is written in chunks. If it is freed before exonet_session_writer_finish, the peer's
// application sees nothing of it.
typedef struct exonet_session_writer exonet_session_writer;

// A stream with a peer: messages in order, in both directions. Freeing it ends neither direction.
typedef struct exonet_stream exonet_stream;

// A text in UTF-8. Its data may be NULL if its length is 0.
typedef struct exonet_str {
    // The text.
    const char *data;
    // Its length in bytes.
    uintptr_t len;
} exonet_str;

// Bytes. Their data may be NULL if their length is 0.
typedef struct exonet_bytes {
    // The bytes.
    const uint8_t *data;
    // Their number.
    uintptr_t len;
} exonet_bytes;

// How a call is made.
typedef struct exonet_call_options {
    // sizeof(exonet_call_options).
    uintptr_t size;
    // How long to wait for the call. Default: until its end is known.
    uint64_t deadline_ms;
    // EXONET_PRIORITY_NORMAL or another.
    int32_t priority;
    // Its end is an event too: EXONET_EVENT_CALL_ENDED.
    bool notify;
    // The token that the event carries, to identify the call.
    uint64_t token;
    // The trace that the call is part of, as in the header `traceparent` of W3C Trace Context. Default: none.
    struct exonet_str traceparent;
} exonet_call_options;

// How a message is sent.
typedef struct exonet_send_options {
    // sizeof(exonet_send_options).
    uintptr_t size;
    // For dispatch at the receiver: at most 255 bytes.
    struct exonet_bytes tag;
    // How long after the call the message is still wanted. Default: for ever.
    uint64_t deadline_ms;
    // EXONET_CONFIRM_DELIVERED or EXONET_CONFIRM_PROCESSED.
    uint32_t confirm;
    // EXONET_PRIORITY_NORMAL or another.
    int32_t priority;
    // The message has to be in a journal: a node without one refuses it. The node's durability says how durable the
    // journal is.
    bool durable;
    // If the queue to the peer is full, the function returns EXONET_FULL. Default: it waits.
    bool no_wait;
    // The outcome is an event too: EXONET_EVENT_SETTLED.
    bool notify;
    // The token that the event carries, to identify the message.
    uint64_t token;
    // The trace that the message is part of, as in the header `traceparent` of W3C Trace Context. Default: none.
    struct exonet_str traceparent;
} exonet_send_options;

// The outcome of a message, with its details.
typedef struct exonet_outcome {
    // The kind of the outcome.
    exonet_outcome_kind kind;
    // For EXONET_PROCESSED and EXONET_REJECTED, the status from the receiving application; else 0.
    uint32_t status;
    // It was delivered after its deadline.
    bool late;
} exonet_outcome;

// An event. Fields that the kind does not name are zero.
typedef struct exonet_event {
    // Its kind.
    exonet_event_kind kind;
    // The token from the options.
    uint64_t token;
    // The outcome of a message.
    struct exonet_outcome outcome;
    // The message. It belongs to the receiver of the event: exonet_delivery_free.
    struct exonet_delivery *delivery;
    // The call. It belongs to the receiver of the event: exonet_request_free.
    struct exonet_request *request;
    // The session. It belongs to the receiver of the event: exonet_session_free.
    struct exonet_session *session;
    // The change in a session. It belongs to the receiver of the event: exonet_session_event_free.
    struct exonet_session_event *session_event;
    // Room for later versions.
    uint64_t reserved[2];
} exonet_event;

// A function of the application that receives events. It must not end by an exception or a jump.
typedef void (*exonet_callback)(void *context, const struct exonet_event *event);

// How a group treats its messages.
typedef struct exonet_group_options {
    // sizeof(exonet_group_options).
    uintptr_t size;
    // The least time for which a message of EXONET_MODE_BALANCED waits at a member before another is tried in its
    // place. Default: 50 ms.
    uint64_t patience_ms;
    // The number of messages that may wait for room in a member's queue; after that, the next exonet_group_send
    // waits. Default: 1024.
    uint64_t waiting;
} exonet_group_options;

// The verdict on a message to a group: given once, and final. After EXONET_VERDICT_TOO_FEW or
// EXONET_VERDICT_DEADLINE, the message may still arrive at members.
typedef struct exonet_verdict {
    // The kind of the verdict.
    exonet_verdict_kind kind;
    // The number of members that had the message at that time.
    uint64_t good;
} exonet_verdict;

// A member, and what has become of the message there.
typedef struct exonet_member {
    // The id of the member, valid until the receipt is freed.
    struct exonet_str id;
    // The state of the message.
    exonet_member_state state;
    // For EXONET_MEMBER_SETTLED, the outcome.
    struct exonet_outcome outcome;
    // The member has acted on the message.
    bool has_it;
    // The member certainly has not acted on the message, and never will.
    bool has_it_not;
    // Why the message was skipped, rejected or refused, or empty; valid until the receipt is freed.
    struct exonet_str reason;
} exonet_member;

// The properties of a node.
typedef struct exonet_node_options {
    // sizeof(exonet_node_options).
    uintptr_t size;
    // The directory of an identity that outlives the process; it is made on first use. Default: a fresh identity,
    // which ends with the node.
    struct exonet_str state_dir;
    // The local address, as in "0.0.0.0:4455". Default: any port of all addresses.
    struct exonet_str bind;
    // The nodes that may talk to this one: "anyone", or ids separated by commas. Default: only the nodes that this
    // node sends to.
    struct exonet_str allow;
    // What a crash may lose: "memory", "process", "batched=MS" or "sync". Default: "process" with a state_dir, else
    // "memory".
    struct exonet_str durability;
    // How packets are carried: "udp", "tcp" or "auto". Default: "udp".
    struct exonet_str carrier;
    // The largest message that is sent or received, in bytes. Default: 64 MiB.
    uint64_t max_message;
    // The number of messages that may be queued to one peer. Default: that of the library.
    uint64_t queued_messages;
    // A message in doubt for this long ends EXONET_UNKNOWN. Default: never.
    uint64_t doubt_timeout_ms;
    // The interval without a packet after which a ping is sent, to keep the mappings of NATs alive. Default: none.
    uint64_t keepalive_ms;
    // How often a message that is not acknowledged is handed out before it is rejected. Default: any number of times.
    uint32_t attempts;
    // Where names of services are: "file:PATH" for a file of this machine, or ID@HOST:PORT for a name server. Then a
    // peer may be given as name:NAME, and exonet_name_bind binds names. The node looks a name up on first use. It then
    // finds the peer again at other addresses, but takes no other node for it. Default: nowhere.
    struct exonet_str names;
} exonet_node_options;

// How a method is served.
typedef struct exonet_serve_options {
    // sizeof(exonet_serve_options).
    uintptr_t size;
    // The number of calls that may be unanswered at once; others wait at their callers. Default: 256.
    uint64_t concurrency;
    // A call that is not answered for this long fails. Default: never.
    uint64_t timeout_ms;
    // The calls are events, EXONET_EVENT_REQUEST, and exonet_service_next returns none.
    bool notify;
    // The token that the events carry, to identify the method.
    uint64_t token;
} exonet_serve_options;

// The limits of a session.
typedef struct exonet_session_options {
    // sizeof(exonet_session_options).
    uintptr_t size;
    // The session ends when no message was sent or received in it for this long. Negative: never. Default: 24 h.
    int64_t idle_ms;
    // The session ends after this time in all. Default: never.
    uint64_t life_ms;
    // The longest message that this end receives, in bytes; a longer one is rejected. Default: 16 MiB.
    uint64_t longest;
} exonet_session_options;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the interface of the library with which the program is linked: EXONET_ABI of its header.
uint32_t exonet_abi(void);

// The version of the library, as in "0.1.0".
struct exonet_str exonet_version(void);

// A text that ends with a NUL, with its length.
struct exonet_str exonet_cstr(const char *text);

// Calls a method of a peer: a call is a message that is answered, and that runs at most once. It waits for room in
// the queue to the peer; then the call is queued. `options` may be NULL.
exonet_code exonet_call_start(const struct exonet_node *node,
                              struct exonet_str peer,
                              struct exonet_str method,
                              struct exonet_bytes body,
                              const struct exonet_call_options *options,
                              struct exonet_call **call,
                              struct exonet_error **error);

// Waits for the end of a call, for `timeout_ms` at most. EXONET_OK: exonet_call_reply has the answer. The codes that
// begin with EXONET_CALL say how else it has ended; the result is the same each time.
exonet_code exonet_call_wait(const struct exonet_call *call,
                             int64_t timeout_ms,
                             struct exonet_error **error);

// The answer. Empty until there is one.
struct exonet_bytes exonet_call_reply(const struct exonet_call *call);

// The name of the call at both ends. Empty before its end, and if it never left.
struct exonet_str exonet_call_id(const struct exonet_call *call);

// Gives a call up. It ends with EXONET_CALL_CANCELLED if it had not left, and with EXONET_CALL_UNKNOWN if it had,
// unless its answer has arrived.
exonet_code exonet_call_give_up(const struct exonet_call *call,
                                struct exonet_error **error);

// Frees a call. If it has not ended, it is given up.
void exonet_call_free(struct exonet_call *call);

// The node that sent the message: a proven id, to which an answer can be sent.
struct exonet_str exonet_delivery_from(const struct exonet_delivery *delivery);

// The permanent name of the message at both ends: the key under which an external effect is made only once.
struct exonet_str exonet_delivery_id(const struct exonet_delivery *delivery);

// The tag that it was sent with.
struct exonet_bytes exonet_delivery_tag(const struct exonet_delivery *delivery);

// The content.
struct exonet_bytes exonet_delivery_body(const struct exonet_delivery *delivery);

// The number of times that the message was handed out, starting at 1. From 2 on, it may have been acted on before.
uint32_t exonet_delivery_attempt(const struct exonet_delivery *delivery);

// The priority from the sender: EXONET_PRIORITY_NORMAL or another.
int32_t exonet_delivery_priority(const struct exonet_delivery *delivery);

// The trace that the sender made the message part of, as in the header `traceparent` of W3C Trace Context. Empty if
// there is none.
struct exonet_str exonet_delivery_traceparent(const struct exonet_delivery *delivery);

// Acknowledges the message: from here on it is delivered. A sender that asked for it is told that the message was
// processed, with `status`, which is 0 if there is nothing to say. EXONET_NOT_DELIVERED: the message must not be
// acted on.
//
// The handle still has to be freed, after this function and the next two.
exonet_code exonet_delivery_ack(const struct exonet_delivery *delivery,
                                uint32_t status,
                                struct exonet_error **error);

// Rejects the message for good: its sender is told so, with `status` and the first 200 bytes of `reason`. The node
// keeps the message as a dead letter.
exonet_code exonet_delivery_reject(const struct exonet_delivery *delivery,
                                   uint32_t status,
                                   struct exonet_str reason,
                                   struct exonet_error **error);

// Hands the message out again, `wait_ms` from now at the earliest.
exonet_code exonet_delivery_retry(const struct exonet_delivery *delivery,
                                  uint64_t wait_ms,
                                  struct exonet_error **error);

// Frees a delivery. If the message was neither acknowledged, rejected nor put off, it is handed out again.
void exonet_delivery_free(struct exonet_delivery *delivery);

// Acknowledges the message like exonet_delivery_ack, and sends an answer to its sender like exonet_send, in one step:
// both happen, or neither, also if the process is killed and the node has a journal. `node` is the node that has
// received the message. `options` and `receipt` may be NULL; `options->no_wait` is not possible.
//
// If it fails, nothing was sent, and the delivery is as it was before: it can be acknowledged, rejected, put off, or
// answered with something else. If it is freed instead, the message is handed out again. Only EXONET_NOT_DELIVERED,
// and EXONET_CLOSED when the node has ended, leave nothing to do but free it. So does EXONET_IN_DOUBT: the node ended
// before the answer was safely on the disk, and the next process of the identity may have done both. A message of a
// session is answered by exonet_session_answer.
exonet_code exonet_delivery_answer(const struct exonet_delivery *delivery,
                                   const struct exonet_node *node,
                                   struct exonet_bytes body,
                                   const struct exonet_send_options *options,
                                   struct exonet_receipt **receipt,
                                   struct exonet_error **error);

// Acknowledges the message, and sends another to any peer, which is given as to exonet_send, in one step. Everything
// else is as for exonet_delivery_answer.
exonet_code exonet_delivery_ack_and_send(const struct exonet_delivery *delivery,
                                         const struct exonet_node *node,
                                         struct exonet_str peer,
                                         struct exonet_bytes body,
                                         const struct exonet_send_options *options,
                                         struct exonet_receipt **receipt,
                                         struct exonet_error **error);

// Acknowledges a message, and sends another like exonet_stream_send, in one step: see exonet_delivery_answer. The
// delivery may be of this stream, of another, or of none.
exonet_code exonet_stream_ack_and_send(const struct exonet_stream *stream,
                                       const struct exonet_delivery *delivery,
                                       struct exonet_bytes body,
                                       const struct exonet_send_options *options,
                                       struct exonet_receipt **receipt,
                                       struct exonet_error **error);

// Acknowledges a message of a session, and sends another like exonet_session_send, in one step: see
// exonet_delivery_answer. If the handle gives the session up while this waits for room, it returns EXONET_CLOSED, and the
// message is handed out again.
exonet_code exonet_session_answer(const struct exonet_session *session,
                                  const struct exonet_delivery *delivery,
                                  struct exonet_bytes body,
                                  const struct exonet_send_options *options,
                                  struct exonet_receipt **receipt,
                                  struct exonet_error **error);

// From now on, messages that arrive are events: EXONET_EVENT_MESSAGE. At most `most` of them wait to be taken, at
// least one. exonet_recv still returns messages that are not events yet.
exonet_code exonet_node_watch_messages(const struct exonet_node *node,
                                       uint32_t most,
                                       struct exonet_error **error);

// A descriptor to poll (poll, epoll, select, kqueue): readable when there is an event to take, and when there will be
// no more events. It belongs to the node, and must not be read or closed. Not on Windows.
exonet_code exonet_node_fd(const struct exonet_node *node,
                           int32_t *fd,
                           struct exonet_error **error);

// Waits for the next event, for `timeout_ms` at most. EXONET_CLOSED: there will be no more.
exonet_code exonet_node_next_event(const struct exonet_node *node,
                                   int64_t timeout_ms,
                                   struct exonet_event *event,
                                   struct exonet_error **error);

// From now on, passes all events to `callback`, one at a time, on its own thread. The callback may call every
// function, and block; it gets `context` unchanged, and the event for the duration of the call. Only once for each
// node; EXONET_EVENT_CLOSED is its last call. exonet_node_free waits for it, unless the callback itself calls
// exonet_node_free.
exonet_code exonet_node_set_callback(const struct exonet_node *node,
                                     exonet_callback callback,
                                     void *context,
                                     struct exonet_error **error);

// The code that the function returned. EXONET_OK for NULL.
exonet_code exonet_error_code(const struct exonet_error *error);

// A sentence for users: what is wrong, where, and what to do.
struct exonet_str exonet_error_message(const struct exonet_error *error);

// For EXONET_CALL_FAILED, the status from the server; else 0. Numbers from 0xffffff00 on come from nodes, not from
// applications.
uint32_t exonet_error_status(const struct exonet_error *error);

// For EXONET_CALL_FAILED, the body from the server.
struct exonet_bytes exonet_error_body(const struct exonet_error *error);

// For a call, whether it has certainly not run, so that it may be made again.
bool exonet_error_has_not_run(const struct exonet_error *error);

// For EXONET_SESSION_ENDED, how the session has ended; else EXONET_END_NONE.
exonet_session_end exonet_error_session_end(const struct exonet_error *error);

// Frees an error.
void exonet_error_free(struct exonet_error *error);

// Makes a group of `count` peers, each given as for exonet_send. Nothing is sent. `members` may be NULL if `count` is
// 0, and `options` may be NULL. EXONET_USAGE: a member is named twice, or is this node.
exonet_code exonet_group_open(const struct exonet_node *node,
                              const struct exonet_str *members,
                              uintptr_t count,
                              const struct exonet_group_options *options,
                              struct exonet_group **group,
                              struct exonet_error **error);

// The number of members. 0 for NULL.
uintptr_t exonet_group_size(const struct exonet_group *group);

// Adds a member, given as for exonet_send. It gets later messages, and none that were sent before.
exonet_code exonet_group_add(const struct exonet_group *group,
                             struct exonet_str member,
                             struct exonet_error **error);

// Removes a member, given by its id or as for exonet_send. It gets no later messages. Messages that were sent to it
// continue and count, or with `now` are withdrawn: then the member is replaced, or counts as one that does not have
// the message, once that is certain.
exonet_code exonet_group_remove(const struct exonet_group *group,
                                struct exonet_str member,
                                bool now,
                                struct exonet_error **error);

// Sends a message to members of the group. `mode` is EXONET_MODE_ALL or another. For EXONET_MODE_QUORUM, `send` is the
// number of members that get the message, and `acks` the number that must have it; for EXONET_MODE_BALANCED, `send` is
// both. Otherwise the two are 0.
//
// The message is queued at once wherever there is room; no member waits for another. `options` and `receipt` may be
// NULL. `no_wait` cannot be set. With `notify`, the verdict and the end are events: EXONET_EVENT_GROUP_DECIDED and
// EXONET_EVENT_GROUP_ENDED.
exonet_code exonet_group_send(const struct exonet_group *group,
                              uint32_t mode,
                              uint64_t send,
                              uint64_t acks,
                              struct exonet_bytes body,
                              const struct exonet_send_options *options,
                              struct exonet_group_receipt **receipt,
                              struct exonet_error **error);

// Frees a group. Messages that were sent continue.
void exonet_group_free(struct exonet_group *group);

// Waits for the verdict, for `timeout_ms` at most: the required number of members has the message, or cannot have it
// any more, or the deadline has come.
exonet_code exonet_group_receipt_wait(const struct exonet_group_receipt *receipt,
                                      int64_t timeout_ms,
                                      struct exonet_verdict *verdict,
                                      struct exonet_error **error);

// Waits until the message has ended at every member that was chosen, for `timeout_ms` at most. A dead member may keep
// it waiting for ever: see exonet_group_receipt_abandon.
exonet_code exonet_group_receipt_wait_end(const struct exonet_group_receipt *receipt,
                                          int64_t timeout_ms,
                                          struct exonet_error **error);

// Writes what is known of each member to `members`, which has room for `room` of them, in the order in which they were
// chosen. `count` gets the number of members, which may be more, and stays the same. `members` may be NULL if `room`
// is 0.
exonet_code exonet_group_receipt_members(const struct exonet_group_receipt *receipt,
                                         struct exonet_member *members,
                                         uintptr_t room,
                                         uintptr_t *count,
                                         struct exonet_error **error);

// Withdraws every copy, and sends no others. A copy that has left ends with EXONET_CANCELLED if its member has not
// taken it, else with EXONET_DELIVERED.
exonet_code exonet_group_receipt_cancel(const struct exonet_group_receipt *receipt,
                                        struct exonet_error **error);

// Gives every copy up: those that have left end with EXONET_UNKNOWN, the others with EXONET_CANCELLED.
exonet_code exonet_group_receipt_abandon(const struct exonet_group_receipt *receipt,
                                         struct exonet_error **error);

// Frees a receipt. The message is still delivered, and so are the requested events.
void exonet_group_receipt_free(struct exonet_group_receipt *receipt);

// Binds a name to the node at the name service of its options, so that peers find it as name:NAME. A name is 1 to 64 of
// A-Z a-z 0-9 . _ - and begins with a letter. `addresses` are those at which other nodes reach this one, as HOST:PORT,
// separated by commas; if it is empty, that of exonet_node_address, for nodes on the same machine. A name that is bound
// to this node already gets the new addresses. EXONET_NAMING: another node has the name, or the name service does not
// answer or refuses. A name server takes names only from a node with a state_dir.
exonet_code exonet_name_bind(const struct exonet_node *node,
                             struct exonet_str name,
                             struct exonet_str addresses,
                             struct exonet_name **bound,
                             struct exonet_error **error);

// Unbinds the name. EXONET_NAMING: the record of the name has changed since it was bound, or the name service does not
// answer. The function works once for each handle, even if it fails: exonet_name_bind makes another handle. The handle
// still has to be freed.
exonet_code exonet_name_unbind(const struct exonet_name *name,
                               struct exonet_error **error);

// Frees a name. It stays bound.
void exonet_name_free(struct exonet_name *name);

// Opens a node. It waits for the disk if the node has a state_dir. EXONET_NOT_OPENED says what is wrong.
exonet_code exonet_node_open(const struct exonet_node_options *options,
                             struct exonet_node **node,
                             struct exonet_error **error);

// The id of the node: its key.
struct exonet_str exonet_node_id(const struct exonet_node *node);

// The address of the node on the same machine: ID@HOST:PORT. Other machines need another host.
struct exonet_str exonet_node_address(const struct exonet_node *node);

// Changes which nodes may talk to this one: "anyone", or ids separated by commas. It applies to each node from its
// next opening on.
exonet_code exonet_node_set_allow(const struct exonet_node *node,
                                  struct exonet_str allow,
                                  struct exonet_error **error);

// The statistics of the node as a JSON object, with the names of the library: "sent", "delivered" and so on. A text
// that ends with a NUL and belongs to the caller: exonet_text_free.
exonet_code exonet_node_stats(const struct exonet_node *node,
                              char **json,
                              struct exonet_error **error);

// Frees a text that the caller owns.
void exonet_text_free(char *text);

// Waits until all messages that were sent are settled, for `timeout_ms` at most. EXONET_TIMEOUT: something is still
// open.
exonet_code exonet_node_flush(const struct exonet_node *node,
                              int64_t timeout_ms,
                              struct exonet_error **error);

// Ends the node: it takes no new work, waits until all is settled and its peers know, for `timeout_ms` at most
// (negative: a day), and stops. The thread that calls is blocked until then, and for up to a second more while peers are
// told of the end. `open`, which may be NULL, gets the number of messages that are not settled. Threads that wait in the
// node get EXONET_CLOSED.
exonet_code exonet_node_close(const struct exonet_node *node,
                              int64_t timeout_ms,
                              uint64_t *open,
                              struct exonet_error **error);

// Frees a node. If it is not closed, it ends as by exonet_node_close with a timeout of 0: that takes up to a second.
// No other thread may use the node any more, or wait in it. Its threads end when the last handle that came from it
// is freed; deliveries, requests and events of sessions do not count.
void exonet_node_free(struct exonet_node *node);

// Waits for a message, for `timeout_ms` at most.
exonet_code exonet_recv(const struct exonet_node *node,
                        int64_t timeout_ms,
                        struct exonet_delivery **delivery,
                        struct exonet_error **error);

// Waits for the outcome of the message, for `timeout_ms` at most. A dead peer leaves a message in doubt for the
// node's doubt_timeout_ms, by default for ever: see exonet_receipt_abandon.
exonet_code exonet_receipt_wait(const struct exonet_receipt *receipt,
                                int64_t timeout_ms,
                                struct exonet_outcome *outcome,
                                struct exonet_error **error);

// Whether the message has left and its outcome is not known.
bool exonet_receipt_in_doubt(const struct exonet_receipt *receipt);

// The name of the message at both ends. Empty before it leaves.
struct exonet_str exonet_receipt_id(const struct exonet_receipt *receipt);

// Why a message was rejected or refused, or other details of its outcome, as a sentence. Empty if there are none.
struct exonet_str exonet_receipt_reason(const struct exonet_receipt *receipt);

// The durability level that the receiver has declared: "memory", "process", "batched" or "sync". Empty if there is no outcome, or
// if it does not come from the receiver.
struct exonet_str exonet_receipt_receiver_durability(const struct exonet_receipt *receipt);

// Withdraws the message. If it has not left, its outcome is EXONET_CANCELLED. If it has, `asked`, which may be NULL,
// is set: its receiver is asked for it, and the outcome tells whether it was taken.
exonet_code exonet_receipt_cancel(const struct exonet_receipt *receipt,
                                  bool *asked,
                                  struct exonet_error **error);

// Gives the message up: its outcome is EXONET_UNKNOWN now, or EXONET_CANCELLED if it never left.
exonet_code exonet_receipt_abandon(const struct exonet_receipt *receipt,
                                   struct exonet_error **error);

// Frees a receipt. The message is still delivered, and so is the requested event.
void exonet_receipt_free(struct exonet_receipt *receipt);

// Sends a message to a peer, given as ID@HOST:PORT, as an id alone if the peer has been heard, or as name:NAME if the
// node has a name service. It waits for room in the queue to the peer, and for the disk if the node's durability
// requires that; then the message is queued. EXONET_IN_DOUBT: the node ended
// before the message was safely on the disk, and the next process of the identity may send it. `options` and `receipt` may be NULL.
exonet_code exonet_send(const struct exonet_node *node,
                        struct exonet_str peer,
                        struct exonet_bytes body,
                        const struct exonet_send_options *options,
                        struct exonet_receipt **receipt,
                        struct exonet_error **error);

// Serves a method, until the service is stopped or freed. `options` may be NULL.
exonet_code exonet_serve(const struct exonet_node *node,
                         struct exonet_str method,
                         const struct exonet_serve_options *options,
                         struct exonet_service **service,
                         struct exonet_error **error);

// Waits for a call of the method, for `timeout_ms` at most. EXONET_CLOSED: there will be no more.
exonet_code exonet_service_next(const struct exonet_service *service,
                                int64_t timeout_ms,
                                struct exonet_request **request,
                                struct exonet_error **error);

// Takes no new calls, and waits until those that were taken have been answered, for `timeout_ms` at most (negative: a
// day). The remaining calls then fail; `left`, which may be NULL, gets their number. The service still has to be
// freed.
exonet_code exonet_service_stop(const struct exonet_service *service,
                                int64_t timeout_ms,
                                uint64_t *left,
                                struct exonet_error **error);

// Frees a service: its method is no longer served.
void exonet_service_free(struct exonet_service *service);

// The node that calls: a proven id.
struct exonet_str exonet_request_caller(const struct exonet_request *request);

// The permanent name of the call at both ends: the key under which an external effect is made only once.
struct exonet_str exonet_request_id(const struct exonet_request *request);

// The method, as it was called.
struct exonet_str exonet_request_method(const struct exonet_request *request);

// The trace that the caller made the call part of, as in the header `traceparent` of W3C Trace Context. Empty if there
// is none.
struct exonet_str exonet_request_traceparent(const struct exonet_request *request);

// The content.
struct exonet_bytes exonet_request_body(const struct exonet_request *request);

// Answers a call. EXONET_CLOSED: the answer came too late. The request still has to be freed, after this function and
// the next.
exonet_code exonet_request_reply(const struct exonet_request *request,
                                 struct exonet_bytes body,
                                 struct exonet_error **error);

// Answers a call with a failure: `status` is from 1 to 0xfffffeff, with a meaning that the two applications agree on.
exonet_code exonet_request_fail(const struct exonet_request *request,
                                uint32_t status,
                                struct exonet_bytes body,
                                struct exonet_error **error);

// Frees a request. If it was not answered, the call fails.
void exonet_request_free(struct exonet_request *request);

// Opens a session with a peer, under a name of 1 to 200 bytes. It does not wait for the peer: messages may be sent at
// once, and leave together with the opening. `options` may be NULL. EXONET_NOT_OPENED: this node has as many sessions
// as it may.
exonet_code exonet_session_open(const struct exonet_node *node,
                                struct exonet_str peer,
                                struct exonet_str name,
                                const struct exonet_session_options *options,
                                struct exonet_session **session,
                                struct exonet_error **error);

// Takes a handle on a session in which this identity takes part already: its id is that of exonet_session_id, in this
// process or in an earlier one. Nothing is sent. `options` may be NULL.
exonet_code exonet_session_attach(const struct exonet_node *node,
                                  struct exonet_str peer,
                                  struct exonet_str name,
                                  struct exonet_str id,
                                  const struct exonet_session_options *options,
                                  struct exonet_session **session,
                                  struct exonet_error **error);

// The id of the session, for exonet_session_attach and for logs.
struct exonet_str exonet_session_id(const struct exonet_session *session);

// The name of the session.
struct exonet_str exonet_session_name(const struct exonet_session *session);

// The node at the other end: a proven id.
struct exonet_str exonet_session_peer(const struct exonet_session *session);

// Whether this end has opened the session. False for NULL.
bool exonet_session_is_client(const struct exonet_session *session);

// Closes this direction: nothing more can be sent, and the peer's application is told so after all earlier messages.
// Messages of the peer can still be received. The receipt, which may be NULL, tells when the peer's application has
// been told.
exonet_code exonet_session_finish(const struct exonet_session *session,
                                  struct exonet_receipt **receipt,
                                  struct exonet_error **error);

// Ends the session: nothing more is sent, and messages that were sent get `timeout_ms` at most to settle (negative: a
// day). Messages that the peer sends from now on are rejected. EXONET_SESSION_AWAY: not all were settled in time; the
// node continues with them. EXONET_NOT_SENT: exonet_session_finish had closed this direction before. The session is
// given up all the same, without a wait: to wait, use the receipt of exonet_session_finish.
//
// After this function or one of the next three, functions that send or receive messages return EXONET_CLOSED for this
// handle, and so do these four. The handle still has to be freed.
exonet_code exonet_session_close(const struct exonet_session *session,
                                 int64_t timeout_ms,
                                 struct exonet_error **error);

// Ends the session now: messages that have not left are cancelled, and those that the peer sends are rejected. At the
// peer the session ends with EXONET_END_ABORTED.
exonet_code exonet_session_abort(const struct exonet_session *session,
                                 struct exonet_error **error);

// Refuses a session that the peer has opened: at the peer it ends with EXONET_END_REFUSED and the first 200 bytes of
// `reason`. If this end has opened it, it is aborted.
exonet_code exonet_session_refuse(const struct exonet_session *session,
                                  struct exonet_str reason,
                                  struct exonet_error **error);

// Gives the handle up, and leaves the session as it is: for exonet_session_attach, or for exonet_session_accept, which
// returns it again when the peer sends something.
exonet_code exonet_session_detach(const struct exonet_session *session,
                                  struct exonet_error **error);

// Frees a session. If it has not ended, and was not closed or detached, it is aborted, unless its node was closed
// first: then the next process of the identity continues with it, if the node has a journal.
void exonet_session_free(struct exonet_session *session);

// From now on, the messages and the events of the session are events of the node: EXONET_EVENT_SESSION_MESSAGE and
// EXONET_EVENT_SESSION_CHANGED, both with `token`. At most one message of the session waits to be taken. Once for each
// session. Events that wait when the session is freed still come.
exonet_code exonet_session_watch(const struct exonet_session *session,
                                 uint64_t token,
                                 struct exonet_error **error);

// Waits for the next event of the session, for `timeout_ms` at most. What the peer's application does is noticed only
// while a thread receives in the session. After EXONET_CHANGE_ENDED there are no more: the function waits until the
// node is closed, which is EXONET_CLOSED.
exonet_code exonet_session_next_event(const struct exonet_session *session,
                                      int64_t timeout_ms,
                                      struct exonet_session_event **event,
                                      struct exonet_error **error);

// What has changed. EXONET_CHANGE_OTHER for NULL.
exonet_session_change exonet_session_event_change(const struct exonet_session_event *event);

// For EXONET_CHANGE_ENDED, how the session has ended; else EXONET_END_NONE.
exonet_session_end exonet_session_event_end(const struct exonet_session_event *event);

// For EXONET_END_REFUSED, the reason that the server gave; else empty.
struct exonet_str exonet_session_event_reason(const struct exonet_session_event *event);

// For EXONET_CHANGE_CONNECTED and EXONET_CHANGE_MOVED, the address of the peer as IP:PORT; else empty.
struct exonet_str exonet_session_event_address(const struct exonet_session_event *event);

// For EXONET_CHANGE_AWAY and EXONET_CHANGE_BACK, a duration in milliseconds; else 0.
uint64_t exonet_session_event_duration(const struct exonet_session_event *event);

// For EXONET_CHANGE_MISSING, the number of messages, or of parts of messages, that are missing; else 0.
uint64_t exonet_session_event_missing(const struct exonet_session_event *event);

// Frees an event of a session.
void exonet_session_event_free(struct exonet_session_event *event);

// Waits for a session that a peer has opened, for `timeout_ms` at most: one of a name without a listener, or one that
// this identity accepted in an earlier process. `options`, which may be NULL, may have `longest` only: the client says
// the others.
exonet_code exonet_session_accept(const struct exonet_node *node,
                                  int64_t timeout_ms,
                                  const struct exonet_session_options *options,
                                  struct exonet_session **session,
                                  struct exonet_error **error);

// Accepts the sessions of one name, of 1 to 200 bytes, from all peers: from now on exonet_session_accept does not
// return them.
exonet_code exonet_session_listen(const struct exonet_node *node,
                                  struct exonet_str name,
                                  struct exonet_session_listener **listener,
                                  struct exonet_error **error);

// Waits for the next session of the name, for `timeout_ms` at most. `options`: see exonet_session_accept.
exonet_code exonet_session_listener_accept(const struct exonet_session_listener *listener,
                                           int64_t timeout_ms,
                                           const struct exonet_session_options *options,
                                           struct exonet_session **session,
                                           struct exonet_error **error);

// Frees a listener: exonet_session_accept returns the sessions of its name again.
void exonet_session_listener_free(struct exonet_session_listener *listener);

// From now on, sessions that peers open are events: EXONET_EVENT_SESSION_OPENED. At most `most` of them wait to be
// taken, at least one. exonet_session_accept still returns sessions that are not events yet, and listeners have those
// of their names. `options`: see exonet_session_accept.
exonet_code exonet_node_watch_sessions(const struct exonet_node *node,
                                       uint32_t most,
                                       const struct exonet_session_options *options,
                                       struct exonet_error **error);

// Sends a message of any size after all earlier ones of this session, like exonet_send. It has no tag, and
// `options->priority` does not apply. A message that is longer than 64 KiB goes in parts, which the peer's application
// gets as a whole or not at all; with `no_wait` it is EXONET_NOT_SENT. EXONET_SESSION_ENDED: see
// exonet_error_session_end.
exonet_code exonet_session_send(const struct exonet_session *session,
                                struct exonet_bytes body,
                                const struct exonet_send_options *options,
                                struct exonet_receipt **receipt,
                                struct exonet_error **error);

// Waits for the next message of the session, for `timeout_ms` at most. A message is handed out when the one before it
// has been acknowledged, rejected or put off. EXONET_SESSION_FINISHED: the peer has closed the session, and everything
// was received. EXONET_SESSION_MISSING: the message of the error says how many messages are missing; the next call
// continues after them. EXONET_SESSION_ENDED: there are no more; exonet_error_session_end says why.
exonet_code exonet_session_recv(const struct exonet_session *session,
                                int64_t timeout_ms,
                                struct exonet_delivery **delivery,
                                struct exonet_error **error);

// Begins a message of a session that is written in chunks, for a body that is not in memory as a whole. Until its end,
// no other message can be sent in the session: functions that would send one return EXONET_USAGE. `options`, which may
// be NULL, are those of the whole message, without `no_wait`.
exonet_code exonet_session_begin(const struct exonet_session *session,
                                 const struct exonet_send_options *options,
                                 struct exonet_session_writer **writer,
                                 struct exonet_error **error);

// Adds bytes to the message. It waits for room in the queue to the peer.
exonet_code exonet_session_writer_write(const struct exonet_session_writer *writer,
                                        struct exonet_bytes data,
                                        struct exonet_error **error);

// Ends the message: from here on the peer's application gets it, as a whole. The receipt, which may be NULL, tells its
// outcome. The writer still has to be freed.
exonet_code exonet_session_writer_finish(const struct exonet_session_writer *writer,
                                         struct exonet_receipt **receipt,
                                         struct exonet_error **error);

// Frees a writer. If its message was not finished, the peer's application sees nothing of it.
void exonet_session_writer_free(struct exonet_session_writer *writer);

// A stream with a peer, under a name of 1 to 255 bytes. Nothing is sent yet. There can be one handle for a peer and a
// name at a time.
exonet_code exonet_stream_open(const struct exonet_node *node,
                               struct exonet_str peer,
                               struct exonet_str name,
                               struct exonet_stream **stream,
                               struct exonet_error **error);

// Waits for a stream that a peer has begun, for `timeout_ms` at most.
exonet_code exonet_stream_accept(const struct exonet_node *node,
                                 int64_t timeout_ms,
                                 struct exonet_stream **stream,
                                 struct exonet_error **error);

// The node at the other end.
struct exonet_str exonet_stream_peer(const struct exonet_stream *stream);

// The name of the stream.
struct exonet_str exonet_stream_name(const struct exonet_stream *stream);

// Sends a message after all earlier ones of this stream, like exonet_send. It has no tag, and `options->priority`
// does not apply.
exonet_code exonet_stream_send(const struct exonet_stream *stream,
                               struct exonet_bytes body,
                               const struct exonet_send_options *options,
                               struct exonet_receipt **receipt,
                               struct exonet_error **error);

// Ends this direction after all messages that were sent in it. The receipt, which may be NULL, tells when the peer's
// application has received the end.
exonet_code exonet_stream_close(const struct exonet_stream *stream,
                                struct exonet_receipt **receipt,
                                struct exonet_error **error);

// Ends this direction, and cancels the messages that have not left. After those that have left, exonet_stream_recv of
// the peer returns EXONET_STREAM_BROKEN. The receipt, which may be NULL, tells when the peer's application has
// received the end. It waits for a send of another thread in this stream, and for room.
exonet_code exonet_stream_reset(const struct exonet_stream *stream,
                                struct exonet_receipt **receipt,
                                struct exonet_error **error);

// Waits for the next message of the stream, for `timeout_ms` at most. A message is handed out when the one before it
// has been acknowledged, rejected or put off. EXONET_STREAM_ENDED: all was received. EXONET_STREAM_GAP: the message
// of the error says what is missing; the next call continues after it. EXONET_STREAM_BROKEN: there is no more.
exonet_code exonet_stream_recv(const struct exonet_stream *stream,
                               int64_t timeout_ms,
                               struct exonet_delivery **delivery,
                               struct exonet_error **error);

// Frees a stream. It ends neither direction: another handle continues at the same place.
void exonet_stream_free(struct exonet_stream *stream);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* EXONET_H */
