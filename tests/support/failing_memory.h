/* An allocator for tests that makes the n-th request fail and counts the blocks that are not freed. */
#ifndef TESTS_FAILING_MEMORY_H
#define TESTS_FAILING_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Installs the allocator and resets the counts. Request number failing (from 1; 0: none) fails, and if sticky, every
   later one too. */
void failing_memory_begin(int64_t failing, bool sticky);
/* Counts requests from 1 again, with another failing one; live blocks stay counted. */
void failing_memory_rearm(int64_t failing, bool sticky);
bool failing_memory_hit(void); /* whether a request has failed since then */
/* Restores malloc. Returns whether a request was made to fail. All blocks must have been freed. */
bool failing_memory_end(void);

/* Repeats a script once for each of its allocations, with that allocation failing: first it alone, then it and all
   later ones. The script returns whether it succeeded and must free all memory. After each failure the last status must
   be TUFF_E_OOM_HOST, and inspect, if not NULL, checks the state. Returns the number of allocations. */
int64_t fail_each_request(bool (*script)(void), void (*inspect)(void));

int64_t failing_memory_requests(void); /* since begin or rearm */
uint64_t failing_memory_bytes(void);   /* requested since begin */
int64_t failing_memory_live(void);     /* blocks not freed */

#endif
