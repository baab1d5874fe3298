/* Formats and parses op keys. Texts come from files, so the parser trusts nothing: a key is accepted only if it formats
   to the same text. compile/task_key.c makes the key of a task. */
#include "tunedb/key.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *or_dash(const char *field)
{
    return field[0] ? field : "-";
}

const char *tuff__key_text(const tune_key *key, char *buffer)
{
    size_t used = (size_t)snprintf(buffer, TUNE_KEY_SIZE, "%s %016" PRIx64 " | %s | %s | ", key->family, key->structure,
                                   or_dash(key->dtypes), or_dash(key->layout));
    for (int i = 0; i < key->dim_count; i++)
        used += (size_t)snprintf(buffer + used, TUNE_KEY_SIZE - used, "%s%" PRId64, i > 0 ? "x" : "", key->dims[i]);
    (void)snprintf(buffer + used, TUNE_KEY_SIZE - used, "%s | a%d | %s", key->dim_count > 0 ? "" : "-", key->alignment,
                   or_dash(key->math));
    return buffer;
}

hash128 tuff__key_hash(const tune_key *key)
{
    const char *source = KEY_TEXT(key);
    return tuff__hash(source, strlen(source));
}

/* Reads a field and moves *at past the separator that ends it; "-" is an empty field. */
static bool parse_field(const char **at, const char *separator, char *out, size_t size)
{
    const char *end = separator[0] ? strstr(*at, separator) : *at + strlen(*at);
    const size_t length = end ? (size_t)(end - *at) : 0;
    if (length == 0 || length >= size)
        return false;
    memcpy(out, *at, length);
    out[length] = 0;
    *at = end + strlen(separator);
    if (strcspn(out, " |") != length)
        return false;
    if (strcmp(out, "-") == 0)
        out[0] = 0;
    return true;
}

static bool read_structure(const char *digits, uint64_t *out)
{
    char *end = NULL;
    if (strlen(digits) != 16 || strspn(digits, "0123456789abcdef") != 16)
        return false;
    *out = strtoull(digits, &end, 16);
    return *end == 0;
}

/* Reads at most 18 digits, which always fit into an int64. */
static bool read_number(const char **at, int64_t *out)
{
    const size_t digits = strspn(*at, "0123456789");
    if (digits == 0 || digits > 18 || **at == '0')
        return false;
    *out = strtoll(*at, NULL, 10);
    *at += digits;
    return true;
}

static bool read_dims(const char *source, tune_key *out)
{
    if (!source[0])
        return true;
    do {
        source += out->dim_count > 0;
        if (out->dim_count == TUNE_KEY_DIMS || !read_number(&source, &out->dims[out->dim_count]))
            return false;
        out->dim_count++;
    } while (*source == 'x');
    return *source == 0;
}

static bool read_alignment(const char *source, int *out)
{
    static const char *const legal[] = {"a1", "a2", "a4", "a8", "a16"};
    for (int i = 0; i < 5; i++)
        if (strcmp(source, legal[i]) == 0) {
            *out = 1 << i;
            return true;
        }
    return false;
}

tuff_status tuff__key_parse(const char *source, tune_key *out)
{
    const char *at = source;
    char structure[32], dims[192], alignment[8];
    *out = (tune_key){0};
    const bool whole =
        parse_field(&at, " ", out->family, sizeof out->family) && out->family[0] &&
        parse_field(&at, " | ", structure, sizeof structure) &&
        parse_field(&at, " | ", out->dtypes, sizeof out->dtypes) &&
        parse_field(&at, " | ", out->layout, sizeof out->layout) && parse_field(&at, " | ", dims, sizeof dims) &&
        parse_field(&at, " | ", alignment, sizeof alignment) && parse_field(&at, "", out->math, sizeof out->math) &&
        read_structure(structure, &out->structure) && read_dims(dims, out) &&
        read_alignment(alignment, &out->alignment);
    return whole ? TUFF_OK : FAIL(TUFF_E_FORMAT, "not a valid op key: '%.200s'", source);
}

bool tuff__key_is_alike(const tune_key *a, const tune_key *b)
{
    return a->structure == b->structure && a->dim_count == b->dim_count && strcmp(a->family, b->family) == 0 &&
           strcmp(a->dtypes, b->dtypes) == 0 && strcmp(a->layout, b->layout) == 0 && strcmp(a->math, b->math) == 0;
}

double tuff__key_distance(const tune_key *a, const tune_key *b)
{
    double sum = 0;
    for (int i = 0; i < a->dim_count; i++) {
        const double apart = fabs(log2((double)a->dims[i] / (double)b->dims[i]));
        if (!(apart <= 1))
            return -1;
        sum += apart;
    }
    return sum;
}
