/* Locks, one-time calls, clocks. */
#ifndef TUFF_BASE_THREAD_H
#define TUFF_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

typedef pthread_mutex_t mutex;
#define MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
int tuff__mutex_create(mutex *lock); /* 0 on success */
void tuff__mutex_destroy(mutex *lock);
/* One that waits by monotonic time; 0 on success. */
int tuff__condition_create(pthread_cond_t *condition);
void tuff__lock(mutex *lock);
void tuff__unlock(mutex *lock);
void tuff__once(pthread_once_t *once, void (*call)(void));
/* Monotonic time. */
uint64_t tuff__nanoseconds(void);
/* The time so many nanoseconds from now, for conditions made here. */
struct timespec tuff__time_after(uint64_t nanoseconds);
/* May return early; 0 lets other threads go first. */
void tuff__sleep(uint64_t nanoseconds);
/* Tells every thread in tuff__event_wait to look again; from any thread, at any time. */
void tuff__event_signal(void);
/* How often that was called. */
uint64_t tuff__event_count(void);
/* Returns once tuff__event_count() is no longer seen, or after that time; may return early. */
void tuff__event_wait(uint64_t seen, uint64_t nanoseconds);

#endif
