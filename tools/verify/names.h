/* The names of the op suite: those of primitives, as in ops.def, and of composites, as in suite_composites.c. */
#ifndef TUFF_TOOLS_VERIFY_NAMES_H
#define TUFF_TOOLS_VERIFY_NAMES_H

#include <stdbool.h>

/* The names that a request selects: the name itself, such as softmax, or if there is none, all that begin with it, such
   as rope (rope_half, rope_interleaved). NULL selects all. */
typedef struct suite_selection {
    const char *name;
    bool is_prefix;
} suite_selection;

/* Returns false if no name matches. */
bool suite_select(const char *name, suite_selection *out);
bool suite_is_selected(const suite_selection *self, const char *name);

enum { SUITE_SIMILAR = 5 };
/* Finds the names most similar to an unknown one, most similar first. Returns their number. */
int suite_similar_names(const char *given, const char *similar[SUITE_SIMILAR]);

#endif
