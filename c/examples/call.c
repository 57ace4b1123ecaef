/* Serves a method by a callback, and calls one.
 *
 *     call serve BIND COUNT
 *     call ID@HOST:PORT METHOD BODY
 */
#include "common.h"
#include <unistd.h>

/* What the callback shares with the rest of the program: a byte in the pipe for each call that was answered. */
struct server {
    exonet_error *error;
    int done[2];
};

static void answer(void *context, const exonet_event *event)
{
    struct server *server = (struct server *)context;
    exonet_bytes body;
    char reply[256];

    if (event->kind != EXONET_EVENT_REQUEST) {
        return;
    }
    body = exonet_request_body(event->request);
    if (body.len == 0) {
        exonet_request_fail(event->request, 7, bytes_of("there is nothing to shout"), NULL);
    } else {
        size_t len = body.len < sizeof reply - 1 ? body.len : sizeof reply - 1;
        for (size_t i = 0; i < len; i++) {
            reply[i] = (char)(body.data[i] >= 'a' && body.data[i] <= 'z' ? body.data[i] - 32 : body.data[i]);
        }
        reply[len] = 0;
        exonet_request_reply(event->request, bytes_of(reply), NULL);
    }
    exonet_request_free(event->request);
    if (write(server->done[1], "x", 1) != 1) {
        perror("pipe");
    }
}

static int serve(const char *bind, long count)
{
    exonet_node_options options;
    exonet_serve_options how;
    struct server server;
    exonet_service *service;
    exonet_node *node;
    char byte;

    memset(&server, 0, sizeof server);
    if (pipe(server.done) != 0) {
        perror("pipe");
        return 1;
    }
    DEFAULTS(options);
    options.bind = exonet_cstr(bind);
    options.allow = exonet_cstr("anyone");
    check(exonet_node_open(&options, &node, &server.error), &server.error, "cannot open a node");
    check(exonet_node_set_callback(node, answer, &server, &server.error), &server.error, "no callback");

    DEFAULTS(how);
    how.notify = true;
    check(exonet_serve(node, exonet_cstr("shout"), &how, &service, &server.error), &server.error, "cannot serve");
    printf("%s\n", exonet_node_address(node).data);
    fflush(stdout);
    while (count > 0 && read(server.done[0], &byte, 1) == 1) {
        count--;
    }

    exonet_service_stop(service, 5000, NULL, NULL);
    exonet_service_free(service);
    /* The last answers are on their way: this waits until their callers have them. */
    check(exonet_node_close(node, 5000, NULL, &server.error), &server.error, "cannot close");
    exonet_node_free(node);
    close(server.done[0]);
    close(server.done[1]);
    return 0;
}

static int call(const char *peer, const char *method, const char *body)
{
    exonet_error *error = NULL;
    exonet_call_options how;
    exonet_bytes reply;
    exonet_node *node;
    exonet_call *made;
    exonet_code code;

    check(exonet_node_open(NULL, &node, &error), &error, "cannot open a node");
    DEFAULTS(how);
    how.deadline_ms = 30000;
    check(exonet_call_start(node, exonet_cstr(peer), exonet_cstr(method), bytes_of(body), &how, &made, &error), &error,
          "cannot call");
    code = exonet_call_wait(made, 60000, &error);
    if (code == EXONET_OK) {
        reply = exonet_call_reply(made);
        printf("%.*s\n", (int)reply.len, (const char *)reply.data);
    } else {
        exonet_bytes said = exonet_error_body(error);
        printf("failed with %u: %.*s\n", (unsigned)exonet_error_status(error), (int)said.len, (const char *)said.data);
        fprintf(stderr, "error: %s\n", exonet_error_message(error).data);
    }
    exonet_error_free(error);
    exonet_call_free(made);
    check(exonet_node_close(node, 5000, NULL, &error), &error, "cannot close");
    exonet_node_free(node);
    return code == EXONET_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "serve") == 0) {
        return serve(argv[2], strtol(argv[3], NULL, 10));
    }
    if (argc == 4) {
        return call(argv[1], argv[2], argv[3]);
    }
    fprintf(stderr, "usage: call serve BIND COUNT\n       call ID@HOST:PORT METHOD BODY\n");
    return 2;
}
