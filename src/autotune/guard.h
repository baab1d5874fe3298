/* Process-wide state of tuning, read by the watchdog of a worker (tools/tune/worker.c). */
#ifndef TUFF_AUTOTUNE_GUARD_H
#define TUFF_AUTOTUNE_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Set once a candidate hung or took the device down: nothing more is measured in this process. */
extern atomic_bool tuff__tune_is_off;
/* When the present step began (tuff__nanoseconds), from which a driver may never return; 0: there is none. */
extern _Atomic uint64_t tuff__tune_step_begin;

#endif
