/* Serialisation to and from bytes. */
#include "base/bytes.h"

#include <limits.h>
#include <string.h>

void tuff__put_u8(text *out, uint8_t value)
{
    tuff__text_add_bytes(out, (const char *)&value, 1);
}

static void put(text *out, uint64_t value, int size)
{
    unsigned char bytes[8];
    for (int i = 0; i < size; i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
    tuff__text_add_bytes(out, (const char *)bytes, (size_t)size);
}

void tuff__put_u32(text *out, uint32_t value)
{
    put(out, value, 4);
}

void tuff__put_u64(text *out, uint64_t value)
{
    put(out, value, 8);
}

void tuff__put_i64(text *out, int64_t value)
{
    put(out, (uint64_t)value, 8);
}

void tuff__put_double(text *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put(out, bits, 8);
}

void tuff__put_bytes(text *out, const void *data, size_t size)
{
    put(out, size, 8);
    tuff__text_add_bytes(out, data, size);
}

void tuff__put_text(text *out, const char *subject)
{
    tuff__put_bytes(out, subject, subject == NULL ? 0 : strlen(subject));
}

static uint64_t take(byte_reader *from, size_t size)
{
    uint64_t value = 0;
    if (from->failed || from->size - from->at < size) {
        from->failed = true;
        return 0;
    }
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)from->data[from->at + i] << (8 * i);
    from->at += size;
    return value;
}

uint8_t tuff__get_u8(byte_reader *from)
{
    return (uint8_t)take(from, 1);
}

uint32_t tuff__get_u32(byte_reader *from)
{
    return (uint32_t)take(from, 4);
}

uint64_t tuff__get_u64(byte_reader *from)
{
    return take(from, 8);
}

int64_t tuff__get_i64(byte_reader *from)
{
    const uint64_t bits = take(from, 8);
    int64_t value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

double tuff__get_double(byte_reader *from)
{
    const uint64_t bits = take(from, 8);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

bool tuff__get_bool(byte_reader *from)
{
    const uint8_t value = tuff__get_u8(from);
    from->failed |= value > 1;
    return value == 1;
}

int tuff__get_below(byte_reader *from, uint64_t bound)
{
    const uint32_t value = tuff__get_u32(from);
    if (value < bound && value <= INT_MAX)
        return (int)value;
    from->failed = true;
    return 0;
}

const void *tuff__get_bytes(byte_reader *from, size_t *size)
{
    const uint64_t length = tuff__get_u64(from);
    *size = 0;
    if (from->failed || from->size - from->at < length) {
        from->failed = true;
        return NULL;
    }
    const void *found = from->data + from->at;
    from->at += (size_t)length;
    *size = (size_t)length;
    return found;
}

void tuff__get_text(byte_reader *from, char *out, size_t size)
{
    size_t length;
    const void *found = tuff__get_bytes(from, &length);
    from->failed |= length >= size || (length > 0 && memchr(found, 0, length) != NULL);
    if (from->failed)
        length = 0;
    if (length > 0)
        memcpy(out, found, length);
    out[length] = '\0';
}

int tuff__get_count(byte_reader *from, size_t least)
{
    const uint32_t count = tuff__get_u32(from);
    if (!from->failed && count < INT_MAX && (from->size - from->at) / least >= count)
        return (int)count;
    from->failed = true;
    return 0;
}

tuff_status tuff__reader_status(const byte_reader *from, const char *subject)
{
    if (from->failed)
        return FAIL(TUFF_E_FORMAT, "%s: damaged at byte %zu of %zu", subject, from->at, from->size);
    if (from->at != from->size)
        return FAIL(TUFF_E_FORMAT, "%s: %zu bytes too many", subject, from->size - from->at);
    return TUFF_OK;
}
