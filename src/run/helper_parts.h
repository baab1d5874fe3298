/* Between the two ways in which a program has a helper measure: helper.c, key by key in the background, and
   helper_whole.c, all of a graph at once while its compilation waits. */
#ifndef TUFF_RUN_HELPER_PARTS_H
#define TUFF_RUN_HELPER_PARTS_H

#include "run/background_parts.h"
#include "run/helper_process.h"
#include "run/wire.h"

struct helper {
    helper_process process;
    wire_message in;
    tuff_tune_stats before; /* what was done when it was started */
    uint64_t patience;      /* without a sign of life */
    bool has_cache;
};

/* The next message that is not served by the way; TUFF_E_FORMAT where it is of another kind. */
tuff_status tuff__helper_expect(background *self, wire_kind wanted, byte_reader *out);
/* The helper's stats, which are added to those of before it. */
void tuff__helper_hear_stats(background *self, byte_reader *from, tuff_tune_stats *out);
/* Of a helper that ended, or is to be, over `what`: blames the candidate, so that the next helper leaves it out. */
tuff_status tuff__helper_bury(background *self, const char *what, tuff_status why);
/* Another one; none, and gave_up set, where enough were started, or nothing may be measured any more. */
tuff_status tuff__helper_start_again(background *self);
/* The same for one whose device a candidate took down, which is struck already. */
tuff_status tuff__helper_replace(background *self);

#endif
