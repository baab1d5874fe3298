/* The compile pool: a few threads compile the candidates that a search will try next, while the measuring thread is
   busy with others. On GPUs only: a CPU's driver compiles on the cores that run the kernels, which would disturb both.

   These threads assemble and compile what the measuring thread lowered, and nothing else: no buffer or recording is
   theirs. A job owns its candidate's launches until the candidate's turn comes. What the threads made lies in the
   bench's list of programs, held until its candidate's compile step, which finds it there. They never wait for the
   measuring thread. A compiler that hangs is noticed by the measuring thread when it waits for the candidate. */
#ifndef TUFF_AUTOTUNE_COMPILE_POOL_H
#define TUFF_AUTOTUNE_COMPILE_POOL_H

#include "autotune/session.h"

typedef struct compile_pool compile_pool;
typedef struct compile_job compile_job;

/* The number of threads, whatever the device; negative (the default): chosen by the device. Tests set it. */
extern int tuff__compile_pool_threads;

/* Starts the threads of a tuner that has its bench and journal: the processors but one, 4 at most. None in the
   background, without a bench, on a CPU, where the driver cannot, or where there is no memory for it:
   session->compile_pool is then NULL. */
void tuff__compile_pool_open(tuning_session *session);
/* Ends the threads, after waiting for running compilers. If one takes too long, the device is lost and the candidate
   rejected. */
void tuff__compile_pool_close(tuning_session *session);
/* How many threads; NULL has none. */
int tuff__compile_pool_count(const compile_pool *self);

/* Announces a candidate that will be compiled in its slot. */
void tuff__compile_pool_expect(tuning_task *task, const search_candidate *candidate);
/* At its compile step: waits until it is compiled, if that was begun; task->compile_limit is for each program. An error
   is the candidate's, as its compiler gave it; TUFF_OK where it is compiled, or is yet to be. *nanoseconds: that this
   took its thread, or 0. *lowered: the candidate's launches, for the caller to free; NULL where it was not expected.
   keep, where not NULL, is called over and over while it waits. */
tuff_status tuff__compile_pool_await(tuning_task *task, int slot, void (*keep)(tuning_task *task),
                                     uint64_t *nanoseconds, struct lowered_candidate **lowered);
/* Drops what was announced for a slot, or compiled for it, if anything. Never waits for a compiler. */
void tuff__compile_pool_drop(tuning_task *task, int slot);

#endif
