/* JSON through jansson, with the library's allocator and with limits for texts that come from outside. */
#ifndef TUFF_IO_JSON_H
#define TUFF_IO_JSON_H

#include <jansson.h>

#include "base/text.h"

/* Call before building values: from here on a NULL that jansson answers is explained by tuff__json_failure. */
void tuff__json_begin(void);
/* TUFF_E_OOM_HOST where memory ran out since tuff__json_begin, else TUFF_E_USAGE with reason. */
tuff_status tuff__json_failure(const char *reason);

/* Parses one JSON object from a text that is not trusted: valid UTF-8, no key twice in an object, no NUL in strings, no
   number but plain unsigned integers, nested at most 8 deep, and no more memory asked for than 32 times the text and
   1 MiB. TUFF_E_FORMAT, or TUFF_E_OOM_HOST. The caller releases *out with json_decref. */
tuff_status tuff__json_parse(const char *source, size_t size, json_t **out);

/* Appends value as JSON without blanks. */
tuff_status tuff__json_print(const json_t *value, text *out);

#endif
