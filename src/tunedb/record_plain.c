/* A thousand records are read at every start, nearly all as this version wrote them: for those a parser that expects
   each member where it is written, and takes texts where they lie. Anything else is left to the JSON parser. */
#include "tunedb/record_plain.h"

#include <string.h>

enum { HASH_DIGITS = 32, NUMBER_DIGITS = 18 };

bool tuff__hash_read(const char *digits, hash128 *out)
{
    uint64_t parts[2] = {0, 0};
    for (int i = 0; i < HASH_DIGITS; i++) {
        const char c = digits[i];
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0)
            return false;
        parts[i / 16] = parts[i / 16] << 4 | (uint64_t)digit;
    }
    *out = (hash128){.high = parts[0], .low = parts[1]};
    return true;
}

/* at: what is not yet read; other: the line turned out to be another. */
typedef struct cursor {
    char *at;
    bool other;
} cursor;

static bool skip(cursor *from, const char *wanted)
{
    const size_t length = strlen(wanted);
    const bool is_there = strncmp(from->at, wanted, length) == 0;
    if (is_there)
        from->at += length;
    return is_there;
}

static void expect(cursor *from, const char *wanted)
{
    from->other |= !skip(from, wanted);
}

/* The text behind an opening quote, ended where its closing quote is. */
static char *take_text(cursor *from)
{
    char *begin = from->at, *end = begin;
    while (*end >= 0x20 && *end < 0x7f && *end != '"' && *end != '\\')
        end++;
    from->other |= *end != '"';
    if (from->other)
        return begin;
    *end = 0;
    from->at = end + 1;
    return begin;
}

static uint64_t take_number(cursor *from)
{
    uint64_t value = 0;
    const size_t digits = strspn(from->at, "0123456789");
    from->other |= digits == 0 || digits > NUMBER_DIGITS || (from->at[0] == '0' && digits > 1);
    for (size_t i = 0; i < digits && !from->other; i++)
        value = 10 * value + (uint64_t)(from->at[i] - '0');
    from->at += digits;
    return value;
}

/* Members that may be missing keep what the record has. */
static void may_text(cursor *from, const char *name, const char **out)
{
    if (skip(from, name))
        *out = take_text(from);
}

static void may_number(cursor *from, const char *name, uint64_t *out)
{
    if (skip(from, name))
        *out = take_number(from);
}

static hash128 must_hash(cursor *from, const char *name)
{
    hash128 out = {0};
    expect(from, name);
    if (from->other)
        return out;
    const char *digits = take_text(from);
    from->other |= strlen(digits) != HASH_DIGITS || !tuff__hash_read(digits, &out);
    return out;
}

static void take_win(cursor *from, tune_record *out)
{
    expect(from, ",\"ns\":[");
    for (int i = 0; i < 3; i++) {
        if (i > 0)
            expect(from, ",");
        out->nanoseconds[i] = take_number(from);
    }
    expect(from, "]");
    may_number(from, ",\"n\":", &out->samples);
    may_number(from, ",\"def\":", &out->default_nanoseconds);
    expect(from, ",\"top\":[");
    for (int i = 0; i < RUNNERS_UP && skip(from, i > 0 ? ",\"" : "\""); i++)
        out->runners_up[i] = take_text(from);
    expect(from, "]");
    may_text(from, ",\"cold\":\"", &out->cold);
    may_number(from, ",\"bud\":", &out->budget_milliseconds);
    may_text(from, ",\"end\":\"", &out->end);
    may_text(from, ",\"src\":\"", &out->source);
    may_text(from, ",\"lib\":\"", &out->library);
    if (!skip(from, ",\"all\":["))
        return;
    out->timed = take_number(from);
    for (int i = 0; i < SPREAD; i++) {
        expect(from, ",");
        out->spread[i] = take_number(from);
    }
    expect(from, "]");
}

static void take_members(cursor *from, tune_record *out)
{
    out->key = must_hash(from, ",\"k\":\"");
    may_text(from, ",\"op\":\"", &out->op);
    may_text(from, ",\"kgen\":\"", &out->generator);
    expect(from, ",\"c\":\"");
    out->candidate = take_text(from);
    if (out->kind == RECORD_WIN)
        take_win(from, out);
    may_text(from, out->kind == RECORD_PIN ? ",\"by\":\"" : ",\"why\":\"", &out->reason);
    may_text(from, ",\"ph\":\"", &out->phase);
    may_number(from, ",\"ts\":", &out->time);
    from->other |= !tuff__is_same_hash(out->key, tuff__hash_text(out->op));
}

bool tuff__record_read_plain(char *body, size_t size, tune_record *out)
{
    static const char *const heads[] = {"{\"t\":\"env\"", "{\"t\":\"win\"", "{\"t\":\"bad\"", "{\"t\":\"pin\""};
    cursor from = {.at = body};
    int kind = 0;
    body[size] = 0;
    while (kind < 4 && !skip(&from, heads[kind]))
        kind++;
    if (kind == 4)
        return false;
    out->kind = (record_kind)kind;
    out->environment = must_hash(&from, ",\"e\":\"");
    if (out->kind == RECORD_ENVIRONMENT) {
        may_text(&from, ",\"text\":\"", &out->op);
        from.other |= !tuff__is_same_hash(out->environment, tuff__hash_text(out->op));
    } else {
        take_members(&from, out);
    }
    expect(&from, "}");
    return !from.other && from.at == body + size;
}
