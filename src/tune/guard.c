/* What a watched process says of itself. */
#include "tune/guard.h"

bool tuff__tune_is_supervised;
_Atomic uint64_t tuff__tune_step_begin;
