/* The counters are atomic because threads of some tests allocate and free memory. Which request fails is deterministic
   only if one thread at a time allocates. */
#include "failing_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/status.h"

static _Atomic int64_t failing, requests, live;
static _Atomic uint64_t bytes;
static _Atomic bool sticky, hit;

static bool fails(size_t size)
{
    const int64_t request = ++requests;
    bytes += size;
    const bool now = failing && (request == failing || (sticky && request > failing));
    if (now)
        hit = true;
    return now;
}

static void *allocate(void *user, size_t size)
{
    (void)user;
    void *block = fails(size) ? NULL : malloc(size);
    live += block != NULL;
    return block;
}

static void *reallocate(void *user, void *block, size_t size)
{
    (void)user;
    return fails(size) ? NULL : realloc(block, size);
}

static void release(void *user, void *block)
{
    (void)user;
    live -= block != NULL;
    free(block);
}

void failing_memory_begin(int64_t failing_request, bool stays)
{
    static const tuff_allocator allocator = {allocate, reallocate, release, NULL};
    failing = failing_request;
    sticky = stays;
    hit = false;
    requests = live = 0;
    bytes = 0;
    tuff_set_allocator(&allocator);
}

void failing_memory_rearm(int64_t failing_request, bool stays)
{
    failing = failing_request;
    sticky = stays;
    hit = false;
    requests = 0;
}

bool failing_memory_hit(void)
{
    return hit;
}

bool failing_memory_end(void)
{
    tuff_set_allocator(NULL);
    return hit;
}

static int64_t fail_requests(bool (*script)(void), void (*inspect)(void), bool stays)
{
    for (int64_t request = 1;; request++) {
        failing_memory_begin(request, stays);
        const bool done = script();
        assert_int_equal(live, 0);
        assert_int_equal(done, !failing_memory_end());
        if (done)
            return request - 1;
        assert_int_equal(tuff_last_status(), TUFF_E_OOM_HOST);
        if (inspect)
            inspect();
    }
}

int64_t fail_each_request(bool (*script)(void), void (*inspect)(void))
{
    (void)fail_requests(script, inspect, false);
    return fail_requests(script, inspect, true);
}

int64_t failing_memory_requests(void)
{
    return requests;
}

uint64_t failing_memory_bytes(void)
{
    return bytes;
}

int64_t failing_memory_live(void)
{
    return live;
}
