/* Answers: see api.c. */
#include "api.h"

/* More than the node of `open_short` sends. */
static uint8_t too_long[2000];

static exonet_bytes long_body(void)
{
    exonet_bytes body = {too_long, sizeof too_long};
    return body;
}

static exonet_node *open_short(void)
{
    exonet_node_options options;
    exonet_node *node;
    DEFAULTS(options);
    options.bind = exonet_cstr("127.0.0.1:0");
    options.allow = exonet_cstr("anyone");
    options.max_message = 1000;
    check(exonet_node_open(&options, &node, &err), &err, "open");
    return node;
}

/* The answer is too long, and the delivery is as it was before. */
static void is_refused(exonet_delivery *delivery, exonet_node *node)
{
    exonet_receipt *none;
    exonet_delivery *other;
    HOLDS(exonet_delivery_answer(delivery, node, long_body(), NULL, &none, &err) == EXONET_NOT_SENT && none == NULL);
    said(EXONET_NOT_SENT, "2000 bytes");
    HOLDS(exonet_recv(node, 0, &other, &err) == EXONET_TIMEOUT && other == NULL);
}

static void outcome_is(exonet_receipt *receipt, exonet_outcome_kind kind, uint32_t status)
{
    exonet_outcome outcome = outcome_of(receipt);
    HOLDS(outcome.kind == kind && outcome.status == status);
    exonet_receipt_free(receipt);
}

static void messages_are_answered_and_sent_on(void)
{
    exonet_node *alice = open_node(NULL), *bob = open_short(), *carol = open_node(NULL);
    exonet_send_options how;
    exonet_receipt *asked = send_text(alice, bob, "question"), *answer;
    exonet_delivery *delivery = receive(bob);
    exonet_str nobody = exonet_cstr("nobody");

    HOLDS(exonet_delivery_answer(NULL, bob, bytes_of("x"), NULL, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "delivery is NULL");
    HOLDS(exonet_delivery_answer(delivery, NULL, bytes_of("x"), NULL, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "node is NULL");
    HOLDS(exonet_delivery_answer(delivery, alice, bytes_of("x"), NULL, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "another node");
    HOLDS(exonet_delivery_ack_and_send(delivery, bob, nobody, bytes_of("x"), NULL, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "nobody");
    DEFAULTS(how);
    how.no_wait = true;
    HOLDS(exonet_delivery_answer(delivery, bob, bytes_of("x"), &how, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "no_wait");
    is_refused(delivery, bob);
    DEFAULTS(how);
    how.tag = bytes_of("t");
    how.confirm = EXONET_CONFIRM_PROCESSED;
    check(exonet_delivery_answer(delivery, bob, bytes_of("answer"), &how, &answer, &err), &err, "answer");
    HOLDS(exonet_delivery_ack(delivery, 0, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "dealt with already");
    exonet_delivery_free(delivery);
    delivery = receive(alice);
    HOLDS(same(exonet_delivery_tag(delivery), "t"));
    takes(delivery, "answer");
    outcome_is(asked, EXONET_DELIVERED, 0);
    outcome_is(answer, EXONET_PROCESSED, 0);

    asked = send_text(alice, bob, "on");
    delivery = receive(bob);
    check(exonet_delivery_ack_and_send(delivery, bob, exonet_node_address(carol), bytes_of("and on"), NULL, NULL, &err),
          &err, "send on");
    exonet_delivery_free(delivery);
    takes(receive(carol), "and on");
    outcome_is(asked, EXONET_DELIVERED, 0);
    exonet_node_free(alice);
    exonet_node_free(bob);
    exonet_node_free(carol);
}

static void what_is_not_answered_is_dealt_with_otherwise(void)
{
    exonet_node *alice = open_node(NULL), *bob = open_short();
    exonet_receipt *asked = send_text(alice, bob, "question");
    exonet_delivery *delivery = receive(bob);

    /* If it is freed, it is handed out again. */
    is_refused(delivery, bob);
    exonet_delivery_free(delivery);
    delivery = receive(bob);
    HOLDS(exonet_delivery_attempt(delivery) == 2);
    is_refused(delivery, bob);
    check(exonet_delivery_retry(delivery, 0, &err), &err, "retry");
    exonet_delivery_free(delivery);
    delivery = receive(bob);
    HOLDS(exonet_delivery_attempt(delivery) == 3);
    is_refused(delivery, bob);
    check(exonet_delivery_ack(delivery, 0, &err), &err, "ack");
    exonet_delivery_free(delivery);
    outcome_is(asked, EXONET_DELIVERED, 0);

    asked = send_text(alice, bob, "question");
    delivery = receive(bob);
    is_refused(delivery, bob);
    check(exonet_delivery_reject(delivery, 7, exonet_cstr("it has no answer"), &err), &err, "reject");
    exonet_delivery_free(delivery);
    outcome_is(asked, EXONET_REJECTED, 7);

    exonet_receipt_free(send_text(alice, bob, "question"));
    delivery = receive(bob);
    check(exonet_node_close(alice, 0, NULL, &err), &err, "close");
    check(exonet_node_close(bob, 0, NULL, &err), &err, "close");
    HOLDS(exonet_delivery_answer(delivery, bob, bytes_of("late"), NULL, NULL, &err) == EXONET_CLOSED);
    said(EXONET_CLOSED, "closed");
    HOLDS(exonet_delivery_ack(delivery, 0, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "dealt with already");
    exonet_delivery_free(delivery);
    exonet_node_free(alice);
    exonet_node_free(bob);
}

static void a_stream_is_answered_in_the_stream(void)
{
    exonet_node *alice = open_node(NULL), *bob = open_short();
    exonet_stream *ask, *reply;
    exonet_delivery *delivery, *other;
    exonet_receipt *asked, *none;

    check(exonet_stream_open(alice, exonet_node_address(bob), exonet_cstr("s"), &ask, &err), &err, "open");
    check(exonet_stream_send(ask, bytes_of("question"), NULL, &asked, &err), &err, "send");
    check(exonet_stream_accept(bob, MINUTE, &reply, &err), &err, "accept");
    check(exonet_stream_recv(reply, MINUTE, &delivery, &err), &err, "recv");
    HOLDS(exonet_stream_ack_and_send(reply, NULL, bytes_of("x"), NULL, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "delivery is NULL");
    HOLDS(exonet_stream_ack_and_send(reply, delivery, long_body(), NULL, &none, &err) == EXONET_NOT_SENT && none == NULL);
    said(EXONET_NOT_SENT, "2000 bytes");
    HOLDS(exonet_stream_recv(reply, 0, &other, &err) == EXONET_TIMEOUT && other == NULL);
    check(exonet_stream_ack_and_send(reply, delivery, bytes_of("answer"), NULL, NULL, &err), &err, "answer");
    exonet_delivery_free(delivery);
    check(exonet_stream_recv(ask, MINUTE, &delivery, &err), &err, "recv");
    takes(delivery, "answer");
    outcome_is(asked, EXONET_DELIVERED, 0);
    exonet_stream_free(ask);
    exonet_stream_free(reply);
    exonet_node_free(alice);
    exonet_node_free(bob);
}

static void a_session_is_answered_in_the_session(void)
{
    exonet_node *alice = open_node(NULL), *bob = open_node(NULL);
    exonet_session *client, *server;
    exonet_delivery *delivery, *plain;
    exonet_receipt *asked, *end;

    check(exonet_session_open(alice, exonet_node_address(bob), exonet_cstr("s"), NULL, &client, &err), &err, "open");
    check(exonet_session_send(client, bytes_of("question"), NULL, &asked, &err), &err, "send");
    check(exonet_session_accept(bob, MINUTE, NULL, &server, &err), &err, "accept");
    check(exonet_session_recv(server, MINUTE, &delivery, &err), &err, "recv");
    HOLDS(exonet_delivery_answer(delivery, bob, bytes_of("x"), NULL, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "exonet_session_answer");
    exonet_receipt_free(send_text(alice, bob, "plain"));
    plain = receive(bob);
    HOLDS(exonet_session_answer(server, plain, bytes_of("x"), NULL, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "exonet_delivery_answer");
    takes(plain, "plain");
    check(exonet_session_answer(server, delivery, bytes_of("answer"), NULL, NULL, &err), &err, "answer");
    exonet_delivery_free(delivery);
    check(exonet_session_recv(client, MINUTE, &delivery, &err), &err, "recv");
    takes(delivery, "answer");
    outcome_is(asked, EXONET_DELIVERED, 0);

    check(exonet_session_send(client, bytes_of("one more"), NULL, &asked, &err), &err, "send");
    check(exonet_session_finish(server, &end, &err), &err, "finish");
    check(exonet_session_recv(server, MINUTE, &delivery, &err), &err, "recv");
    HOLDS(exonet_session_answer(server, delivery, bytes_of("late"), NULL, NULL, &err) == EXONET_NOT_SENT);
    said(EXONET_NOT_SENT, "closed at this end");
    check(exonet_delivery_ack(delivery, 0, &err), &err, "ack");
    exonet_delivery_free(delivery);
    outcome_is(asked, EXONET_DELIVERED, 0);
    exonet_receipt_free(end);
    check(exonet_session_abort(server, &err), &err, "abort");
    exonet_session_free(client);
    exonet_session_free(server);
    exonet_node_free(alice);
    exonet_node_free(bob);
}

void answers(void)
{
    messages_are_answered_and_sent_on();
    what_is_not_answered_is_dealt_with_otherwise();
    a_stream_is_answered_in_the_stream();
    a_session_is_answered_in_the_session();
}
