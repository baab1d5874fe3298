/* The two process-wide variables of guard.h: whether tuning is off, and when the current step of it began. */
#include "autotune/guard.h"

atomic_bool tuff__tune_is_off;
_Atomic uint64_t tuff__tune_step_begin;
