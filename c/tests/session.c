/* Sessions: see api.c. */
#include "api.h"

static exonet_session *open_session(exonet_node *from, exonet_node *to, const char *name)
{
    exonet_session *session;
    check(exonet_session_open(from, exonet_node_address(to), exonet_cstr(name), NULL, &session, &err), &err, "open");
    return session;
}

static exonet_session *accept_session(exonet_node *node)
{
    exonet_session *session;
    check(exonet_session_accept(node, MINUTE, NULL, &session, &err), &err, "accept");
    return session;
}

static exonet_receipt *say(exonet_session *session, const char *text)
{
    exonet_receipt *receipt;
    check(exonet_session_send(session, bytes_of(text), NULL, &receipt, &err), &err, "send");
    return receipt;
}

static exonet_delivery *hear(exonet_session *session)
{
    exonet_delivery *delivery;
    check(exonet_session_recv(session, MINUTE, &delivery, &err), &err, "recv");
    return delivery;
}

/* The next event of the session is of this kind. Events of the connection may come before it. */
static exonet_session_event *await_change(exonet_session *session, exonet_session_change change)
{
    for (;;) {
        exonet_session_event *event;
        check(exonet_session_next_event(session, MINUTE, &event, &err), &err, "event");
        if (exonet_session_event_change(event) == change) {
            return event;
        }
        exonet_session_event_free(event);
    }
}

/* The session has ended so, and says so whenever it is asked. */
static void has_ended(exonet_session *session, exonet_session_end end, const char *part)
{
    exonet_delivery *none;
    for (int i = 0; i < 2; i++) {
        HOLDS(exonet_session_recv(session, MINUTE, &none, &err) == EXONET_SESSION_ENDED && none == NULL);
        HOLDS(exonet_error_session_end(err) == end);
        said(EXONET_SESSION_ENDED, part);
    }
}

/* Both know the end. The handles are freed. */
static void both_ends_close(exonet_session *client, exonet_session *server)
{
    exonet_delivery *delivery;
    exonet_receipt *receipt;

    check(exonet_session_finish(client, &receipt, &err), &err, "finish");
    HOLDS(exonet_session_send(client, bytes_of("x"), NULL, NULL, &err) == EXONET_NOT_SENT);
    said(EXONET_NOT_SENT, "closed at this end");
    HOLDS(exonet_session_recv(server, MINUTE, &delivery, &err) == EXONET_SESSION_FINISHED && delivery == NULL);
    said(EXONET_SESSION_FINISHED, "everything was received");
    HOLDS(outcome_of(receipt).kind == EXONET_DELIVERED);
    exonet_receipt_free(receipt);
    exonet_receipt_free(say(server, "the bill"));
    takes(hear(client), "the bill");
    /* The end arrives when the client receives: here a task of the library does. */
    check(exonet_session_watch(client, 0, &err), &err, "watch");
    check(exonet_session_close(server, MINUTE, &err), &err, "close");
    HOLDS(exonet_session_send(server, bytes_of("x"), NULL, NULL, &err) == EXONET_CLOSED);
    said(EXONET_CLOSED, "given the session up");
    HOLDS(exonet_session_close(server, 0, &err) == EXONET_CLOSED);
    said(EXONET_CLOSED, "given the session up");
    HOLDS(exonet_session_next_event(server, 0, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "event is NULL");
    exonet_session_free(client);
    exonet_session_free(server);
}

static void messages_go_both_ways(void)
{
    exonet_node *alice = open_node(NULL), *bob = open_node(NULL);
    exonet_session *client, *server, *none;
    exonet_send_options how;
    exonet_session_options limits;
    exonet_receipt *receipt;
    exonet_delivery *delivery;
    exonet_outcome outcome;

    HOLDS(exonet_session_open(alice, exonet_node_address(bob), exonet_cstr(""), NULL, &none, &err) == EXONET_USAGE);
    HOLDS(none == NULL);
    said(EXONET_USAGE, "1 to 200 bytes");
    HOLDS(exonet_session_accept(bob, 0, NULL, &none, &err) == EXONET_TIMEOUT && none == NULL && err == NULL);
    DEFAULTS(limits);
    limits.idle_ms = -1;
    limits.life_ms = 3600000;
    limits.longest = 1000;
    HOLDS(exonet_session_accept(bob, 0, &limits, &none, &err) == EXONET_USAGE && none == NULL);
    said(EXONET_USAGE, "not the server");
    check(exonet_session_open(alice, exonet_node_address(bob), exonet_cstr("orders"), &limits, &client, &err), &err, "open");
    HOLDS(exonet_session_is_client(client) && strcmp(exonet_session_name(client).data, "orders") == 0);
    HOLDS(strcmp(exonet_session_peer(client).data, exonet_node_id(bob).data) == 0);

    DEFAULTS(how);
    how.confirm = EXONET_CONFIRM_PROCESSED;
    check(exonet_session_send(client, bytes_of("tea"), &how, &receipt, &err), &err, "send");
    server = accept_session(bob);
    HOLDS(!exonet_session_is_client(server) && strcmp(exonet_session_id(server).data, exonet_session_id(client).data) == 0);
    delivery = hear(server);
    HOLDS(same(exonet_delivery_body(delivery), "tea") && exonet_delivery_attempt(delivery) == 1);
    HOLDS(strcmp(exonet_delivery_from(delivery).data, exonet_node_id(alice).data) == 0);
    HOLDS(exonet_delivery_tag(delivery).len == 0 && exonet_delivery_priority(delivery) == EXONET_PRIORITY_NORMAL);
    exonet_delivery_free(delivery);
    /* It was not acknowledged: it comes again. */
    delivery = hear(server);
    HOLDS(exonet_delivery_attempt(delivery) == 2);
    check(exonet_delivery_retry(delivery, 0, &err), &err, "retry");
    exonet_delivery_free(delivery);
    delivery = hear(server);
    check(exonet_delivery_ack(delivery, 42, &err), &err, "ack");
    exonet_delivery_free(delivery);
    outcome = outcome_of(receipt);
    HOLDS(outcome.kind == EXONET_PROCESSED && outcome.status == 42);
    exonet_receipt_free(receipt);

    exonet_receipt_free(say(server, "one tea"));
    takes(hear(client), "one tea");
    receipt = say(client, "coffee");
    delivery = hear(server);
    check(exonet_delivery_reject(delivery, 5, exonet_cstr("sold out"), &err), &err, "reject");
    exonet_delivery_free(delivery);
    outcome = outcome_of(receipt);
    HOLDS(outcome.kind == EXONET_REJECTED && outcome.status == 5);
    HOLDS(strcmp(exonet_receipt_reason(receipt).data, "sold out") == 0);
    exonet_receipt_free(receipt);

    DEFAULTS(how);
    how.tag = bytes_of("x");
    HOLDS(exonet_session_send(client, bytes_of("x"), &how, &receipt, &err) == EXONET_NOT_SENT && receipt == NULL);
    said(EXONET_NOT_SENT, "tag");

    both_ends_close(client, server);
    exonet_node_free(alice);
    exonet_node_free(bob);
}

static void long_messages_go_in_parts(void)
{
    exonet_node *alice = open_node(NULL), *bob = open_node(NULL);
    exonet_session *client = open_session(alice, bob, "files"), *server;
    exonet_session_writer *writer, *second;
    exonet_send_options how;
    exonet_receipt *receipt;
    exonet_delivery *delivery;
    size_t size = 1 << 20;
    uint8_t *large = (uint8_t *)malloc(size);
    exonet_bytes body = {large, size}, none = {NULL, 0};

    for (size_t i = 0; i < size; i++) {
        large[i] = (uint8_t)(i * 7 + i / 251);
    }
    check(exonet_session_send(client, body, NULL, &receipt, &err), &err, "send");
    server = accept_session(bob);
    delivery = hear(server);
    HOLDS(exonet_delivery_body(delivery).len == size && memcmp(exonet_delivery_body(delivery).data, large, size) == 0);
    check(exonet_delivery_ack(delivery, 0, &err), &err, "ack");
    exonet_delivery_free(delivery);
    HOLDS(outcome_of(receipt).kind == EXONET_DELIVERED);
    exonet_receipt_free(receipt);
    DEFAULTS(how);
    how.no_wait = true;
    HOLDS(exonet_session_send(client, body, &how, NULL, &err) == EXONET_NOT_SENT);
    said(EXONET_NOT_SENT, "bytes");
    HOLDS(exonet_session_begin(client, &how, &writer, &err) == EXONET_USAGE && writer == NULL);
    said(EXONET_USAGE, "no_wait");

    /* The peer sees nothing of a message that was not finished, and waits for its end. */
    check(exonet_session_begin(client, NULL, &writer, &err), &err, "begin");
    check(exonet_session_writer_write(writer, body, &err), &err, "write");
    HOLDS(exonet_session_begin(client, NULL, &second, &err) == EXONET_USAGE && second == NULL);
    said(EXONET_USAGE, "being written already");
    HOLDS(exonet_session_send(client, bytes_of("x"), NULL, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "finish it");
    HOLDS(exonet_session_recv(server, 1, &delivery, &err) == EXONET_TIMEOUT && delivery == NULL);
    exonet_session_writer_free(writer);
    exonet_receipt_free(say(client, "in between"));
    takes(hear(server), "in between");

    DEFAULTS(how);
    how.confirm = EXONET_CONFIRM_PROCESSED;
    check(exonet_session_begin(client, &how, &writer, &err), &err, "begin");
    for (size_t at = 0; at < size; at += 1000) {
        exonet_bytes chunk = {large + at, size - at < 1000 ? size - at : 1000};
        check(exonet_session_writer_write(writer, chunk, &err), &err, "write");
    }
    check(exonet_session_writer_finish(writer, &receipt, &err), &err, "finish");
    HOLDS(exonet_session_writer_write(writer, none, &err) == EXONET_CLOSED);
    said(EXONET_CLOSED, "begin another");
    HOLDS(exonet_session_writer_finish(writer, NULL, &err) == EXONET_CLOSED);
    said(EXONET_CLOSED, "begin another");
    exonet_session_writer_free(writer);
    delivery = hear(server);
    HOLDS(exonet_delivery_body(delivery).len == size && memcmp(exonet_delivery_body(delivery).data, large, size) == 0);
    check(exonet_delivery_ack(delivery, 9, &err), &err, "ack");
    HOLDS(outcome_of(receipt).kind == EXONET_PROCESSED && outcome_of(receipt).status == 9);
    exonet_delivery_free(delivery);
    exonet_receipt_free(receipt);
    exonet_session_free(client);
    has_ended(server, EXONET_END_ABORTED, "given it up");
    exonet_session_free(server);
    exonet_node_free(alice);
    exonet_node_free(bob);
    free(large);
}

static void too_long_messages_are_rejected(void)
{
    exonet_node *alice = open_node(NULL), *bob = open_node(NULL);
    exonet_session *client = open_session(alice, bob, "short"), *server;
    exonet_session_writer *writer;
    exonet_session_options limits;
    exonet_receipt *receipt = say(client, "x");
    exonet_delivery *delivery;
    exonet_outcome outcome;
    exonet_bytes body = {(uint8_t *)calloc(1, 1 << 20), 1 << 20};

    DEFAULTS(limits);
    limits.longest = 1000;
    check(exonet_session_accept(bob, MINUTE, &limits, &server, &err), &err, "accept");
    takes(hear(server), "x");
    HOLDS(outcome_of(receipt).kind == EXONET_DELIVERED);
    exonet_receipt_free(receipt);
    check(exonet_session_send(client, body, NULL, &receipt, &err), &err, "send");
    check(exonet_session_begin(client, NULL, &writer, &err), &err, "begin");
    /* It is rejected while the server receives, which does not see it. */
    while (exonet_receipt_wait(receipt, 1, &outcome, NULL) == EXONET_TIMEOUT) {
        HOLDS(exonet_session_recv(server, 1, &delivery, NULL) == EXONET_TIMEOUT);
    }
    HOLDS(outcome.kind == EXONET_REJECTED);
    HOLDS(strstr(exonet_receipt_reason(receipt).data, "at most 1000") != NULL);
    exonet_receipt_free(receipt);
    /* A writer outlives the handle of its session. */
    exonet_session_free(client);
    HOLDS(exonet_session_writer_write(writer, bytes_of("x"), &err) == EXONET_CLOSED);
    said(EXONET_CLOSED, "begin another");
    exonet_session_writer_free(writer);
    exonet_session_free(server);
    exonet_node_free(alice);
    exonet_node_free(bob);
    free((void *)body.data);
}

static void sessions_are_refused_aborted_and_detached(void)
{
    exonet_node *alice = open_node(NULL), *bob = open_node(NULL);
    exonet_session_listener *listener, *twice;
    exonet_session *client, *server, *none;
    exonet_session_event *event;
    char id[32];

    check(exonet_session_listen(bob, exonet_cstr("chat"), &listener, &err), &err, "listen");
    HOLDS(exonet_session_listen(bob, exonet_cstr("chat"), &twice, &err) == EXONET_USAGE && twice == NULL);
    said(EXONET_USAGE, "listener");
    HOLDS(exonet_session_listener_accept(listener, 0, NULL, &none, &err) == EXONET_TIMEOUT && none == NULL);

    client = open_session(alice, bob, "chat");
    check(exonet_session_listener_accept(listener, MINUTE, NULL, &server, &err), &err, "accept");
    check(exonet_session_refuse(server, exonet_cstr("we are closed"), &err), &err, "refuse");
    has_ended(client, EXONET_END_REFUSED, "we are closed");
    event = await_change(client, EXONET_CHANGE_ENDED);
    HOLDS(exonet_session_event_end(event) == EXONET_END_REFUSED);
    HOLDS(strcmp(exonet_session_event_reason(event).data, "we are closed") == 0);
    exonet_session_event_free(event);
    HOLDS(exonet_session_send(client, bytes_of("x"), NULL, NULL, &err) == EXONET_SESSION_ENDED);
    HOLDS(exonet_error_session_end(err) == EXONET_END_REFUSED);
    said(EXONET_SESSION_ENDED, "we are closed");
    exonet_session_free(server);
    exonet_session_free(client);

    client = open_session(alice, bob, "chat");
    check(exonet_session_listener_accept(listener, MINUTE, NULL, &server, &err), &err, "accept");
    check(exonet_session_abort(client, &err), &err, "abort");
    has_ended(server, EXONET_END_ABORTED, "given it up");
    HOLDS(exonet_session_abort(client, &err) == EXONET_CLOSED);
    said(EXONET_CLOSED, "given the session up");
    exonet_session_free(client);
    exonet_session_free(server);
    exonet_session_listener_free(listener);

    /* The session continues with another handle. */
    client = open_session(alice, bob, "chat");
    server = accept_session(bob);
    exonet_receipt_free(say(client, "before"));
    takes(hear(server), "before");
    snprintf(id, sizeof id, "%s", exonet_session_id(client).data);
    HOLDS(exonet_session_attach(alice, exonet_node_address(bob), exonet_cstr("chat"), exonet_cstr(id), NULL, &none, &err) ==
          EXONET_USAGE);
    said(EXONET_USAGE, "in use");
    check(exonet_session_detach(client, &err), &err, "detach");
    exonet_session_free(client);
    HOLDS(exonet_session_attach(alice, exonet_node_address(bob), exonet_cstr("chat"), exonet_cstr("x"), NULL, &none, &err) ==
          EXONET_USAGE);
    said(EXONET_USAGE, "16 hexadecimal digits");
    check(exonet_session_attach(alice, exonet_node_address(bob), exonet_cstr("chat"), exonet_cstr(id), NULL, &client, &err),
          &err, "attach");
    exonet_receipt_free(say(client, "after"));
    takes(hear(server), "after");
    exonet_session_free(client);
    exonet_session_free(server);
    exonet_node_free(alice);
    exonet_node_free(bob);
}

static void a_direction_is_closed_only_once(void)
{
    exonet_node *alice = open_node(NULL), *bob = open_node(NULL);
    exonet_session *client = open_session(alice, bob, "twice"), *server;
    exonet_receipt *receipt = say(client, "x");
    exonet_delivery *none;
    exonet_session_event *event;
    exonet_code code;

    server = accept_session(bob);
    takes(hear(server), "x");
    HOLDS(outcome_of(receipt).kind == EXONET_DELIVERED);
    exonet_receipt_free(receipt);
    check(exonet_session_finish(client, NULL, &err), &err, "finish");
    HOLDS(exonet_session_close(client, MINUTE, &err) == EXONET_NOT_SENT);
    said(EXONET_NOT_SENT, "closed at this end");
    /* Its messages are over, its events are not. */
    HOLDS(exonet_session_recv(client, 0, &none, &err) == EXONET_CLOSED && none == NULL);
    said(EXONET_CLOSED, "given the session up");
    code = exonet_session_next_event(client, 0, &event, &err);
    HOLDS((code == EXONET_OK) == (event != NULL) && (code == EXONET_OK || code == EXONET_TIMEOUT));
    exonet_session_event_free(event);
    HOLDS(exonet_session_recv(server, MINUTE, &none, NULL) == EXONET_SESSION_FINISHED);
    check(exonet_session_close(server, MINUTE, &err), &err, "close");
    exonet_session_free(client);
    exonet_session_free(server);
    exonet_node_free(alice);
    exonet_node_free(bob);
}

/* An address for a node that is started again at the same port. On Linux no other program uses this address, so that
 * the port is still free then. */
static const char *own_address(void)
{
#ifdef __linux__
    static char address[32];
    unsigned pid = (unsigned)getpid();
    snprintf(address, sizeof address, "127.%u.%u.%u:0", 1 + pid / 64516 % 254, 1 + pid / 254 % 254, 1 + pid % 254);
    return address;
#else
    return "127.0.0.1:0";
#endif
}

static void a_session_outlives_its_process(const char *state_dir)
{
    exonet_node *alice = open_node(NULL), *bob;
    exonet_session *client, *server;
    exonet_session_event *event;
    exonet_receipt *receipt;
    exonet_delivery *delivery;
    char address[200], *where;

    bob = open_node_at(own_address(), state_dir, NULL);
    snprintf(address, sizeof address, "%s", exonet_node_address(bob).data);
    where = strchr(address, '@') + 1;
    exonet_node_free(bob);
    /* The peer is not there yet: the session is opened at once, and waits. */
    check(exonet_session_open(alice, exonet_cstr(address), exonet_cstr("long"), NULL, &client, &err), &err, "open");
    HOLDS(exonet_session_next_event(client, 0, &event, &err) == EXONET_TIMEOUT && event == NULL && err == NULL);
    bob = open_node_at(where, state_dir, NULL);
    event = await_change(client, EXONET_CHANGE_CONNECTED);
    HOLDS(strcmp(exonet_session_event_address(event).data, where) == 0 && exonet_session_event_missing(event) == 0);
    exonet_session_event_free(event);
    server = accept_session(bob);
    exonet_receipt_free(say(client, "one"));
    takes(hear(server), "one");
    exonet_receipt_free(say(server, "yes"));
    takes(hear(client), "yes");
    event = await_change(client, EXONET_CHANGE_ACCEPTED);
    HOLDS(exonet_session_event_end(event) == EXONET_END_NONE && exonet_session_event_address(event).len == 0);
    exonet_session_event_free(event);

    check(exonet_node_close(bob, MINUTE, NULL, &err), &err, "close");
    exonet_session_free(server);
    exonet_node_free(bob);
    receipt = say(client, "two");
    HOLDS(exonet_session_close(client, 0, &err) == EXONET_SESSION_AWAY);
    said(EXONET_SESSION_AWAY, "away");
    exonet_receipt_free(receipt);
    exonet_session_free(client);

    bob = open_node_at(where, state_dir, NULL);
    server = accept_session(bob);
    HOLDS(strcmp(exonet_session_name(server).data, "long") == 0);
    takes(hear(server), "two");
    HOLDS(exonet_session_recv(server, MINUTE, &delivery, NULL) == EXONET_SESSION_FINISHED);
    check(exonet_session_close(server, MINUTE, &err), &err, "close");
    exonet_session_free(server);
    exonet_node_free(bob);
    exonet_node_free(alice);
}

static void a_peer_goes_away_and_comes_back(const char *state_dir)
{
    exonet_node *alice = open_node(NULL), *bob;
    exonet_session *client, *server;
    exonet_session_event *event;
    char where[64];

    bob = open_node_at(own_address(), state_dir, NULL);
    snprintf(where, sizeof where, "%s", strchr(exonet_node_address(bob).data, '@') + 1);
    client = open_session(alice, bob, "rest");
    server = accept_session(bob);
    exonet_receipt_free(say(client, "one"));
    takes(hear(server), "one");
    /* What the server has said settles when the client receives. */
    exonet_receipt_free(say(server, "yes"));
    takes(hear(client), "yes");
    check(exonet_node_close(bob, MINUTE, NULL, &err), &err, "close");
    exonet_session_free(server);
    exonet_node_free(bob);

    exonet_receipt_free(say(client, "two"));
    event = await_change(client, EXONET_CHANGE_AWAY);
    HOLDS(exonet_session_event_address(event).len == 0);
    exonet_session_event_free(event);
    bob = open_node_at(where, state_dir, NULL);
    event = await_change(client, EXONET_CHANGE_BACK);
    HOLDS(exonet_session_event_duration(event) > 0);
    exonet_session_event_free(event);
    server = accept_session(bob);
    takes(hear(server), "two");
    exonet_session_free(server);
    exonet_session_free(client);
    exonet_node_free(bob);
    exonet_node_free(alice);
}

static exonet_event next_event(exonet_node *node, int fd)
{
    exonet_event event;
    HOLDS(readable(fd, MINUTE));
    check(exonet_node_next_event(node, 0, &event, &err), &err, "event");
    return event;
}

/* Sends "0" and "1", the second one in chunks. Their outcomes are events with the tokens 8 and 9. */
static void say_and_be_told(exonet_session *session)
{
    exonet_session_writer *writer;
    exonet_send_options how;

    DEFAULTS(how);
    how.notify = true;
    how.token = 8;
    check(exonet_session_send(session, bytes_of("0"), &how, NULL, &err), &err, "send");
    how.token = 9;
    check(exonet_session_begin(session, &how, &writer, &err), &err, "begin");
    check(exonet_session_writer_write(writer, bytes_of("1"), &err), &err, "write");
    check(exonet_session_writer_finish(writer, NULL, &err), &err, "finish");
    exonet_session_writer_free(writer);
}

static void sessions_are_events(void)
{
    exonet_node *alice = open_node(NULL), *bob = open_node(NULL);
    exonet_session *client, *server;
    exonet_session_event *change;
    exonet_session_options limits;
    exonet_delivery *delivery;
    exonet_event event;
    int bobs, got = 0;

    check(exonet_node_fd(bob, &bobs, &err), &err, "fd");
    DEFAULTS(limits);
    limits.life_ms = 1;
    HOLDS(exonet_node_watch_sessions(bob, 4, &limits, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "not the server");
    check(exonet_node_watch_sessions(bob, 4, NULL, &err), &err, "watch");
    HOLDS(exonet_node_watch_sessions(bob, 4, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "watched already");
    client = open_session(alice, bob, "polled");
    event = next_event(bob, bobs);
    HOLDS(event.kind == EXONET_EVENT_SESSION_OPENED && event.delivery == NULL && event.session_event == NULL);
    server = event.session;
    HOLDS(strcmp(exonet_session_name(server).data, "polled") == 0);
    check(exonet_session_watch(server, 77, &err), &err, "watch");
    HOLDS(exonet_session_watch(server, 77, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "watched already");
    HOLDS(exonet_session_recv(server, 0, &delivery, &err) == EXONET_USAGE && delivery == NULL);
    said(EXONET_USAGE, "events of the node");
    HOLDS(exonet_session_next_event(server, 0, &change, &err) == EXONET_USAGE && change == NULL);
    said(EXONET_USAGE, "events of the node");

    say_and_be_told(client);
    check(exonet_session_finish(client, NULL, &err), &err, "finish");
    check(exonet_session_finish(server, NULL, &err), &err, "finish");
    for (int ended = 0; !ended;) {
        event = next_event(bob, bobs);
        HOLDS(event.token == 77 && event.session == NULL);
        if (event.kind == EXONET_EVENT_SESSION_MESSAGE) {
            char text[2] = {(char)('0' + got++), 0};
            takes(event.delivery, text);
            continue;
        }
        HOLDS(event.kind == EXONET_EVENT_SESSION_CHANGED && event.delivery == NULL);
        ended = exonet_session_event_change(event.session_event) == EXONET_CHANGE_ENDED;
        HOLDS(!ended || exonet_session_event_end(event.session_event) == EXONET_END_CLOSED);
        HOLDS(exonet_session_event_change(event.session_event) != EXONET_CHANGE_CLOSING || got == 2);
        exonet_session_event_free(event.session_event);
    }
    HOLDS(got == 2);
    /* In any order. */
    for (uint64_t told = 0; told != 17; told += event.token) {
        check(exonet_node_next_event(alice, MINUTE, &event, &err), &err, "event");
        HOLDS(event.kind == EXONET_EVENT_SETTLED && (event.token == 8 || event.token == 9) && told != event.token);
        HOLDS(event.outcome.kind == EXONET_DELIVERED);
    }
    exonet_session_free(client);
    exonet_session_free(server);
    exonet_node_free(alice);
    exonet_node_free(bob);
}

/* It is freed with the node: a session, and a message of one. */
static void what_is_not_taken_is_freed(void)
{
    exonet_node *alice = open_node(NULL), *bob = open_node(NULL);
    exonet_session *client, *left;
    exonet_event event;
    int bobs;

    check(exonet_node_fd(bob, &bobs, &err), &err, "fd");
    check(exonet_node_watch_sessions(bob, 4, NULL, &err), &err, "watch");
    client = open_session(alice, bob, "untaken");
    event = next_event(bob, bobs);
    check(exonet_session_watch(event.session, 1, &err), &err, "watch");
    exonet_receipt_free(say(client, "x"));
    left = open_session(alice, bob, "left");
    HOLDS(readable(bobs, MINUTE));
    exonet_session_free(event.session);
    exonet_node_free(bob);
    exonet_session_free(left);
    exonet_session_free(client);
    exonet_node_free(alice);
}

/* What the callback of a server shares with the test. */
struct served {
    exonet_session *session;
    int pipes[2];
};

static void serve(void *context, const exonet_event *event)
{
    struct served *served = (struct served *)context;
    char kind = (char)event->kind;
    if (event->kind == EXONET_EVENT_SESSION_OPENED) {
        served->session = event->session;
        HOLDS(exonet_session_watch(served->session, 0, NULL) == EXONET_OK);
    }
    if (event->kind == EXONET_EVENT_SESSION_MESSAGE) {
        HOLDS(exonet_session_send(served->session, exonet_delivery_body(event->delivery), NULL, NULL, NULL) == EXONET_OK);
        HOLDS(exonet_delivery_ack(event->delivery, 0, NULL) == EXONET_OK);
        exonet_delivery_free(event->delivery);
    }
    if (event->kind == EXONET_EVENT_SESSION_CHANGED) {
        bool ended = exonet_session_event_change(event->session_event) == EXONET_CHANGE_ENDED;
        exonet_session_event_free(event->session_event);
        if (!ended) {
            return;
        }
        exonet_session_free(served->session);
    }
    HOLDS(write(served->pipes[1], &kind, 1) == 1);
}

static void sessions_go_to_a_callback(void)
{
    exonet_node *alice = open_node(NULL), *bob = open_node(NULL);
    struct served served;
    exonet_session *client;
    char kind;

    HOLDS(pipe(served.pipes) == 0);
    check(exonet_node_set_callback(bob, serve, &served, &err), &err, "callback");
    check(exonet_node_watch_sessions(bob, 1, NULL, &err), &err, "watch");
    client = open_session(alice, bob, "echo");
    exonet_receipt_free(say(client, "x"));
    takes(hear(client), "x");
    check(exonet_session_abort(client, &err), &err, "abort");
    exonet_session_free(client);
    HOLDS(read(served.pipes[0], &kind, 1) == 1 && kind == EXONET_EVENT_SESSION_OPENED);
    HOLDS(read(served.pipes[0], &kind, 1) == 1 && kind == EXONET_EVENT_SESSION_MESSAGE);
    HOLDS(read(served.pipes[0], &kind, 1) == 1 && kind == EXONET_EVENT_SESSION_CHANGED);
    exonet_node_free(bob);
    exonet_node_free(alice);
    close(served.pipes[0]);
    close(served.pipes[1]);
}

void sessions(const char *state_dir)
{
    char outlives[4096], returns[4096];

    /* A new identity has nothing left to tell the nodes of an earlier test. */
    snprintf(outlives, sizeof outlives, "%s.outlives", state_dir);
    snprintf(returns, sizeof returns, "%s.returns", state_dir);
    messages_go_both_ways();
    long_messages_go_in_parts();
    too_long_messages_are_rejected();
    sessions_are_refused_aborted_and_detached();
    a_direction_is_closed_only_once();
    a_session_outlives_its_process(outlives);
    a_peer_goes_away_and_comes_back(returns);
    sessions_are_events();
    what_is_not_taken_is_freed();
    sessions_go_to_a_callback();
}
