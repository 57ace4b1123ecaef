/* What the examples share: options that are all defaults, and the end of a program that has failed. */
#ifndef EXAMPLES_COMMON_H
#define EXAMPLES_COMMON_H

#include <exonet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All of it zero but the size: each field has its default. */
#define DEFAULTS(options) (memset(&(options), 0, sizeof(options)), (options).size = sizeof(options))

/* Says what is wrong, and ends the program. Takes the place of the error: C may read the error itself before the call that sets it. */
static inline void check(exonet_code code, exonet_error **error, const char *what)
{
    if (code == EXONET_OK) {
        return;
    }
    fprintf(stderr, "error: %s: %s\n", what, *error ? exonet_error_message(*error).data : "it took too long");
    exonet_error_free(*error);
    exit(1);
}

static inline exonet_bytes bytes_of(const char *text)
{
    exonet_bytes bytes = {(const uint8_t *)text, strlen(text)};
    return bytes;
}

static inline const char *outcome_name(exonet_outcome_kind kind)
{
    static const char *const names[] = {"open",    "delivered", "processed", "rejected", "expired",
                                        "cancelled", "refused",   "unknown",   "kept"};
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "?";
}

#endif
