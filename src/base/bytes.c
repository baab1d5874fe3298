/* Serialization of numbers and texts to little-endian bytes, and back from bytes that nobody has checked. The writer
   owns nothing: bytes are appended to the caller's text. Read next: worker/ipc.c, whose messages consist of these. */
#include "base/bytes.h"

#include <limits.h>
#include <string.h>

void tuff__put_u8(text *out, uint8_t value)
{
    tuff__text_add_bytes(out, (const char *)&value, 1);
}

static void write_little_endian(text *out, uint64_t value, int size)
{
    unsigned char bytes[8];
    for (int i = 0; i < size; i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
    tuff__text_add_bytes(out, (const char *)bytes, (size_t)size);
}

void tuff__put_u32(text *out, uint32_t value)
{
    write_little_endian(out, value, 4);
}

void tuff__put_u64(text *out, uint64_t value)
{
    write_little_endian(out, value, 8);
}

void tuff__put_i64(text *out, int64_t value)
{
    write_little_endian(out, (uint64_t)value, 8);
}

void tuff__put_double(text *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    write_little_endian(out, bits, 8);
}

void tuff__put_bytes(text *out, const void *data, size_t size)
{
    write_little_endian(out, size, 8);
    tuff__text_add_bytes(out, data, size);
}

void tuff__put_text(text *out, const char *subject)
{
    tuff__put_bytes(out, subject, subject == NULL ? 0 : strlen(subject));
}

static uint64_t read_little_endian(byte_reader *reader, size_t size)
{
    uint64_t value = 0;
    if (reader->failed || reader->size - reader->at < size) {
        reader->failed = true;
        return 0;
    }
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)reader->data[reader->at + i] << (8 * i);
    reader->at += size;
    return value;
}

uint8_t tuff__get_u8(byte_reader *reader)
{
    return (uint8_t)read_little_endian(reader, 1);
}

uint32_t tuff__get_u32(byte_reader *reader)
{
    return (uint32_t)read_little_endian(reader, 4);
}

uint64_t tuff__get_u64(byte_reader *reader)
{
    return read_little_endian(reader, 8);
}

int64_t tuff__get_i64(byte_reader *reader)
{
    const uint64_t bits = read_little_endian(reader, 8);
    int64_t value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

double tuff__get_double(byte_reader *reader)
{
    const uint64_t bits = read_little_endian(reader, 8);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

bool tuff__get_bool(byte_reader *reader)
{
    const uint8_t value = tuff__get_u8(reader);
    reader->failed |= value > 1;
    return value == 1;
}

int tuff__get_below(byte_reader *reader, uint64_t bound)
{
    const uint32_t value = tuff__get_u32(reader);
    if (value < bound && value <= INT_MAX)
        return (int)value;
    reader->failed = true;
    return 0;
}

const void *tuff__get_bytes(byte_reader *reader, size_t *size)
{
    const uint64_t length = tuff__get_u64(reader);
    *size = 0;
    if (reader->failed || reader->size - reader->at < length) {
        reader->failed = true;
        return NULL;
    }
    const void *found = reader->data + reader->at;
    reader->at += (size_t)length;
    *size = (size_t)length;
    return found;
}

void tuff__get_text(byte_reader *reader, char *out, size_t size)
{
    size_t length;
    const void *found = tuff__get_bytes(reader, &length);
    reader->failed |= length >= size || (length > 0 && memchr(found, 0, length) != NULL);
    if (reader->failed)
        length = 0;
    if (length > 0)
        memcpy(out, found, length);
    out[length] = '\0';
}

int tuff__get_count(byte_reader *reader, size_t min_size)
{
    const uint32_t count = tuff__get_u32(reader);
    if (!reader->failed && count < INT_MAX && (reader->size - reader->at) / min_size >= count)
        return (int)count;
    reader->failed = true;
    return 0;
}

tuff_status tuff__reader_status(const byte_reader *reader, const char *subject)
{
    if (reader->failed)
        return FAIL(TUFF_E_FORMAT, "%s: damaged at byte %zu of %zu", subject, reader->at, reader->size);
    if (reader->at != reader->size)
        return FAIL(TUFF_E_FORMAT, "%s: %zu unexpected bytes at the end", subject, reader->size - reader->at);
    return TUFF_OK;
}
