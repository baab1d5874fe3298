/* A growing text. After a failed append the text is marked as failed, stays as it was and all later appends do nothing,
   so that a long series needs one check at its end. Zero is an empty text. */
#ifndef TUFF_BASE_TEXT_H
#define TUFF_BASE_TEXT_H

#include "base/status.h"

typedef struct text {
    char *data; /* ends with 0; NULL while empty */
    size_t length, capacity;
    bool failed;
} text;

void tuff__text_add(text *self, const char *format, ...) PRINTF_LIKE(2, 3);
void tuff__text_add_bytes(text *self, const char *data, size_t length);
/* The text, "" when empty. Belongs to the text. */
const char *tuff__text_get(const text *self);
/* TUFF_E_OOM_HOST where an append failed. */
tuff_status tuff__text_status(const text *self);
void tuff__text_clear(text *self); /* keeps memory and forgets the failure */
void tuff__text_free(text *self);

/* Makes one line of a message: control characters become blanks, blanks at the end and a UTF-8 sequence that was cut
   off there go. */
void tuff__text_one_line(char *line);

/* "[2,3]" into buffer, which is answered; cut where it does not fit. SHAPE_TEXT(s) is a buffer literal for messages. */
const char *tuff__shape_text(tuff_shape shape, char *buffer, size_t size);
#define SHAPE_TEXT(shape) tuff__shape_text((shape), (char[96]){0}, 96)

/* A number for a machine to read, as printf's %e, %f or %g writes it with that many digits in the locale "C": whatever
   locale the program has set, a point is a point. Into buffer, which is answered. NUMBER_TEXT(form, digits, x) is a
   buffer literal for numbers below 1e15. */
const char *tuff__number_text(char form, int digits, double number, char *buffer, size_t size);
#define NUMBER_TEXT(form, digits, number) tuff__number_text((form), (digits), (number), (char[48]){0}, 48)
/* As strtod in the locale "C". */
double tuff__number_from(const char *source, char **end);

#endif
