/* Groups: see api.c. */
#include "api.h"

static exonet_group *open_group(exonet_node *node, exonet_node *one, exonet_node *two)
{
    exonet_str members[2] = {exonet_node_address(one), exonet_node_address(two)};
    exonet_group *group;
    check(exonet_group_open(node, members, 2, NULL, &group, &err), &err, "group");
    return group;
}

static exonet_verdict verdict_of(exonet_group_receipt *receipt)
{
    exonet_verdict verdict;
    check(exonet_group_receipt_wait(receipt, MINUTE, &verdict, &err), &err, "verdict");
    return verdict;
}

/* What is known of this node. */
static exonet_member member(exonet_group_receipt *receipt, exonet_node *node)
{
    exonet_member members[3];
    size_t count;
    check(exonet_group_receipt_members(receipt, members, 3, &count, &err), &err, "members");
    HOLDS(count <= 3);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(members[i].id.data, exonet_node_id(node).data) == 0) {
            return members[i];
        }
    }
    HOLDS(!"the node is a member");
    return members[0];
}

static void wrong_groups_are_refused(exonet_node *alice, exonet_node *bob)
{
    exonet_str twice[2] = {exonet_node_address(bob), exonet_node_address(bob)};
    exonet_group_options options;
    exonet_send_options how;
    exonet_group_receipt *receipt;
    exonet_group *group;

    HOLDS(exonet_group_open(alice, NULL, 2, NULL, &group, &err) == EXONET_USAGE && group == NULL);
    said(EXONET_USAGE, "members is NULL");
    HOLDS(exonet_group_open(alice, twice, 2, NULL, &group, &err) == EXONET_USAGE && group == NULL);
    said(EXONET_USAGE, "name each once");
    DEFAULTS(options);
    options.patience_ms = 20;
    options.waiting = 8;
    check(exonet_group_open(alice, NULL, 0, &options, &group, &err), &err, "group");
    HOLDS(exonet_group_size(group) == 0);
    HOLDS(exonet_group_send(group, EXONET_MODE_ANY, 0, 0, bytes_of("x"), NULL, &receipt, &err) == EXONET_USAGE);
    HOLDS(receipt == NULL);
    said(EXONET_USAGE, "no members");
    HOLDS(exonet_group_add(group, exonet_node_address(alice), &err) == EXONET_USAGE);
    said(EXONET_USAGE, "its own group");
    check(exonet_group_add(group, exonet_node_address(bob), &err), &err, "add");
    HOLDS(exonet_group_add(group, exonet_node_address(bob), &err) == EXONET_USAGE);
    said(EXONET_USAGE, "name each once");
    HOLDS(exonet_group_size(group) == 1);
    HOLDS(exonet_group_send(group, EXONET_MODE_QUORUM, 2, 1, bytes_of("x"), NULL, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "the group has 1");
    HOLDS(exonet_group_send(group, EXONET_MODE_ALL, 1, 0, bytes_of("x"), NULL, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "EXONET_MODE_QUORUM");
    HOLDS(exonet_group_send(group, 9, 0, 0, bytes_of("x"), NULL, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "9 is not a mode");
    DEFAULTS(how);
    how.no_wait = true;
    HOLDS(exonet_group_send(group, EXONET_MODE_ALL, 0, 0, bytes_of("x"), &how, NULL, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "no_wait");
    check(exonet_group_remove(group, exonet_node_id(bob), false, &err), &err, "remove");
    HOLDS(exonet_group_remove(group, exonet_node_id(bob), true, &err) == EXONET_USAGE);
    said(EXONET_USAGE, "not a member");
    exonet_group_free(group);
}

static void a_message_goes_to_all(exonet_node *alice, exonet_node *bob, exonet_node *carol)
{
    exonet_group *group = open_group(alice, bob, carol);
    exonet_group_receipt *receipt;
    exonet_delivery *delivery;
    exonet_verdict verdict;
    exonet_member known;
    exonet_event event;
    exonet_send_options how;
    size_t count;

    DEFAULTS(how);
    how.confirm = EXONET_CONFIRM_PROCESSED;
    how.tag = bytes_of("news");
    how.notify = true;
    how.token = 31;
    check(exonet_group_send(group, EXONET_MODE_ALL, 0, 0, bytes_of("all"), &how, &receipt, &err), &err, "send");
    delivery = receive(bob);
    HOLDS(same(exonet_delivery_tag(delivery), "news") && same(exonet_delivery_body(delivery), "all"));
    check(exonet_delivery_ack(delivery, 7, &err), &err, "ack");
    exonet_delivery_free(delivery);
    HOLDS(exonet_group_receipt_wait(receipt, 0, &verdict, &err) == EXONET_TIMEOUT && verdict.kind == EXONET_VERDICT_OPEN);
    HOLDS(exonet_group_receipt_wait_end(receipt, 1, &err) == EXONET_TIMEOUT && err == NULL);
    HOLDS(exonet_node_next_event(alice, 0, &event, &err) == EXONET_TIMEOUT);
    takes(receive(carol), "all");
    verdict = verdict_of(receipt);
    HOLDS(verdict.kind == EXONET_VERDICT_REACHED && verdict.good == 2);
    check(exonet_node_next_event(alice, MINUTE, &event, &err), &err, "event");
    HOLDS(event.kind == EXONET_EVENT_GROUP_DECIDED && event.token == 31);
    check(exonet_node_next_event(alice, MINUTE, &event, &err), &err, "event");
    HOLDS(event.kind == EXONET_EVENT_GROUP_ENDED && event.token == 31);
    check(exonet_group_receipt_wait_end(receipt, MINUTE, &err), &err, "end");
    known = member(receipt, bob);
    HOLDS(known.state == EXONET_MEMBER_SETTLED && known.outcome.kind == EXONET_PROCESSED && known.outcome.status == 7);
    HOLDS(known.has_it && !known.has_it_not && known.reason.len == 0);
    HOLDS(exonet_group_receipt_members(receipt, NULL, 1, &count, &err) == EXONET_USAGE && count == 0);
    said(EXONET_USAGE, "members is NULL");
    check(exonet_group_receipt_members(receipt, NULL, 0, &count, &err), &err, "count");
    HOLDS(count == 2);
    exonet_group_receipt_free(receipt);

    /* One that rejects it makes it fail, and says why. */
    check(exonet_group_send(group, EXONET_MODE_ALL, 0, 0, bytes_of("no"), NULL, &receipt, &err), &err, "send");
    delivery = receive(bob);
    check(exonet_delivery_reject(delivery, 3, exonet_cstr("not mine"), &err), &err, "reject");
    exonet_delivery_free(delivery);
    verdict = verdict_of(receipt);
    HOLDS(verdict.kind == EXONET_VERDICT_TOO_FEW);
    known = member(receipt, bob);
    HOLDS(known.outcome.kind == EXONET_REJECTED && known.outcome.status == 3 && !known.has_it && known.has_it_not);
    HOLDS(strcmp(known.reason.data, "not mine") == 0 && strcmp(member(receipt, bob).reason.data, "not mine") == 0);
    takes(receive(carol), "no");
    exonet_group_receipt_free(receipt);
    exonet_group_free(group);
}

static void a_message_goes_to_some(exonet_node *alice, exonet_node *bob, exonet_node *carol)
{
    exonet_group *group = open_group(alice, bob, carol);
    exonet_group_receipt *receipt;
    exonet_delivery *delivery;
    exonet_send_options how;
    exonet_verdict verdict;
    exonet_member known;

    /* Any: the copy of the other is withdrawn, or was taken as well. */
    check(exonet_group_send(group, EXONET_MODE_ANY, 0, 0, bytes_of("any"), NULL, &receipt, &err), &err, "send");
    takes(receive(bob), "any");
    HOLDS(verdict_of(receipt).kind == EXONET_VERDICT_REACHED);
    check(exonet_group_receipt_wait_end(receipt, MINUTE, &err), &err, "end");
    HOLDS(member(receipt, bob).has_it);
    HOLDS(member(receipt, carol).outcome.kind == EXONET_CANCELLED && member(receipt, carol).has_it_not);
    exonet_group_receipt_free(receipt);

    /* One of the two gets it. The other takes its place if it does not take it. */
    check(exonet_group_send(group, EXONET_MODE_QUORUM, 1, 1, bytes_of("one"), NULL, &receipt, &err), &err, "send");
    while (exonet_recv(bob, 1, &delivery, &err) != EXONET_OK && exonet_recv(carol, 1, &delivery, &err) != EXONET_OK) {
    }
    takes(delivery, "one");
    verdict = verdict_of(receipt);
    HOLDS(verdict.kind == EXONET_VERDICT_REACHED && verdict.good == 1);
    HOLDS(member(receipt, bob).has_it != member(receipt, carol).has_it);
    known = member(receipt, member(receipt, bob).has_it ? carol : bob);
    HOLDS(known.state == EXONET_MEMBER_SPARE && known.has_it_not);
    exonet_group_receipt_free(receipt);

    check(exonet_group_send(group, EXONET_MODE_BALANCED, 2, 0, bytes_of("both"), NULL, &receipt, &err), &err, "send");
    takes(receive(bob), "both");
    takes(receive(carol), "both");
    HOLDS(verdict_of(receipt).good == 2);
    exonet_group_receipt_free(receipt);

    /* Nobody needs a receipt. */
    check(exonet_group_remove(group, exonet_node_address(carol), true, &err), &err, "remove");
    check(exonet_group_send(group, EXONET_MODE_ALL, 0, 0, bytes_of("bob"), NULL, NULL, &err), &err, "send");
    takes(receive(bob), "bob");

    /* The deadline comes, and the message is withdrawn; another one is cancelled, or given up. */
    DEFAULTS(how);
    how.deadline_ms = 50;
    check(exonet_group_send(group, EXONET_MODE_ALL, 0, 0, bytes_of("late"), &how, &receipt, &err), &err, "send");
    verdict = verdict_of(receipt);
    HOLDS(verdict.kind == EXONET_VERDICT_DEADLINE && verdict.good == 0);
    exonet_group_receipt_free(receipt);
    check(exonet_group_send(group, EXONET_MODE_ALL, 0, 0, bytes_of("no"), NULL, &receipt, &err), &err, "send");
    check(exonet_group_receipt_cancel(receipt, &err), &err, "cancel");
    HOLDS(verdict_of(receipt).kind == EXONET_VERDICT_TOO_FEW);
    exonet_group_receipt_free(receipt);
    check(exonet_group_send(group, EXONET_MODE_ALL, 0, 0, bytes_of("held"), NULL, &receipt, &err), &err, "send");
    delivery = receive(bob);
    check(exonet_group_receipt_abandon(receipt, &err), &err, "abandon");
    check(exonet_group_receipt_wait_end(receipt, MINUTE, &err), &err, "end");
    known = member(receipt, bob);
    HOLDS(known.outcome.kind == EXONET_UNKNOWN && !known.has_it && !known.has_it_not);
    exonet_delivery_free(delivery);
    exonet_group_free(group);
    exonet_group_receipt_free(receipt);
}

void groups(void)
{
    exonet_node *alice = open_node(NULL), *bob = open_node(NULL), *carol = open_node(NULL);

    exonet_group_free(NULL);
    exonet_group_receipt_free(NULL);
    HOLDS(exonet_group_size(NULL) == 0);
    wrong_groups_are_refused(alice, bob);
    a_message_goes_to_all(alice, bob, carol);
    a_message_goes_to_some(alice, bob, carol);
    exonet_node_free(alice);
    exonet_node_free(bob);
    exonet_node_free(carol);
}
