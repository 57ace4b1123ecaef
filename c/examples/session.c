/* Serves sessions, and opens one: a conversation that both ends begin and end.
 *
 *     session serve BIND COUNT
 *     session ID@HOST:PORT TEXT...
 */
#include "common.h"

/* Answers each message in capitals, until the client closes the session. */
static void shout(exonet_session *session)
{
    exonet_error *error = NULL;
    exonet_delivery *delivery;
    exonet_code code;

    while ((code = exonet_session_recv(session, -1, &delivery, &error)) == EXONET_OK) {
        exonet_bytes body = exonet_delivery_body(delivery);
        char reply[256];
        size_t len = body.len < sizeof reply - 1 ? body.len : sizeof reply - 1;
        for (size_t i = 0; i < len; i++) {
            reply[i] = (char)(body.data[i] >= 'a' && body.data[i] <= 'z' ? body.data[i] - 32 : body.data[i]);
        }
        reply[len] = 0;
        check(exonet_session_send(session, bytes_of(reply), NULL, NULL, &error), &error, "cannot answer");
        /* From here on the client's message is delivered. If this process ended before, it would come again. */
        check(exonet_delivery_ack(delivery, 0, &error), &error, "cannot acknowledge");
        exonet_delivery_free(delivery);
    }
    if (code != EXONET_SESSION_FINISHED) {
        fprintf(stderr, "error: %s\n", exonet_error_message(error).data);
    }
    exonet_error_free(error);
    /* What was sent gets five seconds to arrive. */
    check(exonet_session_close(session, 5000, &error), &error, "cannot close the session");
    exonet_session_free(session);
}

static int serve(const char *bind, long count)
{
    exonet_error *error = NULL;
    exonet_node_options options;
    exonet_session *session;
    exonet_node *node;

    DEFAULTS(options);
    options.bind = exonet_cstr(bind);
    options.allow = exonet_cstr("anyone");
    check(exonet_node_open(&options, &node, &error), &error, "cannot open a node");
    printf("%s\n", exonet_node_address(node).data);
    fflush(stdout);
    for (; count > 0; count--) {
        check(exonet_session_accept(node, -1, NULL, &session, &error), &error, "no session");
        shout(session);
    }
    check(exonet_node_close(node, 5000, NULL, &error), &error, "cannot close");
    exonet_node_free(node);
    return 0;
}

static int talk(const char *peer, char **texts, int count)
{
    exonet_error *error = NULL;
    exonet_session *session;
    exonet_delivery *delivery;
    exonet_node *node;

    check(exonet_node_open(NULL, &node, &error), &error, "cannot open a node");
    check(exonet_session_open(node, exonet_cstr(peer), exonet_cstr("shout"), NULL, &session, &error), &error,
          "cannot open a session");
    for (int i = 0; i < count; i++) {
        check(exonet_session_send(session, bytes_of(texts[i]), NULL, NULL, &error), &error, "cannot send");
        check(exonet_session_recv(session, 60000, &delivery, &error), &error, "no answer");
        exonet_bytes body = exonet_delivery_body(delivery);
        printf("%.*s\n", (int)body.len, (const char *)body.data);
        check(exonet_delivery_ack(delivery, 0, &error), &error, "cannot acknowledge");
        exonet_delivery_free(delivery);
    }
    check(exonet_session_close(session, 5000, &error), &error, "cannot close the session");
    exonet_session_free(session);
    check(exonet_node_close(node, 5000, NULL, &error), &error, "cannot close");
    exonet_node_free(node);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "serve") == 0) {
        return serve(argv[2], strtol(argv[3], NULL, 10));
    }
    if (argc >= 3) {
        return talk(argv[1], argv + 2, argc - 2);
    }
    fprintf(stderr, "usage: session serve BIND COUNT\n       session ID@HOST:PORT TEXT...\n");
    return 2;
}
