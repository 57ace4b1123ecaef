/* What the files of the test program share. */
#ifndef TESTS_API_H
#define TESTS_API_H

#include "../examples/common.h"
#include <poll.h>
#include <unistd.h>

#define MINUTE 60000

#define HOLDS(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "FAILED: %s:%d: %s\n", __FILE__, __LINE__, #what);                                         \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* The error of the last function that was called with its address. */
extern exonet_error *err;

/* The last error is freed, and was of this code, with this in its message. */
static inline void said(exonet_code code, const char *part)
{
    HOLDS(exonet_error_code(err) == code);
    if (strstr(exonet_error_message(err).data, part) == NULL) {
        fprintf(stderr, "FAILED: \"%s\" is not in \"%s\"\n", part, exonet_error_message(err).data);
        exit(1);
    }
    HOLDS(strlen(exonet_error_message(err).data) == exonet_error_message(err).len);
    exonet_error_free(err);
    err = NULL;
}

static inline int same(exonet_bytes bytes, const char *text)
{
    return bytes.len == strlen(text) && memcmp(bytes.data, text, bytes.len) == 0;
}

static inline exonet_node *open_node_at(const char *bind, const char *state_dir, const char *service)
{
    exonet_node_options options;
    exonet_node *node;
    DEFAULTS(options);
    options.bind = exonet_cstr(bind);
    options.allow = exonet_cstr("anyone");
    options.state_dir = exonet_cstr(state_dir);
    options.names = exonet_cstr(service);
    check(exonet_node_open(&options, &node, &err), &err, "open");
    return node;
}

static inline exonet_node *open_node(const char *state_dir)
{
    return open_node_at("127.0.0.1:0", state_dir, NULL);
}

static inline exonet_receipt *send_text(exonet_node *from, exonet_node *to, const char *text)
{
    exonet_receipt *receipt;
    check(exonet_send(from, exonet_node_address(to), bytes_of(text), NULL, &receipt, &err), &err, "send");
    return receipt;
}

static inline exonet_delivery *receive(exonet_node *node)
{
    exonet_delivery *delivery;
    check(exonet_recv(node, MINUTE, &delivery, &err), &err, "recv");
    return delivery;
}

static inline exonet_outcome outcome_of(exonet_receipt *receipt)
{
    exonet_outcome outcome;
    check(exonet_receipt_wait(receipt, MINUTE, &outcome, &err), &err, "wait");
    return outcome;
}

static inline int readable(int fd, int timeout_ms)
{
    struct pollfd polled = {fd, POLLIN, 0};
    HOLDS(poll(&polled, 1, timeout_ms) >= 0);
    return (polled.revents & POLLIN) != 0;
}

/* Acknowledges a delivery whose body is this, and frees it. */
static inline void takes(exonet_delivery *delivery, const char *body)
{
    HOLDS(same(exonet_delivery_body(delivery), body));
    check(exonet_delivery_ack(delivery, 0, &err), &err, "ack");
    exonet_delivery_free(delivery);
}

void answers(void);
void sessions(const char *state_dir);
void groups(void);
void names(const char *service, const char *state_dir);

#endif
