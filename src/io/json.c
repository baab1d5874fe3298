/* jansson builds a tree of many small blocks, so a scan bounds the memory that a text may cost before the parser sees
   it. jansson's allocator is process-wide: it is replaced by tuff's at first use. */
#include "io/json.h"

#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"

/* Levels of nesting: more than any file of tuff has. It bounds the recursion of the parser. */
#define DEPTH_LIMIT 8

/* jansson reports a lack of memory like any other fault, so the allocator takes a note, in the thread that failed. */
static pthread_once_t installed = PTHREAD_ONCE_INIT;
static _Thread_local bool out_of_memory;

static void *allocate(size_t size)
{
    void *block = tuff__alloc(size);
    out_of_memory = out_of_memory || !block;
    return block;
}

static void install(void)
{
    json_set_alloc_funcs(allocate, tuff__free);
}

void tuff__json_begin(void)
{
    tuff__once(&installed, install);
    out_of_memory = false;
}

tuff_status tuff__json_failure(const char *reason)
{
    return out_of_memory ? FAIL(TUFF_E_OOM_HOST, "out of host memory while processing JSON")
                         : FAIL(TUFF_E_USAGE, "%s", reason);
}

/* jansson knows the rules of UTF-8, so a string that it refuses to hold is not valid. */
tuff_status tuff__json_check_string(const char *source, const char *reason)
{
    tuff__json_begin();
    json_t *value = json_string(source);
    if (!value)
        return tuff__json_failure(reason);
    json_decref(value);
    return TUFF_OK;
}

/* Returns the position of the closing quote of the string that opens at source[at]. */
static size_t skip_string(const char *source, size_t size, size_t at)
{
    for (at++; at < size && source[at] != '"'; at++)
        if (source[at] == '\\')
            at++;
    return at;
}

/* Returns an upper bound on the bytes allocated for one byte of structure: an object with its first buckets, an array
   with its first slots, a pair with its share in buckets that doubled (and, in the outer object, with what the caller
   keeps of it), a value with its share in slots that doubled. */
static uint64_t estimate_cost(char byte, int depth)
{
    switch (byte) {
    case '{':
        return 208;
    case '[':
        return 112;
    case ':':
        return depth == 1 ? 272 : 128;
    case ',':
        return 64;
    default:
        return 0;
    }
}

/* Scans the text outside strings. Text that is not JSON at all may pass: the parser rejects it. */
static tuff_status scan(const char *source, size_t size)
{
    uint64_t cost = 0;
    int depth = 0;
    for (size_t i = 0; i < size; i++) {
        char byte = source[i];
        if (byte == '"')
            i = skip_string(source, size, i);
        else if (byte == '-')
            return FAIL(TUFF_E_FORMAT, "JSON: negative number at byte %zu", i);
        else if (byte == '}' || byte == ']')
            depth--;
        else if ((byte == '{' || byte == '[') && ++depth > DEPTH_LIMIT)
            return FAIL(TUFF_E_FORMAT, "JSON: nested more than %d levels deep at byte %zu", DEPTH_LIMIT, i);
        cost += estimate_cost(byte, depth);
    }
    /* Strings cost up to four times their length: as a token, as a key or value, and in the token's growing buffer. */
    if (cost / 28 > size + 32768)
        return FAIL(TUFF_E_FORMAT, "JSON: too many small values in %zu bytes", size);
    return TUFF_OK;
}

tuff_status tuff__json_parse(const char *source, size_t size, json_t **out)
{
    if (size == 0 || source[0] != '{')
        return FAIL(TUFF_E_FORMAT, "JSON: expected { at the start");
    /* jansson skips a NUL byte after a number. */
    if (memchr(source, 0, size))
        return FAIL(TUFF_E_FORMAT, "JSON: contains a NUL byte");
    TRY(scan(source, size));
    tuff__json_begin();
    json_error_t error;
    json_t *value = json_loadb(source, size, JSON_REJECT_DUPLICATES, &error);
    if (out_of_memory) {
        json_decref(value);
        return FAIL(TUFF_E_OOM_HOST, "out of host memory for a JSON text of %zu bytes", size);
    }
    if (!value)
        return FAIL(TUFF_E_FORMAT, "JSON: %s, at byte %d", error.text, error.position);
    *out = value;
    return TUFF_OK;
}

/* The callback of jansson's printer; a failure stops it. */
static int append(const char *bytes, size_t size, void *out)
{
    text *target = out;
    tuff__text_add_bytes(target, bytes, size);
    return target->failed ? -1 : 0;
}

tuff_status tuff__json_print(const json_t *value, text *out)
{
    tuff__json_begin();
    int result = json_dump_callback(value, append, out, JSON_COMPACT);
    TRY(tuff__text_status(out));
    return result ? tuff__json_failure("cannot write a value as JSON") : TUFF_OK;
}
