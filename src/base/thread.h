/* Threads, mutexes, conditions, one-time calls, clocks, process-wide events. */
#ifndef TUFF_BASE_THREAD_H
#define TUFF_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef pthread_mutex_t mutex;
#define MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
int tuff__mutex_create(mutex *lock); /* 0 on success */
void tuff__mutex_destroy(mutex *lock);
/* Creates a condition that waits by the monotonic clock; 0 on success. */
int tuff__condition_create(pthread_cond_t *condition);
/* Creates a mutex and a condition, or neither; 0 on success. */
int tuff__mutex_condition_create(mutex *lock, pthread_cond_t *changed);
void tuff__mutex_condition_destroy(mutex *lock, pthread_cond_t *changed);
/* Starts a thread that blocks all signals, which are for the program's own threads. stack_size 0: the default. Returns
   0 on success. */
int tuff__thread_start(pthread_t *out, size_t stack_size, void *(*run)(void *argument), void *argument);
void tuff__lock(mutex *lock);
void tuff__unlock(mutex *lock);
void tuff__once(pthread_once_t *once, void (*call)(void));
/* Monotonic time. */
uint64_t tuff__nanoseconds(void);
/* Returns the seconds since that monotonic time. */
double tuff__seconds_since(uint64_t begin);
/* Returns the monotonic time that many nanoseconds from now, for conditions created here. */
struct timespec tuff__time_after(uint64_t nanoseconds);
/* Sleeps; may return early. 0 yields to other threads. */
void tuff__sleep(uint64_t nanoseconds);
/* Wakes every thread in tuff__event_wait to check again; callable from any thread, at any time. */
void tuff__event_signal(void);
/* Returns how often tuff__event_signal was called. */
uint64_t tuff__event_count(void);
/* Waits until tuff__event_count() is no longer `seen`, or that time has passed; may return early. */
void tuff__event_wait(uint64_t seen, uint64_t nanoseconds);

#endif
