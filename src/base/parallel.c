/* Threads for one loop: each takes the next iteration until none is left. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "base/parallel.h"

#include <stdatomic.h>
#include <unistd.h>

#include "base/thread.h"

enum { MAX_HELPERS = 15 };

typedef struct loop {
    int count;
    void (*body)(void *user, int index);
    void *user;
    _Atomic int next;
} loop;

static void *run_iterations(void *state)
{
    loop *self = state;
    for (int i = atomic_fetch_add(&self->next, 1); i < self->count; i = atomic_fetch_add(&self->next, 1))
        self->body(self->user, i);
    return NULL;
}

/* Returns the number of helper threads: one less than there are processors, and less than there are iterations. */
static int count_helpers(int count)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int helpers = processors > MAX_HELPERS ? MAX_HELPERS : (int)processors - 1;
    helpers = helpers < count - 1 ? helpers : count - 1;
    return helpers > 0 ? helpers : 0;
}

void tuff__parallel(int count, void (*body)(void *user, int index), void *user)
{
    loop self = {.count = count, .body = body, .user = user};
    pthread_t threads[MAX_HELPERS];
    const int wanted = count_helpers(count);
    int started = 0;
    while (started < wanted && tuff__thread_start(&threads[started], 0, run_iterations, &self) == 0)
        started++;
    (void)run_iterations(&self);
    for (int i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
}
