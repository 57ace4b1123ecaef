/* Every function of the interface, two nodes in one process. Ends with 0, or says in which line what did not hold. */
#include "api.h"
#include <pthread.h>

exonet_error *err;

static void nothing_is_safe_to_free(void)
{
    exonet_error_free(NULL);
    exonet_node_free(NULL);
    exonet_receipt_free(NULL);
    exonet_delivery_free(NULL);
    exonet_call_free(NULL);
    exonet_service_free(NULL);
    exonet_request_free(NULL);
    exonet_stream_free(NULL);
    exonet_session_free(NULL);
    exonet_session_listener_free(NULL);
    exonet_session_writer_free(NULL);
    exonet_session_event_free(NULL);
    exonet_text_free(NULL);
    HOLDS(exonet_error_code(NULL) == EXONET_OK && exonet_error_message(NULL).len == 0);
    HOLDS(exonet_error_status(NULL) == 0 && exonet_error_body(NULL).len == 0 && !exonet_error_has_not_run(NULL));
    HOLDS(exonet_node_id(NULL).len == 0 && exonet_node_address(NULL).len == 0);
    HOLDS(exonet_delivery_from(NULL).len == 0 && exonet_delivery_id(NULL).len == 0);
    HOLDS(exonet_delivery_body(NULL).len == 0 && exonet_delivery_tag(NULL).len == 0);
    HOLDS(exonet_delivery_attempt(NULL) == 0 && exonet_delivery_priority(NULL) == 0);
    HOLDS(exonet_receipt_id(NULL).len == 0 && exonet_receipt_reason(NULL).len == 0 && !exonet_receipt_in_doubt(NULL));
    HOLDS(exonet_receipt_receiver_durability(NULL).len == 0);
    HOLDS(exonet_call_reply(NULL).len == 0 && exonet_call_id(NULL).len == 0);
    HOLDS(exonet_session_id(NULL).len == 0 && exonet_session_name(NULL).len == 0 && exonet_session_peer(NULL).len == 0);
    HOLDS(!exonet_session_is_client(NULL) && exonet_error_session_end(NULL) == EXONET_END_NONE);
    HOLDS(exonet_session_event_change(NULL) == EXONET_CHANGE_OTHER);
    HOLDS(exonet_session_event_end(NULL) == EXONET_END_NONE && exonet_session_event_reason(NULL).len == 0);
    HOLDS(exonet_session_event_address(NULL).len == 0 && exonet_session_event_duration(NULL) == 0);
    HOLDS(exonet_session_event_missing(NULL) == 0);
    HOLDS(exonet_stream_peer(NULL).len == 0 && exonet_stream_name(NULL).len == 0);
    HOLDS(exonet_request_caller(NULL).len == 0 && exonet_request_id(NULL).len == 0);
    HOLDS(exonet_request_method(NULL).len == 0 && exonet_request_body(NULL).len == 0);
}

static void wrong_arguments_are_named(void)
{
    exonet_node_options options;
    exonet_outcome outcome;
    exonet_node *node = (exonet_node *)&options;
    exonet_node *alice;
    exonet_bytes lie = {NULL, 5};
    exonet_str garbled = {"a\xff", 2};

    HOLDS(exonet_node_open(NULL, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "node is NULL");
    memset(&options, 0, sizeof options);
    HOLDS(exonet_node_open(&options, &node, &err) == EXONET_USAGE && node == NULL);
    said(EXONET_USAGE, "options->size is 0");
    DEFAULTS(options);
    options.bind = exonet_cstr("here");
    HOLDS(exonet_node_open(&options, &node, &err) == EXONET_NOT_OPENED && node == NULL);
    said(EXONET_NOT_OPENED, "here");
    DEFAULTS(options);
    options.durability = exonet_cstr("hard");
    HOLDS(exonet_node_open(&options, &node, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "batched=MS");
    options.durability = exonet_cstr("sync");
    HOLDS(exonet_node_open(&options, &node, &err) == EXONET_NOT_OPENED);
    said(EXONET_NOT_OPENED, "give the node a directory for its state, by `state_dir`");
    DEFAULTS(options);
    options.allow = exonet_cstr("everyone");
    HOLDS(exonet_node_open(&options, &node, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "everyone");
    /* Errors need not be taken. */
    HOLDS(exonet_node_open(&options, &node, NULL) == EXONET_USAGE);
    HOLDS(exonet_recv(NULL, 0, NULL, NULL) == EXONET_USAGE);
    HOLDS(exonet_receipt_wait(NULL, 0, &outcome, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "receipt is NULL");

    alice = open_node(NULL);
    HOLDS(exonet_send(alice, exonet_cstr("bob"), bytes_of("x"), NULL, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "\"bob\" is not a node id");
    HOLDS(exonet_send(alice, exonet_cstr("bob"), bytes_of("x"), NULL, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "a peer is written as ID@HOST:PORT");
    HOLDS(exonet_send(alice, exonet_node_address(alice), lie, NULL, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "body is NULL");
    HOLDS(exonet_send(alice, garbled, bytes_of("x"), NULL, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "byte 1");
    HOLDS(exonet_send(alice, exonet_node_address(alice), bytes_of("x"), NULL, NULL, &err) == EXONET_NOT_SENT);
    said(EXONET_NOT_SENT, "itself");
    HOLDS(exonet_node_set_allow(alice, exonet_cstr("x"), &err) == EXONET_USAGE);
    said(EXONET_USAGE, "not a node id");
    HOLDS(exonet_node_set_allow(alice, exonet_node_id(alice), &err) == EXONET_OK && err == NULL);
    exonet_node_free(alice);
}

static void messages_are_sent_and_received(void)
{
    exonet_node *alice = open_node(NULL), *bob = open_node(NULL);
    exonet_send_options how;
    exonet_receipt *receipt;
    exonet_delivery *delivery;
    exonet_outcome outcome;
    size_t size = 1 << 20;
    uint8_t *large = (uint8_t *)malloc(size);
    exonet_bytes body = {large, size};
    char *json;

    HOLDS(exonet_recv(bob, 0, &delivery, &err) == EXONET_TIMEOUT && delivery == NULL && err == NULL);
    HOLDS(exonet_recv(bob, 5, &delivery, &err) == EXONET_TIMEOUT && err == NULL);
    DEFAULTS(how);
    how.tag = bytes_of("greeting");
    how.priority = EXONET_PRIORITY_URGENT;
    how.confirm = EXONET_CONFIRM_PROCESSED;
    check(exonet_send(alice, exonet_node_address(bob), bytes_of("hello"), &how, &receipt, &err), &err, "send");
    delivery = receive(bob);
    HOLDS(same(exonet_delivery_body(delivery), "hello") && same(exonet_delivery_tag(delivery), "greeting"));
    HOLDS(exonet_delivery_priority(delivery) == EXONET_PRIORITY_URGENT && exonet_delivery_attempt(delivery) == 1);
    HOLDS(strcmp(exonet_delivery_from(delivery).data, exonet_node_id(alice).data) == 0);
    HOLDS(exonet_receipt_wait(receipt, 0, &outcome, &err) == EXONET_TIMEOUT && outcome.kind == EXONET_OPEN);
    HOLDS(exonet_receipt_wait(receipt, 5, &outcome, &err) == EXONET_TIMEOUT && exonet_receipt_in_doubt(receipt));
    check(exonet_delivery_ack(delivery, 42, &err), &err, "ack");
    HOLDS(exonet_delivery_ack(delivery, 0, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "dealt with already");
    outcome = outcome_of(receipt);
    HOLDS(outcome.kind == EXONET_PROCESSED && outcome.status == 42 && !outcome.late);
    HOLDS(strcmp(exonet_receipt_id(receipt).data, exonet_delivery_id(delivery).data) == 0);
    HOLDS(exonet_receipt_cancel(receipt, NULL, &err) == EXONET_NOT_CANCELLED);
    said(EXONET_NOT_CANCELLED, "settled already");
    exonet_delivery_free(delivery);
    exonet_receipt_free(receipt);

    for (size_t i = 0; i < size; i++) {
        large[i] = (uint8_t)(i * 7 + i / 251);
    }
    check(exonet_send(alice, exonet_node_address(bob), body, NULL, &receipt, &err), &err, "send");
    /* However short the time is, nothing of it is lost. */
    while (exonet_recv(bob, 1, &delivery, &err) == EXONET_TIMEOUT) {
    }
    HOLDS(err == NULL && exonet_delivery_attempt(delivery) == 1 && exonet_delivery_body(delivery).len == size);
    HOLDS(memcmp(exonet_delivery_body(delivery).data, large, size) == 0);
    check(exonet_delivery_ack(delivery, 0, &err), &err, "ack");
    HOLDS(outcome_of(receipt).kind == EXONET_DELIVERED);
    exonet_delivery_free(delivery);
    exonet_receipt_free(receipt);
    free(large);

    check(exonet_node_stats(alice, &json, &err), &err, "stats");
    HOLDS(strstr(json, "\"sent\":2,") != NULL && strstr(json, "\"delivered\":2,") != NULL);
    exonet_text_free(json);
    check(exonet_node_flush(alice, MINUTE, &err), &err, "flush");
    exonet_node_free(alice);
    exonet_node_free(bob);
}

static void messages_and_calls_continue_a_trace(void)
{
    static const char *const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    exonet_node *alice = open_node(NULL), *bob = open_node(NULL);
    exonet_session *client, *server;
    exonet_service *service;
    exonet_request *request;
    exonet_delivery *delivery;
    exonet_call_options asked;
    exonet_send_options how;
    exonet_call *call;

    DEFAULTS(how);
    how.traceparent = exonet_cstr("00-1-2-3");
    HOLDS(exonet_send(alice, exonet_node_address(bob), bytes_of("x"), &how, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "TRACE-PARENT-FLAGS");
    how.traceparent = exonet_cstr(trace);
    check(exonet_send(alice, exonet_node_address(bob), bytes_of("x"), &how, NULL, &err), &err, "send");
    delivery = receive(bob);
    HOLDS(strcmp(exonet_delivery_traceparent(delivery).data, trace) == 0);
    takes(delivery, "x");
    exonet_receipt_free(send_text(alice, bob, "y"));
    delivery = receive(bob);
    HOLDS(exonet_delivery_traceparent(delivery).len == 0 && exonet_delivery_traceparent(NULL).len == 0);
    takes(delivery, "y");

    check(exonet_session_open(alice, exonet_node_address(bob), exonet_cstr("traced"), NULL, &client, &err), &err, "open");
    check(exonet_session_send(client, bytes_of("x"), &how, NULL, &err), &err, "send");
    check(exonet_session_accept(bob, MINUTE, NULL, &server, &err), &err, "accept");
    check(exonet_session_recv(server, MINUTE, &delivery, &err), &err, "recv");
    HOLDS(strcmp(exonet_delivery_traceparent(delivery).data, trace) == 0);
    takes(delivery, "x");
    exonet_session_free(client);
    exonet_session_free(server);

    check(exonet_serve(bob, exonet_cstr("add"), NULL, &service, &err), &err, "serve");
    DEFAULTS(asked);
    asked.traceparent = exonet_cstr("x");
    HOLDS(exonet_call_start(alice, exonet_node_address(bob), exonet_cstr("add"), bytes_of("1"), &asked, &call, &err) ==
          EXONET_USAGE);
    said(EXONET_USAGE, "TRACE-PARENT-FLAGS");
    asked.traceparent = exonet_cstr(trace);
    check(exonet_call_start(alice, exonet_node_address(bob), exonet_cstr("add"), bytes_of("1"), &asked, &call, &err), &err,
          "call");
    check(exonet_service_next(service, MINUTE, &request, &err), &err, "next");
    HOLDS(strcmp(exonet_request_traceparent(request).data, trace) == 0 && exonet_request_traceparent(NULL).len == 0);
    check(exonet_request_reply(request, bytes_of("2"), &err), &err, "reply");
    check(exonet_call_wait(call, MINUTE, &err), &err, "call");
    exonet_request_free(request);
    exonet_call_free(call);
    exonet_service_free(service);
    exonet_node_free(alice);
    exonet_node_free(bob);
}

static void messages_are_refused_put_off_and_withdrawn(void)
{
    exonet_node *alice = open_node(NULL), *bob = open_node(NULL);
    exonet_send_options how;
    exonet_receipt *receipt, *lost;
    exonet_delivery *delivery;
    exonet_outcome outcome;
    bool asked;
    char nobody[200];

    receipt = send_text(alice, bob, "again");
    exonet_delivery_free(receive(bob));
    delivery = receive(bob);
    HOLDS(exonet_delivery_attempt(delivery) == 2);
    check(exonet_delivery_retry(delivery, 1, &err), &err, "retry");
    exonet_delivery_free(delivery);
    delivery = receive(bob);
    HOLDS(exonet_delivery_attempt(delivery) == 3);
    check(exonet_delivery_reject(delivery, 5, exonet_cstr("no more"), &err), &err, "reject");
    exonet_delivery_free(delivery);
    outcome = outcome_of(receipt);
    HOLDS(outcome.kind == EXONET_REJECTED && outcome.status == 5);
    HOLDS(strcmp(exonet_receipt_reason(receipt).data, "no more") == 0);
    HOLDS(strcmp(exonet_receipt_receiver_durability(receipt).data, "memory") == 0);
    exonet_receipt_free(receipt);

    /* Nobody is there: the id is that of a node that has ended. */
    snprintf(nobody, sizeof nobody, "%s", exonet_node_address(bob).data);
    exonet_node_free(bob);
    bob = open_node(NULL);
    snprintf(strchr(nobody, '@'), 64, "@127.0.0.1:9");
    check(exonet_send(alice, exonet_cstr(nobody), bytes_of("x"), NULL, &lost, &err), &err, "send");
    HOLDS(exonet_receipt_wait(lost, 1, &outcome, &err) == EXONET_TIMEOUT || outcome.kind == EXONET_REFUSED);
    if (outcome.kind == EXONET_OPEN) {
        exonet_receipt_cancel(lost, &asked, NULL);
        check(exonet_receipt_abandon(lost, &err), &err, "abandon");
    }
    outcome = outcome_of(lost);
    HOLDS(outcome.kind == EXONET_UNKNOWN || outcome.kind == EXONET_CANCELLED || outcome.kind == EXONET_REFUSED);
    exonet_receipt_free(lost);

    DEFAULTS(how);
    how.durable = true;
    HOLDS(exonet_send(alice, exonet_node_address(bob), bytes_of("x"), &how, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "state_dir");
    DEFAULTS(how);
    how.confirm = 9;
    HOLDS(exonet_send(alice, exonet_node_address(bob), bytes_of("x"), &how, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "confirm is 9");
    /* Not every sender wants to know. */
    DEFAULTS(how);
    how.no_wait = true;
    check(exonet_send(alice, exonet_node_address(bob), bytes_of("x"), &how, NULL, &err), &err, "send");
    delivery = receive(bob);
    check(exonet_delivery_ack(delivery, 0, &err), &err, "ack");
    exonet_delivery_free(delivery);
    exonet_node_free(alice);
    exonet_node_free(bob);
}

static void *wait_for_a_message(void *node)
{
    exonet_delivery *delivery;
    exonet_error *error;
    exonet_code code = exonet_recv((exonet_node *)node, -1, &delivery, &error);
    HOLDS(delivery == NULL);
    exonet_error_free(error);
    return (void *)(intptr_t)code;
}

static void *wait_for_an_outcome(void *receipt)
{
    exonet_outcome outcome;
    HOLDS(exonet_receipt_wait((exonet_receipt *)receipt, MINUTE, &outcome, NULL) == EXONET_OK);
    return (void *)(intptr_t)outcome.kind;
}

static void threads_share_handles(void)
{
    exonet_node *alice = open_node(NULL), *bob = open_node(NULL);
    exonet_receipt *receipt = send_text(alice, bob, "x");
    exonet_delivery *delivery = receive(bob);
    pthread_t threads[4], blocked;
    uint64_t open = 7;
    void *result;

    for (int i = 0; i < 4; i++) {
        HOLDS(pthread_create(&threads[i], NULL, wait_for_an_outcome, receipt) == 0);
    }
    check(exonet_delivery_ack(delivery, 0, &err), &err, "ack");
    for (int i = 0; i < 4; i++) {
        HOLDS(pthread_join(threads[i], &result) == 0 && (intptr_t)result == EXONET_DELIVERED);
    }
    HOLDS(pthread_create(&blocked, NULL, wait_for_a_message, bob) == 0);
    check(exonet_node_close(bob, MINUTE, &open, &err), &err, "close");
    HOLDS(open == 0 && pthread_join(blocked, &result) == 0 && (intptr_t)result == EXONET_CLOSED);
    HOLDS(exonet_send(bob, exonet_node_address(alice), bytes_of("x"), NULL, NULL, &err) == EXONET_CLOSED);
    said(EXONET_CLOSED, "open another");
    /* The node goes first. */
    exonet_node_free(bob);
    exonet_delivery_free(delivery);
    exonet_node_free(alice);
    HOLDS(outcome_of(receipt).kind == EXONET_DELIVERED);
    exonet_receipt_free(receipt);
}

static void events_can_be_polled(void)
{
    exonet_node *alice = open_node(NULL), *bob = open_node(NULL);
    exonet_send_options how;
    exonet_event event;
    int alices, bobs, again;

    check(exonet_node_fd(alice, &alices, &err), &err, "fd");
    check(exonet_node_fd(bob, &bobs, &err), &err, "fd");
    check(exonet_node_fd(bob, &again, &err), &err, "fd");
    HOLDS(again == bobs && !readable(bobs, 0));
    HOLDS(exonet_node_next_event(bob, 0, &event, &err) == EXONET_TIMEOUT && err == NULL);
    check(exonet_node_watch_messages(bob, 2, &err), &err, "watch");
    HOLDS(exonet_node_watch_messages(bob, 2, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "watched already");

    DEFAULTS(how);
    how.notify = true;
    for (uint64_t i = 0; i < 5; i++) {
        how.token = 100 + i;
        check(exonet_send(alice, exonet_node_address(bob), bytes_of("x"), &how, NULL, &err), &err, "send");
    }
    for (int i = 0; i < 5; i++) {
        HOLDS(readable(bobs, MINUTE));
        check(exonet_node_next_event(bob, 0, &event, &err), &err, "event");
        HOLDS(event.kind == EXONET_EVENT_MESSAGE && event.request == NULL);
        check(exonet_delivery_ack(event.delivery, 0, &err), &err, "ack");
        exonet_delivery_free(event.delivery);
    }
    HOLDS(!readable(bobs, 0));
    for (int i = 0, seen = 0; i < 5; i++) {
        HOLDS(readable(alices, MINUTE));
        check(exonet_node_next_event(alice, -1, &event, &err), &err, "event");
        HOLDS(event.kind == EXONET_EVENT_SETTLED && event.outcome.kind == EXONET_DELIVERED);
        HOLDS(event.token >= 100 && event.token < 105 && !(seen & 1 << (event.token - 100)));
        seen |= 1 << (event.token - 100);
    }
    /* One that is never taken is freed with the node. */
    exonet_receipt_free(send_text(alice, bob, "left"));
    HOLDS(readable(bobs, MINUTE));
    check(exonet_node_close(alice, 0, NULL, &err), &err, "close");
    HOLDS(readable(alices, MINUTE) && exonet_node_next_event(alice, -1, &event, &err) == EXONET_OK);
    HOLDS(event.kind == EXONET_EVENT_CLOSED && readable(alices, 0));
    HOLDS(exonet_node_next_event(alice, -1, &event, &err) == EXONET_CLOSED);
    said(EXONET_CLOSED, "open another");
    exonet_node_free(alice);
    exonet_node_free(bob);
}

/* What the callback has seen: a byte for each event. */
static void note(void *context, const exonet_event *event)
{
    char kind = (char)event->kind;
    if (event->kind == EXONET_EVENT_MESSAGE) {
        exonet_delivery_ack(event->delivery, 0, NULL);
        exonet_delivery_free(event->delivery);
    }
    if (event->kind == EXONET_EVENT_REQUEST) {
        exonet_request_reply(event->request, exonet_request_body(event->request), NULL);
        exonet_request_free(event->request);
    }
    HOLDS(write(*(int *)context, &kind, 1) == 1);
}

static void events_go_to_a_callback(void)
{
    exonet_node *alice = open_node(NULL), *bob = open_node(NULL);
    exonet_serve_options how;
    exonet_call_options options;
    exonet_service *service;
    exonet_receipt *receipt;
    exonet_call *call;
    exonet_event event;
    int pipes[2];
    char kind;

    HOLDS(pipe(pipes) == 0);
    HOLDS(exonet_node_set_callback(bob, NULL, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "callback is NULL");
    check(exonet_node_set_callback(bob, note, &pipes[1], &err), &err, "callback");
    HOLDS(exonet_node_set_callback(bob, note, &pipes[1], &err) == EXONET_USAGE);
    said(EXONET_USAGE, "a callback already");
    HOLDS(exonet_node_next_event(bob, 0, &event, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "go to its callback");
    check(exonet_node_watch_messages(bob, 1, &err), &err, "watch");
    receipt = send_text(alice, bob, "x");
    HOLDS(read(pipes[0], &kind, 1) == 1 && kind == EXONET_EVENT_MESSAGE);
    HOLDS(outcome_of(receipt).kind == EXONET_DELIVERED);
    exonet_receipt_free(receipt);

    DEFAULTS(how);
    how.notify = true;
    check(exonet_serve(bob, exonet_cstr("echo"), &how, &service, &err), &err, "serve");
    DEFAULTS(options);
    options.notify = true;
    options.token = 77;
    check(exonet_call_start(alice, exonet_node_address(bob), exonet_cstr("echo"), bytes_of("y"), &options, &call, &err),
          &err, "call");
    HOLDS(read(pipes[0], &kind, 1) == 1 && kind == EXONET_EVENT_REQUEST);
    check(exonet_node_next_event(alice, MINUTE, &event, &err), &err, "event");
    HOLDS(event.kind == EXONET_EVENT_CALL_ENDED && event.token == 77);
    check(exonet_call_wait(call, 0, &err), &err, "call");
    HOLDS(same(exonet_call_reply(call), "y") && exonet_call_id(call).len > 0);
    exonet_call_free(call);
    exonet_service_free(service);
    exonet_node_free(bob);
    HOLDS(read(pipes[0], &kind, 1) == 1 && kind == EXONET_EVENT_CLOSED);
    exonet_node_free(alice);
    close(pipes[0]);
    close(pipes[1]);
}

static void free_from_within(void *context, const exonet_event *event)
{
    if (event->kind == EXONET_EVENT_SETTLED) {
        exonet_node_free(*(exonet_node **)context);
        HOLDS(write(((int *)(void *)((exonet_node **)context + 1))[1], "x", 1) == 1);
    }
}

static void a_callback_may_free_its_node(void)
{
    struct {
        exonet_node *node;
        int pipes[2];
    } shared;
    exonet_node *bob = open_node(NULL);
    exonet_send_options how;
    exonet_delivery *delivery;
    char byte;

    HOLDS(pipe(shared.pipes) == 0);
    shared.node = open_node(NULL);
    check(exonet_node_set_callback(shared.node, free_from_within, &shared, &err), &err, "callback");
    DEFAULTS(how);
    how.notify = true;
    check(exonet_send(shared.node, exonet_node_address(bob), bytes_of("x"), &how, NULL, &err), &err, "send");
    delivery = receive(bob);
    check(exonet_delivery_ack(delivery, 0, &err), &err, "ack");
    HOLDS(read(shared.pipes[0], &byte, 1) == 1);
    exonet_delivery_free(delivery);
    exonet_node_free(bob);
    close(shared.pipes[0]);
    close(shared.pipes[1]);
}

static exonet_call *call_add(exonet_node *from, exonet_node *to, const char *numbers)
{
    exonet_call *call;
    check(exonet_call_start(from, exonet_node_address(to), exonet_cstr("add"), bytes_of(numbers), NULL, &call, &err), &err,
          "call");
    return call;
}

static exonet_request *next_call(exonet_service *service)
{
    exonet_request *request;
    check(exonet_service_next(service, MINUTE, &request, &err), &err, "next");
    return request;
}

static void calls_are_made_and_answered(void)
{
    exonet_node *alice = open_node(NULL), *bob = open_node(NULL);
    exonet_service *service, *twice;
    exonet_request *request;
    exonet_call *call = call_add(alice, bob, "1");

    HOLDS(exonet_call_wait(call, MINUTE, &err) == EXONET_CALL_FAILED && exonet_error_has_not_run(err));
    HOLDS(exonet_error_status(err) >= 0xffffff00u);
    said(EXONET_CALL_FAILED, "failed");
    exonet_call_free(call);

    check(exonet_serve(bob, exonet_cstr("add"), NULL, &service, &err), &err, "serve");
    HOLDS(exonet_serve(bob, exonet_cstr("add"), NULL, &twice, &err) == EXONET_NOT_SERVED && twice == NULL);
    said(EXONET_NOT_SERVED, "served already");
    HOLDS(exonet_service_next(service, 1, &request, &err) == EXONET_TIMEOUT && request == NULL && err == NULL);
    call = call_add(alice, bob, "1");
    request = next_call(service);
    HOLDS(same(exonet_request_body(request), "1") && strcmp(exonet_request_method(request).data, "add") == 0);
    HOLDS(strcmp(exonet_request_caller(request).data, exonet_node_id(alice).data) == 0);
    HOLDS(exonet_call_wait(call, 0, &err) == EXONET_TIMEOUT && exonet_call_reply(call).len == 0);
    check(exonet_request_reply(request, bytes_of("2"), &err), &err, "reply");
    HOLDS(exonet_request_reply(request, bytes_of("3"), &err) == EXONET_USAGE);
    said(EXONET_USAGE, "answered already");
    check(exonet_call_wait(call, MINUTE, &err), &err, "call");
    HOLDS(same(exonet_call_reply(call), "2"));
    HOLDS(strcmp(exonet_call_id(call).data, exonet_request_id(request).data) == 0);
    exonet_request_free(request);
    exonet_call_free(call);

    call = call_add(alice, bob, "");
    request = next_call(service);
    HOLDS(exonet_request_fail(request, 0, bytes_of(""), &err) == EXONET_USAGE);
    said(EXONET_USAGE, "0xfffffeff");
    check(exonet_request_fail(request, 8, bytes_of("two numbers"), &err), &err, "fail");
    exonet_request_free(request);
    for (int i = 0; i < 2; i++) {
        HOLDS(exonet_call_wait(call, MINUTE, &err) == EXONET_CALL_FAILED && exonet_error_status(err) == 8);
        HOLDS(same(exonet_error_body(err), "two numbers") && !exonet_error_has_not_run(err));
        said(EXONET_CALL_FAILED, "status 8");
    }
    exonet_call_free(call);
    exonet_service_free(service);
    exonet_node_free(alice);
    exonet_node_free(bob);
}

/* One is freed unanswered, one is given up, one is freed before its end. */
static void calls_are_left_unanswered(void)
{
    exonet_node *alice = open_node(NULL), *bob = open_node(NULL);
    exonet_service *service;
    exonet_request *request;
    exonet_call *call;
    uint64_t left;

    check(exonet_serve(bob, exonet_cstr("add"), NULL, &service, &err), &err, "serve");
    call = call_add(alice, bob, "1");
    request = next_call(service);
    exonet_request_free(request);
    HOLDS(exonet_call_wait(call, MINUTE, NULL) == EXONET_CALL_FAILED);
    exonet_call_free(call);
    call = call_add(alice, bob, "1");
    request = next_call(service);
    check(exonet_call_give_up(call, &err), &err, "give up");
    HOLDS(exonet_call_wait(call, MINUTE, &err) == EXONET_CALL_UNKNOWN);
    said(EXONET_CALL_UNKNOWN, "given up");
    exonet_request_free(request);
    exonet_call_free(call);
    call = call_add(alice, bob, "1");
    request = next_call(service);
    exonet_call_free(call);
    check(exonet_service_stop(service, 0, &left, &err), &err, "stop");
    HOLDS(left == 1 && exonet_service_next(service, -1, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "request is NULL");
    exonet_request_free(request);
    HOLDS(exonet_service_next(service, -1, &request, &err) == EXONET_CLOSED && request == NULL);
    said(EXONET_CLOSED, "open another");
    exonet_service_free(service);
    exonet_node_free(alice);
    exonet_node_free(bob);
}

static void streams_keep_their_order(void)
{
    exonet_node *alice = open_node(NULL), *bob = open_node(NULL);
    exonet_stream *orders, *incoming;
    exonet_send_options how;
    exonet_delivery *delivery;
    exonet_receipt *last, *end;
    char text[8];

    HOLDS(exonet_stream_open(alice, exonet_node_address(bob), exonet_cstr(""), &orders, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "name");
    check(exonet_stream_open(alice, exonet_node_address(bob), exonet_cstr("orders"), &orders, &err), &err, "open");
    HOLDS(exonet_stream_accept(bob, 0, &incoming, &err) == EXONET_TIMEOUT && incoming == NULL && err == NULL);
    DEFAULTS(how);
    how.tag = bytes_of("x");
    HOLDS(exonet_stream_send(orders, bytes_of("x"), &how, &last, &err) == EXONET_NOT_SENT && last == NULL);
    said(EXONET_NOT_SENT, "tag");
    for (int i = 0; i < 50; i++) {
        snprintf(text, sizeof text, "%d", i);
        check(exonet_stream_send(orders, bytes_of(text), NULL, i == 49 ? &last : NULL, &err), &err, "send");
    }
    check(exonet_stream_close(orders, &end, &err), &err, "close");
    HOLDS(exonet_stream_send(orders, bytes_of("x"), NULL, NULL, &err) == EXONET_NOT_SENT);
    said(EXONET_NOT_SENT, "closed at this end");

    check(exonet_stream_accept(bob, MINUTE, &incoming, &err), &err, "accept");
    HOLDS(strcmp(exonet_stream_name(incoming).data, "orders") == 0);
    HOLDS(strcmp(exonet_stream_peer(incoming).data, exonet_node_id(alice).data) == 0);
    for (int i = 0; i < 50; i++) {
        snprintf(text, sizeof text, "%d", i);
        check(exonet_stream_recv(incoming, MINUTE, &delivery, &err), &err, "recv");
        HOLDS(same(exonet_delivery_body(delivery), text));
        if (i == 0) {
            exonet_delivery *none;
            HOLDS(exonet_stream_recv(incoming, 1, &none, &err) == EXONET_TIMEOUT && none == NULL);
        }
        check(exonet_delivery_ack(delivery, 0, &err), &err, "ack");
        exonet_delivery_free(delivery);
    }
    HOLDS(exonet_stream_recv(incoming, MINUTE, &delivery, &err) == EXONET_STREAM_ENDED && delivery == NULL);
    said(EXONET_STREAM_ENDED, "ended");
    HOLDS(outcome_of(last).kind == EXONET_DELIVERED && outcome_of(end).kind == EXONET_DELIVERED);
    exonet_receipt_free(last);
    exonet_receipt_free(end);

    /* The peer gives its direction up. */
    check(exonet_stream_send(incoming, bytes_of("back"), NULL, NULL, &err), &err, "send");
    check(exonet_stream_recv(orders, MINUTE, &delivery, &err), &err, "recv");
    takes(delivery, "back");
    check(exonet_stream_reset(incoming, &end, &err), &err, "reset");
    HOLDS(exonet_stream_send(incoming, bytes_of("x"), NULL, NULL, &err) == EXONET_NOT_SENT);
    said(EXONET_NOT_SENT, "closed at this end");
    HOLDS(exonet_stream_recv(orders, MINUTE, &delivery, &err) == EXONET_STREAM_BROKEN && delivery == NULL);
    exonet_error_free(err);
    err = NULL;
    HOLDS(outcome_of(end).kind == EXONET_DELIVERED);
    exonet_receipt_free(end);
    exonet_stream_free(orders);
    exonet_stream_free(incoming);
    exonet_node_free(alice);
    exonet_node_free(bob);
}

static void an_identity_is_stored(const char *state_dir)
{
    exonet_node *bob = open_node(state_dir), *other = NULL, *alice = open_node(NULL);
    exonet_node_options options;
    exonet_send_options how;
    exonet_delivery *delivery;
    char id[100];

    snprintf(id, sizeof id, "%s", exonet_node_id(bob).data);
    DEFAULTS(options);
    options.state_dir = exonet_cstr(state_dir);
    HOLDS(exonet_node_open(&options, &other, &err) == EXONET_NOT_OPENED && other == NULL);
    said(EXONET_NOT_OPENED, state_dir);
    DEFAULTS(how);
    how.durable = true;
    check(exonet_send(bob, exonet_node_address(alice), bytes_of("kept"), &how, NULL, &err), &err, "send");
    delivery = receive(alice);
    check(exonet_delivery_ack(delivery, 0, &err), &err, "ack");
    exonet_delivery_free(delivery);
    check(exonet_node_close(bob, MINUTE, NULL, &err), &err, "close");
    exonet_node_free(bob);
    bob = open_node(state_dir);
    HOLDS(strcmp(id, exonet_node_id(bob).data) == 0);
    exonet_node_free(bob);
    exonet_node_free(alice);
}

/* api STATE: every function; STATE is not there yet. api STATE SERVICE: names at this service. */
int main(int argc, char **argv)
{
    char file[4096], named[4096];

    HOLDS(argc == 2 || argc == 3);
    snprintf(file, sizeof file, "file:%s.names", argv[1]);
    snprintf(named, sizeof named, "%s.named", argv[1]);
    if (argc == 3) {
        names(argv[2], named);
        return 0;
    }
    HOLDS(exonet_abi() == EXONET_ABI);
    HOLDS(strchr(exonet_version().data, '.') != NULL && strlen(exonet_version().data) == exonet_version().len);
    nothing_is_safe_to_free();
    wrong_arguments_are_named();
    messages_are_sent_and_received();
    messages_and_calls_continue_a_trace();
    messages_are_refused_put_off_and_withdrawn();
    threads_share_handles();
    events_can_be_polled();
    events_go_to_a_callback();
    a_callback_may_free_its_node();
    calls_are_made_and_answered();
    calls_are_left_unanswered();
    streams_keep_their_order();
    an_identity_is_stored(argv[1]);
    answers();
    sessions(argv[1]);
    groups();
    names(file, named);
    puts("all of it holds");
    return 0;
}
