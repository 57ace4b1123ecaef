/* Sends messages, and says what became of each.
 *
 *     send ID@HOST:PORT TEXT...
 */
#include "common.h"

int main(int argc, char **argv)
{
    exonet_error *error = NULL;
    exonet_node_options options;
    exonet_node *node;
    int failed = 0;

    if (argc < 3) {
        fprintf(stderr, "usage: send ID@HOST:PORT TEXT...\n");
        return 2;
    }
    DEFAULTS(options);
    check(exonet_node_open(&options, &node, &error), &error, "cannot open a node");

    for (int i = 2; i < argc; i++) {
        exonet_receipt *receipt;
        exonet_outcome outcome;
        exonet_send_options how;

        DEFAULTS(how);
        how.tag = bytes_of("example");
        how.deadline_ms = 30000;
        check(exonet_send(node, exonet_cstr(argv[1]), bytes_of(argv[i]), &how, &receipt, &error), &error, "cannot send");
        /* Every message ends in exactly one outcome. */
        check(exonet_receipt_wait(receipt, 60000, &outcome, &error), &error, "no outcome");
        printf("%s %s\n", outcome_name(outcome.kind), exonet_receipt_id(receipt).data);
        failed += outcome.kind != EXONET_DELIVERED;
        exonet_receipt_free(receipt);
    }

    check(exonet_node_close(node, 5000, NULL, &error), &error, "cannot close");
    exonet_node_free(node);
    return failed ? 1 : 0;
}
