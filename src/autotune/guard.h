/* Process-wide state of tuning. The watchdog of a worker (tools/tune/worker.c) reads when the current step began. */
#ifndef TUFF_AUTOTUNE_GUARD_H
#define TUFF_AUTOTUNE_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Set once a candidate hung or took the device down. Nothing more is measured in this process then. */
extern atomic_bool tuff__tune_is_off;
/* When the current step began (tuff__nanoseconds); a driver may never return from a step. 0 if no step is in
   progress. */
extern _Atomic uint64_t tuff__tune_step_begin;

#endif
