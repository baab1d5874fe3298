/* Growing strings, used for kernels, messages and reports. */
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"

/* Makes room for length more bytes and the final 0. */
static bool reserve(text *self, size_t length)
{
    size_t needed;
    if (self->failed)
        return false;
    if (tuff__add_size(self->length, length, &needed) && tuff__add_size(needed, 1, &needed)) {
        if (needed <= self->capacity)
            return true;
        size_t capacity = self->capacity ? self->capacity : 64;
        while (capacity < needed && tuff__mul_size(capacity, 2, &capacity))
            ;
        char *data = capacity >= needed ? tuff__realloc_array(self->data, capacity, 1) : NULL;
        if (data) {
            self->data = data;
            self->capacity = capacity;
            return true;
        }
    }
    self->failed = true;
    return false;
}

void tuff__text_add(text *self, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const int length = vsnprintf(NULL, 0, format, list);
    va_end(list);
    if (length < 0)
        self->failed = true;
    if (length <= 0 || !reserve(self, (size_t)length))
        return;
    va_start(list, format);
    (void)vsnprintf(self->data + self->length, (size_t)length + 1, format, list);
    va_end(list);
    self->length += (size_t)length;
}

void tuff__text_add_bytes(text *self, const char *data, size_t length)
{
    if (!length || !reserve(self, length))
        return;
    memcpy(self->data + self->length, data, length);
    self->length += length;
    self->data[self->length] = 0;
}

const char *tuff__text_get(const text *self)
{
    return self->data ? self->data : "";
}

tuff_status tuff__text_status(const text *self)
{
    if (self->failed)
        return FAIL(TUFF_E_OOM_HOST, "out of host memory: cannot extend a text of %zu bytes", self->length);
    return TUFF_OK;
}

void tuff__text_clear(text *self)
{
    self->length = 0;
    self->failed = false;
    if (self->data)
        self->data[0] = 0;
}

void tuff__text_free(text *self)
{
    tuff__free(self->data);
    *self = (text){0};
}

/* Returns the length of the UTF-8 sequence that begins with the byte lead; 1 if lead cannot begin one. */
static size_t sequence_length(unsigned char lead)
{
    return lead >= 0xf8 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
}

/* Returns the length of the UTF-8 sequence at the beginning of a text; 1 also if there is none. */
static size_t valid_length(const unsigned char *source)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const size_t length = sequence_length(source[0]);
    uint32_t code = length == 1 ? source[0] : source[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((source[i] & 0xc0) != 0x80)
            return 1;
        code = code << 6 | (source[i] & 0x3fu);
    }
    const bool is_surrogate = code >= 0xd800 && code < 0xe000;
    return code < least[length] || is_surrogate || code > 0x10ffff ? 1 : length;
}

void tuff__text_add_json(text *self, const char *source)
{
    tuff__text_add(self, "\"");
    for (size_t length; *source; source += length) {
        const unsigned char lead = (unsigned char)*source;
        length = valid_length((const unsigned char *)source);
        if (length == 1 && (lead < 0x20 || lead >= 0x7f))
            tuff__text_add(self, "\\u%04x", (unsigned)lead);
        else
            tuff__text_add(self, lead == '"' || lead == '\\' ? "\\%.*s" : "%.*s", (int)length, source);
    }
    tuff__text_add(self, "\"");
}

void tuff__text_one_line(char *line)
{
    size_t length = strlen(line);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = ' ';
    for (size_t back = 1; back <= 3 && back <= length; back++) {
        unsigned char byte = (unsigned char)line[length - back];
        if (byte < 0x80)
            break;
        if (byte >= 0xc0) {
            if (sequence_length(byte) > back)
                length -= back;
            break;
        }
    }
    while (length && line[length - 1] == ' ')
        length--;
    line[length] = 0;
}

int tuff__text_first_lines(const char *source, int lines)
{
    const char *end = source;
    for (int line = 0; line < lines && *end; line++) {
        end += strcspn(end, "\n");
        end += *end == '\n';
    }
    while (end > source && end[-1] == '\n')
        end--;
    return (int)(end - source);
}

const char *tuff__shape_text(tuff_shape shape, char *buffer, size_t size)
{
    size_t used = (size_t)snprintf(buffer, size, "[");
    int rank = shape.rank < TUFF_MAX_RANK ? shape.rank : TUFF_MAX_RANK;
    for (int i = 0; i < rank && used < size; i++)
        used += (size_t)snprintf(buffer + used, size - used, "%s%" PRId64, i ? "," : "", shape.extent[i]);
    if (used < size)
        (void)snprintf(buffer + used, size - used, "]");
    return buffer;
}

/* Characters that printf may write for a number besides the separator, including those of infinities and NaN. */
#define NUMBER_CHARACTERS "+-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ()"

/* Prints the number, then replaces the locale's decimal separator, which may take several bytes, by a point. */
const char *tuff__number_text(char form, int digits, double number, char *buffer, size_t size)
{
    if (form == 'e')
        (void)snprintf(buffer, size, "%.*e", digits, number);
    else if (form == 'f')
        (void)snprintf(buffer, size, "%.*f", digits, number);
    else
        (void)snprintf(buffer, size, "%.*g", digits, number);
    char *separator = buffer + strspn(buffer, NUMBER_CHARACTERS);
    if (*separator != 0) {
        const char *rest = separator + strcspn(separator, NUMBER_CHARACTERS);
        *separator = '.';
        memmove(separator + 1, rest, strlen(rest) + 1);
    }
    return buffer;
}

/* strtod expects the locale's decimal separator; printing a number in the same locale shows it. */
double tuff__parse_number(const char *source, char **end)
{
    char sample[32], copy[128];
    const int length = snprintf(sample, sizeof sample, "%.1f", 0.5) - 2; /* length of the separator in "0.5" */
    const size_t blanks = strspn(source, " \t\n\v\f\r"), point = blanks + strspn(source + blanks, NUMBER_CHARACTERS);
    const char *fraction = source + point + (source[point] == '.');
    const bool has_point = source[point] == '.';
    const int used = snprintf(copy, sizeof copy, "%.*s%.*s%.*s", (int)point, source, has_point ? length : 0, sample + 1,
                              has_point ? (int)strspn(fraction, NUMBER_CHARACTERS) : 0, fraction);
    *end = (char *)(uintptr_t)source;
    if (used < 0 || (size_t)used >= sizeof copy)
        return 0;
    char *stop;
    const double number = strtod(copy, &stop);
    size_t read = (size_t)(stop - copy);
    if (read > point && has_point) /* the separator is one byte of the source */
        read -= (size_t)length - 1;
    *end += read;
    return number;
}
