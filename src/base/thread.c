/* Threads, mutexes, one-time calls and the clock, on top of POSIX. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "base/thread.h"

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

int tuff__mutex_create(mutex *lock)
{
    return pthread_mutex_init(lock, NULL);
}

/* Waits use the monotonic clock: with the default one, setting the time of day would end a wait early or never. */
int tuff__condition_create(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    int error = pthread_condattr_init(&attributes);
    if (error != 0)
        return error;
    error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (error == 0)
        error = pthread_cond_init(condition, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return error;
}

void tuff__mutex_destroy(mutex *lock)
{
    (void)pthread_mutex_destroy(lock);
}

int tuff__mutex_condition_create(mutex *lock, pthread_cond_t *changed)
{
    int error = tuff__mutex_create(lock);
    if (error != 0)
        return error;
    error = tuff__condition_create(changed);
    if (error != 0)
        tuff__mutex_destroy(lock);
    return error;
}

void tuff__mutex_condition_destroy(mutex *lock, pthread_cond_t *changed)
{
    (void)pthread_cond_destroy(changed);
    tuff__mutex_destroy(lock);
}

/* The thread blocks all signals, which it inherits from its creator, so that handlers of the application run only in
   threads that the application knows. */
int tuff__thread_start(pthread_t *out, size_t stack_size, void *(*run)(void *argument), void *argument)
{
    pthread_attr_t attributes;
    sigset_t every, before;
    int error = pthread_attr_init(&attributes);
    if (error != 0)
        return error;
    if (stack_size > 0)
        error = pthread_attr_setstacksize(&attributes, stack_size);
    (void)sigfillset(&every);
    (void)pthread_sigmask(SIG_SETMASK, &every, &before);
    if (error == 0)
        error = pthread_create(out, &attributes, run, argument);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return error;
}

void tuff__lock(mutex *lock)
{
    (void)pthread_mutex_lock(lock);
}

void tuff__unlock(mutex *lock)
{
    (void)pthread_mutex_unlock(lock);
}

void tuff__once(pthread_once_t *once, void (*call)(void))
{
    (void)pthread_once(once, call);
}

static struct timespec make_timespec(uint64_t nanoseconds)
{
    return (struct timespec){(time_t)(nanoseconds / 1000000000u), (long)(nanoseconds % 1000000000u)};
}

uint64_t tuff__nanoseconds(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

double tuff__seconds_since(uint64_t begin)
{
    return (double)(tuff__nanoseconds() - begin) * 1e-9;
}

struct timespec tuff__time_after(uint64_t nanoseconds)
{
    return make_timespec(tuff__nanoseconds() + nanoseconds);
}

/* A signal may end the pause early. Callers wait in loops, so that does not matter. */
void tuff__sleep(uint64_t nanoseconds)
{
    if (nanoseconds == 0) {
        (void)sched_yield();
        return;
    }
    const struct timespec pause = make_timespec(nanoseconds);
    (void)nanosleep(&pause, NULL);
}

/* Belongs to the process and is never freed, so that a late signal still finds it. */
static struct {
    pthread_once_t once;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_usable;
    uint64_t count;
} events = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

static void initialize_events(void)
{
    events.is_usable = tuff__condition_create(&events.changed) == 0;
}

void tuff__event_signal(void)
{
    tuff__once(&events.once, initialize_events);
    tuff__lock(&events.lock);
    events.count++;
    if (events.is_usable)
        (void)pthread_cond_broadcast(&events.changed);
    tuff__unlock(&events.lock);
}

uint64_t tuff__event_count(void)
{
    tuff__lock(&events.lock);
    const uint64_t count = events.count;
    tuff__unlock(&events.lock);
    return count;
}

/* A caller reads the count, checks what it waits for, and passes the count here: a signal in between has changed it and
   is not missed. */
void tuff__event_wait(uint64_t seen, uint64_t nanoseconds)
{
    tuff__once(&events.once, initialize_events);
    if (!events.is_usable) {
        tuff__sleep(nanoseconds / 32);
        return;
    }
    const struct timespec until = tuff__time_after(nanoseconds);
    tuff__lock(&events.lock);
    while (events.count == seen && pthread_cond_timedwait(&events.changed, &events.lock, &until) == 0)
        ;
    tuff__unlock(&events.lock);
}
