/* Who watches over a process that tunes. */
#ifndef TUFF_AUTOTUNE_GUARD_H
#define TUFF_AUTOTUNE_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Nothing more is measured in this process: a candidate hung, or took the device down. */
extern atomic_bool tuff__tune_is_off;
/* When the step at hand began, which a driver may not come back from; 0: none is. Of tuff__nanoseconds. */
extern _Atomic uint64_t tuff__tune_step_begin;

#endif
