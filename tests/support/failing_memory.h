/* An allocator for tests that makes the n-th request fail and counts what is not given back. */
#ifndef TESTS_FAILING_MEMORY_H
#define TESTS_FAILING_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Installs the allocator. Request number failing (from 1; 0: none) fails, and with sticky every one after it too.
   Counts start at 0. */
void failing_memory_begin(int64_t failing, bool sticky);
/* Counts requests from 1 again, for another failing one; blocks stay counted. */
void failing_memory_rearm(int64_t failing, bool sticky);
bool failing_memory_hit(void); /* whether a request was made to fail since */
/* Back to malloc. Answers whether a request was made to fail. All blocks must have been given back. */
bool failing_memory_end(void);

/* Runs a script again for each request that it makes, with that one failing: alone, and with every one after it. The
   script returns whether all went well, and must give back all memory; after each failure the last status is
   TUFF_E_OOM_HOST, and look, where there is one, sees what is left. The number of requests. */
int64_t fail_each_request(bool (*script)(void), void (*look)(void));

int64_t failing_memory_requests(void); /* since begin */
uint64_t failing_memory_bytes(void);   /* asked for since begin */
int64_t failing_memory_live(void);     /* blocks not given back */

#endif
