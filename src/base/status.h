/* Creating and propagating errors. FAIL records the thread's status and message (tuff_last_status, tuff_error) and
   returns the status; TRY returns a failure to the caller. */
#ifndef TUFF_BASE_STATUS_H
#define TUFF_BASE_STATUS_H

#include "tuff/base.h"

#define TUFF_ERROR_SIZE 1024

#if defined(__GNUC__)
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#else
#define PRINTF_LIKE(text, first)
#endif

/* Sets tuff_error() of this thread, truncated to TUFF_ERROR_SIZE - 1 bytes, and returns status. */
tuff_status tuff__fail(tuff_status status, const char *format, ...) PRINTF_LIKE(2, 3);
tuff_status tuff__fail_list(tuff_status status, const char *format, va_list list);

/* Returns the status of a call that returned NULL: the thread's last status, or TUFF_E_OOM_HOST if none was set. */
tuff_status tuff__failure_status(void);

/* For operations that succeed although calls on the way failed: restoring keeps the thread's error as it was before. */
typedef struct saved_error {
    tuff_status status;
    char message[TUFF_ERROR_SIZE];
} saved_error;
void tuff__error_save(saved_error *out);
void tuff__error_restore(const saved_error *saved);

#define FAIL(...) tuff__fail(__VA_ARGS__)
#define TRY(call)                             \
    do {                                      \
        tuff_status status_of_call_ = (call); \
        if (status_of_call_ != TUFF_OK)       \
            return status_of_call_;           \
    } while (0)

#endif
