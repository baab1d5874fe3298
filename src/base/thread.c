/* Locks, one-time calls and the clock, from POSIX. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "base/thread.h"

#include <sched.h>
#include <stddef.h>
#include <time.h>

int tuff__mutex_create(mutex *lock)
{
    return pthread_mutex_init(lock, NULL);
}

void tuff__mutex_destroy(mutex *lock)
{
    (void)pthread_mutex_destroy(lock);
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

uint64_t tuff__nanoseconds(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void tuff__sleep(uint64_t nanoseconds)
{
    if (nanoseconds == 0) {
        (void)sched_yield();
        return;
    }
    const struct timespec pause = {(time_t)(nanoseconds / 1000000000u), (long)(nanoseconds % 1000000000u)};
    (void)nanosleep(&pause, NULL);
}
