/* The two flags of guard.h. */
#include "autotune/guard.h"

atomic_bool tuff__tune_is_off;
_Atomic uint64_t tuff__tune_step_begin;
