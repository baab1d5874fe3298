/* Passes one line to the application's log callback; does nothing if there is none. */
#ifndef TUFF_BASE_LOG_H
#define TUFF_BASE_LOG_H

#include "base/status.h"

void tuff__log(tuff_log_level level, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
