/* The compile pool: a few threads that compile the candidates which a search will try next, while the measuring thread
   is busy with others. Used on GPUs only: on a CPU the compiler and the kernels share the cores, so compiling would
   disturb the measurements.

   These threads assemble and compile what the measuring thread lowered, and do nothing else; they own no buffers or
   recordings. A job owns its candidate's launches until it is the candidate's turn. The programs that the threads build
   are kept in the measuring device's list of programs until the candidate's compile step, which finds them there. The
   threads never wait for the measuring thread. A compiler that hangs is noticed by the measuring thread when it waits
   for the candidate. */
#ifndef TUFF_AUTOTUNE_COMPILE_POOL_H
#define TUFF_AUTOTUNE_COMPILE_POOL_H

#include "autotune/session.h"

typedef struct compile_pool compile_pool;
typedef struct compile_job compile_job;

/* The number of threads, whatever the device; negative (the default): chosen by the device. Set by tests. */
extern int tuff__compile_pool_threads;

/* Starts the threads of a session that has its measuring device and journal: one fewer than there are processors, 4 at
   most. There are none in the background, without a measuring device, on a CPU, or if the driver cannot compile in
   parallel or memory is short: session->compile_pool is then NULL. */
void tuff__compile_pool_open(tuning_session *session);
/* Ends the threads, after waiting for running compilers. If a compiler takes too long, the device is lost and its
   candidate rejected. */
void tuff__compile_pool_close(tuning_session *session);
/* Returns the number of threads; 0 for NULL. */
int tuff__compile_pool_count(const compile_pool *self);

/* Announces a candidate that will be compiled in its slot. */
void tuff__compile_pool_expect(tuning_task *task, const search_candidate *candidate);
/* Called at the candidate's compile step: if its compilation has begun, waits until it is done; task->compile_limit
   applies to each program. Returns the error of the candidate's compiler, or TUFF_OK if it is compiled or has yet to
   be. *nanoseconds: the time that the compilation took its thread, or 0. *lowered: the candidate's launches, which the
   caller frees; NULL if the candidate was not expected. while_waiting, if not NULL, is called repeatedly meanwhile. */
tuff_status tuff__compile_pool_await(tuning_task *task, int slot, void (*while_waiting)(tuning_task *task),
                                     uint64_t *nanoseconds, struct lowered_candidate **lowered);
/* Drops what was announced or compiled for a slot, if anything. Never waits for a compiler. */
void tuff__compile_pool_drop(tuning_task *task, int slot);

#endif
