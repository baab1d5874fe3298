/* Serialization of numbers and texts as little-endian bytes, for messages between processes and for files. Input is
   untrusted: after the first missing or invalid value the reader is marked as failed, and every later value is 0 or
   empty. */
#ifndef TUFF_BASE_BYTES_H
#define TUFF_BASE_BYTES_H

#include "base/text.h"

/* Writers append to out; a failure for lack of memory shows at the end (tuff__text_status). */
void tuff__put_u8(text *out, uint8_t value);
void tuff__put_u32(text *out, uint32_t value);
void tuff__put_u64(text *out, uint64_t value);
void tuff__put_i64(text *out, int64_t value);
void tuff__put_double(text *out, double value);
/* The length comes first. */
void tuff__put_bytes(text *out, const void *data, size_t size);
void tuff__put_text(text *out, const char *subject); /* NULL is written as "" */

typedef struct byte_reader {
    const unsigned char *data;
    size_t size, at;
    bool failed;
} byte_reader;
uint8_t tuff__get_u8(byte_reader *reader);
uint32_t tuff__get_u32(byte_reader *reader);
uint64_t tuff__get_u64(byte_reader *reader);
int64_t tuff__get_i64(byte_reader *reader);
double tuff__get_double(byte_reader *reader);
bool tuff__get_bool(byte_reader *reader); /* fails on values other than 0 and 1 */
/* Reads a number below bound; fails on larger ones. */
int tuff__get_below(byte_reader *reader, uint64_t bound);
/* Returns a pointer to the bytes in the input; NULL, with *size 0, if they are incomplete. */
const void *tuff__get_bytes(byte_reader *reader, size_t *size);
/* Reads a text of at most size - 1 bytes, without a 0 in it. On a longer one, fails and sets out to "". */
void tuff__get_text(byte_reader *reader, char *out, size_t size);
/* Reads the number of elements that follow, each of at least `min_size` bytes. Fails if the remaining bytes cannot hold
   that many, so the count is safe for allocating memory. */
int tuff__get_count(byte_reader *reader, size_t min_size);
/* Returns TUFF_E_FORMAT if a read failed or bytes are left over. subject is for the message: "the graph". */
tuff_status tuff__reader_status(const byte_reader *reader, const char *subject);

#endif
