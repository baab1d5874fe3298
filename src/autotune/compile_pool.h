/* Compiling ahead: a few threads make the programs of candidates that a search expects, while the one thread that
   measures is at work with others. Only on GPUs: a CPU's drivers compile where kernels run, so that both would suffer.

   These threads assemble and compile what the measuring thread lowered, and nothing else: no buffer or recording is
   theirs. A job owns its candidate's launches until the candidate's turn comes. What the threads made lies in the
   bench's list of programs, held until its candidate's compile step, which finds it there. They never wait
   for the measuring thread. A compiler that does not come back is that thread's to notice, when it comes to wait. */
#ifndef TUFF_AUTOTUNE_COMPILE_POOL_H
#define TUFF_AUTOTUNE_COMPILE_POOL_H

#include "autotune/session.h"

typedef struct compile_pool compile_pool;
typedef struct compile_job compile_job;

/* So many threads, whatever the device; negative: as many as are good for it. Tests put a number here. */
extern int tuff__compile_pool_threads;

/* Starts the threads of a tuner that has its bench and journal: the processors but one, 4 at most. None in the
   background, without a bench, on a CPU, where the driver cannot, or where there is no memory for it: session->compile_pool is then
   NULL. */
void tuff__compile_pool_open(tuning_session *session);
/* Ends them, once what is in the compiler is done, or took too long: then the device is stuck, and the candidate
   rejected. */
void tuff__compile_pool_close(tuning_session *session);
/* How many threads; NULL has none. */
int tuff__compile_pool_count(const compile_pool *self);

/* A candidate will come to be compiled in its slot. */
void tuff__compile_pool_expect(tuning_task *task, const search_candidate *candidate);
/* At its compile step: waits until it is compiled, if that was begun; task->compile_limit is for each program. An error
   is the candidate's, as its compiler gave it; TUFF_OK where it is compiled, or is yet to be. *nanoseconds: that this
   took its thread, or 0. *lowered: the candidate's launches, for the caller to free; NULL where it was not expected.
   keep, where not NULL, is called over and over while it waits. */
tuff_status tuff__compile_pool_await(tuning_task *task, int slot, void (*keep)(tuning_task *task),
                                     uint64_t *nanoseconds, struct lowered_candidate **lowered);
/* Gives up what was expected in a slot, or held for it; nothing is fine too. Never waits for a compiler. */
void tuff__compile_pool_drop(tuning_task *task, int slot);

#endif
