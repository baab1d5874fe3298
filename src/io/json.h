/* JSON through jansson, with the library's allocator and with limits for untrusted texts. */
#ifndef TUFF_IO_JSON_H
#define TUFF_IO_JSON_H

#include <jansson.h>

#include "base/text.h"

/* Call before building values: if jansson then returns NULL, tuff__json_failure gives the reason. */
void tuff__json_begin(void);
/* Fails with TUFF_E_OOM_HOST if memory ran out since tuff__json_begin, else with TUFF_E_USAGE and reason. */
tuff_status tuff__json_failure(const char *reason);

/* Fails with TUFF_E_USAGE and reason if the text is not valid UTF-8. */
tuff_status tuff__json_check_string(const char *source, const char *reason);

/* Parses one JSON object from an untrusted text: valid UTF-8, no duplicate keys in an object, no NUL in strings, only
   plain unsigned integers as numbers, nested at most 8 deep, and allocating at most 32 times the text's size plus 1
   MiB. TUFF_E_FORMAT, or TUFF_E_OOM_HOST. The caller releases *out with json_decref. */
tuff_status tuff__json_parse(const char *source, size_t size, json_t **out);

/* Appends value as JSON without blanks. */
tuff_status tuff__json_print(const json_t *value, text *out);

#endif
