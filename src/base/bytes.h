/* Numbers and texts as bytes, little end first, for what goes between processes. What is read may come from anywhere:
   after the first value that is not there a reader is marked as failed, and all that it answers is 0 or empty. */
#ifndef TUFF_BASE_BYTES_H
#define TUFF_BASE_BYTES_H

#include "base/text.h"

/* Appended; texts that failed for want of memory say so at the end (tuff__text_status). */
void tuff__put_u8(text *out, uint8_t value);
void tuff__put_u32(text *out, uint32_t value);
void tuff__put_u64(text *out, uint64_t value);
void tuff__put_i64(text *out, int64_t value);
void tuff__put_double(text *out, double value);
/* With its length in front. */
void tuff__put_bytes(text *out, const void *data, size_t size);
void tuff__put_text(text *out, const char *subject); /* NULL is written as "" */

typedef struct byte_reader {
    const unsigned char *data;
    size_t size, at;
    bool failed;
} byte_reader;
uint8_t tuff__get_u8(byte_reader *from);
uint32_t tuff__get_u32(byte_reader *from);
uint64_t tuff__get_u64(byte_reader *from);
int64_t tuff__get_i64(byte_reader *from);
double tuff__get_double(byte_reader *from);
bool tuff__get_bool(byte_reader *from); /* fails on what is neither 0 nor 1 */
/* Below a bound; fails on what is not. */
int tuff__get_below(byte_reader *from, uint64_t bound);
/* The bytes where they lie; NULL and *size 0 where they end early. */
const void *tuff__get_bytes(byte_reader *from, size_t *size);
/* A text of at most size - 1 bytes, without a 0 in it. Fails, and gives "", on a longer one. */
void tuff__get_text(byte_reader *from, char *out, size_t size);
/* How many elements of at least so many bytes come next, by a count in front of them: never more than there are bytes
   for, so that the count can be trusted with memory. */
int tuff__get_count(byte_reader *from, size_t least);
/* TUFF_E_FORMAT where something failed, or bytes are left. what: "the graph". */
tuff_status tuff__reader_status(const byte_reader *from, const char *subject);

#endif
