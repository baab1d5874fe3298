/* The names of the op suite: those of primitives, as in ops.def, and of composites, as in suite_composites.c. */
#ifndef TUFF_TOOLS_VERIFY_NAMES_H
#define TUFF_TOOLS_VERIFY_NAMES_H

#include <stdbool.h>

/* The names that a request selects: the name itself, such as softmax, or if there is none, all that begin with it, such
   as rope (rope_half, rope_interleaved). NULL selects all. */
typedef struct suite_selection {
    const char *asked;
    bool is_prefix;
} suite_selection;

/* Returns false if no name matches. */
bool suite_select(const char *asked, suite_selection *out);
bool suite_is_selected(const suite_selection *self, const char *name);

enum { SUITE_NEAR = 5 };
/* Finds the names most similar to a wrong one, nearest first. Returns their number. */
int suite_near_names(const char *wrong, const char *near[SUITE_NEAR]);

#endif
