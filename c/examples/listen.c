/* Takes messages in a loop of its own: what a program does that polls other descriptors as well.
 *
 *     listen BIND COUNT [STATE_DIR]
 */
#include "common.h"
#include <poll.h>

/* Takes what is there, and returns how many messages that were. */
static long take(exonet_node *node)
{
    exonet_error *error = NULL;
    exonet_event event;
    exonet_code code;
    long taken = 0;

    while ((code = exonet_node_next_event(node, 0, &event, &error)) == EXONET_OK) {
        if (event.kind == EXONET_EVENT_MESSAGE) {
            exonet_bytes body = exonet_delivery_body(event.delivery);
            printf("%s %.*s\n", exonet_delivery_from(event.delivery).data, (int)body.len, (const char *)body.data);
            fflush(stdout);
            /* From here on it is delivered. Whatever is to be done with it has been done. */
            check(exonet_delivery_ack(event.delivery, 0, &error), &error, "cannot acknowledge");
            exonet_delivery_free(event.delivery);
            taken++;
        }
    }
    if (code != EXONET_TIMEOUT) {
        check(code, &error, "no event");
    }
    return taken;
}

int main(int argc, char **argv)
{
    exonet_error *error = NULL;
    exonet_node_options options;
    exonet_node *node;
    struct pollfd polled;
    long left;

    if (argc < 3) {
        fprintf(stderr, "usage: listen BIND COUNT [STATE_DIR]\n");
        return 2;
    }
    left = strtol(argv[2], NULL, 10);
    DEFAULTS(options);
    options.bind = exonet_cstr(argv[1]);
    options.allow = exonet_cstr("anyone");
    options.state_dir = exonet_cstr(argc > 3 ? argv[3] : NULL);
    check(exonet_node_open(&options, &node, &error), &error, "cannot open a node");
    printf("%s\n", exonet_node_address(node).data);
    fflush(stdout);

    check(exonet_node_watch_messages(node, 16, &error), &error, "cannot watch");
    polled.events = POLLIN;
    check(exonet_node_fd(node, &polled.fd, &error), &error, "cannot poll");
    while (left > 0 && poll(&polled, 1, -1) >= 0) {
        left -= take(node);
    }

    check(exonet_node_close(node, 5000, NULL, &error), &error, "cannot close");
    exonet_node_free(node);
    return 0;
}
