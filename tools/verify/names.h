/* The names of the op suite: those of primitives, as in ops.def, and of composites, as in suite_composites.c. */
#ifndef TUFF_TOOLS_VERIFY_NAMES_H
#define TUFF_TOOLS_VERIFY_NAMES_H

#include <stdbool.h>

/* Which names somebody means who asks for one: the name itself, as softmax; where there is none, all that begin with
   it, as rope (rope_half, rope_interleaved). NULL asks for all. */
typedef struct suite_selection {
    const char *asked;
    bool is_prefix;
} suite_selection;

/* False where no name is meant. */
bool suite_select(const char *asked, suite_selection *out);
bool suite_is_selected(const suite_selection *self, const char *name);

enum { SUITE_NEAR = 5 };
/* The names that somebody may have meant by a wrong one, the nearest first. Returns how many. */
int suite_near_names(const char *wrong, const char *near[SUITE_NEAR]);

#endif
