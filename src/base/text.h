/* A growing string. After a failed append the text keeps its contents and is marked as failed, and all later appends do
   nothing, so that a long series of appends needs only one check at the end. Zero is an empty text. */
#ifndef TUFF_BASE_TEXT_H
#define TUFF_BASE_TEXT_H

#include "base/status.h"

typedef struct text {
    char *data; /* ends with 0; NULL: empty */
    size_t length, capacity;
    bool failed;
} text;

void tuff__text_add(text *self, const char *format, ...) PRINTF_LIKE(2, 3);
void tuff__text_add_bytes(text *self, const char *data, size_t length);
/* Appends a JSON string with its quotes. Bytes that are not UTF-8 become the characters of that number. */
void tuff__text_add_json(text *self, const char *source);
/* Returns the string, "" if it is empty. It belongs to the text. */
const char *tuff__text_get(const text *self);
/* Returns TUFF_E_OOM_HOST if an append failed. */
tuff_status tuff__text_status(const text *self);
void tuff__text_clear(text *self); /* keeps the memory and clears the failure */
void tuff__text_free(text *self);

/* Makes a message one line: replaces control characters by blanks, and removes trailing blanks and a truncated UTF-8
   sequence at the end. */
void tuff__text_one_line(char *line);

/* Returns the length in bytes of a text's first lines, without the last newline. */
int tuff__text_first_lines(const char *source, int lines);

/* Writes "[2,3]" into buffer and returns buffer; truncated if it does not fit. SHAPE_TEXT(s) is a buffer literal for
   messages. */
const char *tuff__shape_text(tuff_shape shape, char *buffer, size_t size);
#define SHAPE_TEXT(shape) tuff__shape_text((shape), (char[96]){0}, 96)

/* Writes a machine-readable number into buffer and returns buffer: like printf's %e, %f or %g with that many digits in
   the locale "C", whatever locale the program has set. NUMBER_TEXT(form, digits, x) is a buffer literal for numbers
   below 1e15. */
const char *tuff__number_text(char form, int digits, double number, char *buffer, size_t size);
#define NUMBER_TEXT(form, digits, number) tuff__number_text((form), (digits), (number), (char[48]){0}, 48)
/* Like strtod in the locale "C". */
double tuff__parse_number(const char *source, char **end);

#endif
