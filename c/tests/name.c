/* Names of services, at a service that is a file or a name server: see api.c. */
#include "api.h"

static exonet_node *open_named(const char *service, const char *state_dir)
{
    return open_node_at("127.0.0.1:0", state_dir, service);
}

static void send_by_name(exonet_node *from, const char *peer, exonet_node *to)
{
    exonet_receipt *receipt;
    check(exonet_send(from, exonet_cstr(peer), bytes_of("hello"), NULL, &receipt, &err), &err, "send");
    takes(receive(to), "hello");
    HOLDS(outcome_of(receipt).kind == EXONET_DELIVERED);
    exonet_receipt_free(receipt);
}

static void wrong_names_are_told(void)
{
    exonet_node *alice = open_node(NULL), *none;
    exonet_node_options options;
    exonet_name *bound;

    DEFAULTS(options);
    options.names = exonet_cstr("nowhere");
    HOLDS(exonet_node_open(&options, &none, &err) == EXONET_USAGE && none == NULL);
    said(EXONET_USAGE, "file:PATH");
    HOLDS(exonet_send(alice, exonet_cstr("name:chat"), bytes_of("x"), NULL, NULL, &err) == EXONET_NAMING);
    said(EXONET_NAMING, "make the node with one, by the option `names`");
    HOLDS(exonet_send(alice, exonet_cstr("name:7"), bytes_of("x"), NULL, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "is no name");
    HOLDS(exonet_name_bind(alice, exonet_cstr("chat"), exonet_cstr(""), &bound, &err) == EXONET_NAMING && bound == NULL);
    said(EXONET_NAMING, "by the option `names`");
    exonet_name_free(NULL);
    exonet_node_free(alice);
}

void names(const char *service, const char *state_dir)
{
    exonet_node *alice = open_named(service, NULL), *bob = open_named(service, state_dir), *carol;
    exonet_name *first, *second, *none;
    exonet_session *session;
    exonet_group *group;
    exonet_str chat = exonet_cstr("name:chat");
    char fixed[200];

    wrong_names_are_told();
    HOLDS(exonet_send(alice, chat, bytes_of("x"), NULL, NULL, &err) == EXONET_NAMING);
    said(EXONET_NAMING, "nothing is called");
    HOLDS(exonet_name_bind(bob, exonet_cstr("a b"), exonet_cstr(""), &none, &err) == EXONET_USAGE && none == NULL);
    said(EXONET_USAGE, "is no name");
    HOLDS(exonet_name_bind(bob, exonet_cstr("chat"), exonet_cstr("here"), &none, &err) == EXONET_NAMING);
    said(EXONET_NAMING, "an address is wrong");
    check(exonet_name_bind(bob, exonet_cstr("chat"), exonet_cstr(""), &first, &err), &err, "bind");
    send_by_name(alice, "name:chat", bob);
    send_by_name(alice, "name:chat", bob);
    snprintf(fixed, sizeof fixed, "%s@name:chat", exonet_node_id(bob).data);
    send_by_name(alice, fixed, bob);

    /* Wherever a peer is given. */
    check(exonet_session_open(alice, chat, exonet_cstr("x"), NULL, &session, &err), &err, "session");
    HOLDS(strcmp(exonet_session_peer(session).data, exonet_node_id(bob).data) == 0);
    exonet_session_free(session);
    check(exonet_group_open(alice, &chat, 1, NULL, &group, &err), &err, "group");
    check(exonet_group_remove(group, exonet_node_id(bob), true, &err), &err, "remove");
    exonet_group_free(group);

    /* A name stands for one node, until that one gives it up. */
    carol = open_named(service, NULL);
    HOLDS(exonet_name_bind(carol, exonet_cstr("chat"), exonet_cstr(""), &none, &err) == EXONET_NAMING && none == NULL);
    said(EXONET_NAMING, "give it up first");
    exonet_node_free(carol);
    /* The service is started elsewhere: it is found again. */
    exonet_name_free(first);
    check(exonet_node_close(bob, MINUTE, NULL, &err), &err, "close");
    exonet_node_free(bob);
    bob = open_named(service, state_dir);
    check(exonet_name_bind(bob, exonet_cstr("chat"), exonet_cstr(strchr(exonet_node_address(bob).data, '@') + 1), &first, &err),
          &err, "bind");
    send_by_name(alice, "name:chat", bob);

    check(exonet_name_bind(bob, exonet_cstr("chat"), exonet_cstr("192.0.2.7:4455, 192.0.2.8:4455"), &second, &err), &err,
          "bind");
    HOLDS(exonet_name_unbind(first, &err) == EXONET_NAMING);
    said(EXONET_NAMING, "changed meanwhile");
    HOLDS(exonet_name_unbind(first, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "bind the name again");
    check(exonet_name_unbind(second, &err), &err, "unbind");
    HOLDS(exonet_name_unbind(second, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "bind the name again");
    exonet_node_free(alice);
    alice = open_named(service, NULL);
    HOLDS(exonet_send(alice, chat, bytes_of("x"), NULL, NULL, &err) == EXONET_NAMING);
    said(EXONET_NAMING, "nothing is called");
    exonet_name_free(first);
    exonet_name_free(second);
    exonet_node_free(alice);
    exonet_node_free(bob);
}
