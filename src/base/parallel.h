/* Parallel loops over independent iterations, on all processors. */
#ifndef TUFF_BASE_PARALLEL_H
#define TUFF_BASE_PARALLEL_H

/* Calls body(user, i) once for every i below count, concurrently from several threads including this one; returns after
   the last call has. It is not determined which thread makes which call. Report errors through user, because
   tuff_error() is per thread. If no thread can be started, this thread makes all calls. */
void tuff__parallel(int count, void (*body)(void *user, int index), void *user);

#endif
