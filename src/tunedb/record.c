/* Formats records as lines and parses them. Input is not trusted: a line is accepted as a whole or not at all. Lines in
   the form that this version writes have a parser of their own, because a program reads about a thousand of them at
   start; all others go to the JSON parser. */
#include "tunedb/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/crc.h"
#include "io/json.h"
#include "kernels/config.h"
#include "tuff/base.h"

enum { CHECK_DIGITS = 8, HASH_DIGITS = 32, NUMBER_DIGITS = 18, LINE_LIMIT = 64 << 10 };

static const char *const kinds[] = {"env", "win", "bad", "pin"};

const tune_record tuff__empty_record = {.op = "",
                                        .kernel_hash = "",
                                        .candidate = "",
                                        .runners_up = {"", "", ""},
                                        .cold = "",
                                        .end = "",
                                        .source = "",
                                        .library = "",
                                        .reason = "",
                                        .phase = ""};

hash128 tuff__hash_text(const char *source)
{
    return tuff__hash(source, strlen(source));
}

const char *tuff__record_kind_text(record_kind kind)
{
    return kinds[kind];
}

uint64_t tuff__record_now(void)
{
    const time_t now = time(NULL);
    return now > 0 ? (uint64_t)now : 0;
}

tune_record tuff__record_make(record_kind kind, const char *environment, const char *op, const char *candidate)
{
    tune_record out = tuff__empty_record;
    out.kind = kind;
    out.environment = tuff__hash_text(environment);
    out.key = tuff__hash_text(op);
    out.op = op;
    out.candidate = candidate;
    out.time = tuff__record_now();
    if (kind == RECORD_WIN) {
        out.source = "live";
        out.library = tuff_version();
    }
    return out;
}

const char *const tuff__suspicions[SUSPICIONS] = {"suspected", "suspected twice"};

bool tuff__record_is_suspicion(const tune_record *rejection)
{
    for (int i = 0; i < SUSPICIONS; i++)
        if (strcmp(rejection->reason, tuff__suspicions[i]) == 0)
            return true;
    return false;
}

bool tuff__record_rejects(const tune_record *rejection, const char *kernel_hash)
{
    if (rejection == NULL || tuff__record_is_suspicion(rejection))
        return false;
    return kernel_hash == NULL || rejection->kernel_hash[0] == '\0' || strcmp(rejection->kernel_hash, kernel_hash) == 0;
}

/* A JSON object under construction. failed: some part of it could not be created. */
typedef struct builder {
    json_t *object;
    bool failed;
} builder;

static void set(builder *to, const char *name, json_t *value)
{
    to->failed |= json_object_set_new(to->object, name, value) != 0;
}

static void set_text(builder *to, const char *name, const char *value)
{
    if (value[0])
        set(to, name, json_string(value));
}

static void set_number(builder *to, const char *name, uint64_t value)
{
    if (value > 0)
        set(to, name, json_integer((json_int_t)value));
}

static void set_hash(builder *to, const char *name, hash128 value)
{
    char digits[HASH_DIGITS + 1];
    snprintf(digits, sizeof digits, "%016" PRIx64 "%016" PRIx64, value.high, value.low);
    set(to, name, json_string(digits));
}

static void set_spread(builder *to, const tune_record *record)
{
    json_t *all = json_array();
    to->failed |= json_array_append_new(all, json_integer((json_int_t)record->timed)) != 0;
    for (int i = 0; i < SPREAD; i++)
        to->failed |= json_array_append_new(all, json_integer((json_int_t)record->spread[i])) != 0;
    set(to, "all", all);
}

static void set_win(builder *to, const tune_record *record)
{
    json_t *quartiles = json_array(), *runners_up = json_array();
    for (int i = 0; i < 3; i++)
        to->failed |= json_array_append_new(quartiles, json_integer((json_int_t)record->nanoseconds[i])) != 0;
    for (int i = 0; i < RUNNERS_UP; i++)
        if (record->runners_up[i][0])
            to->failed |= json_array_append_new(runners_up, json_string(record->runners_up[i])) != 0;
    set(to, "ns", quartiles);
    set_number(to, "n", record->samples);
    set_number(to, "def", record->default_nanoseconds);
    set(to, "top", runners_up);
    set_text(to, "cold", record->cold);
    set_number(to, "bud", record->budget_milliseconds);
    set_text(to, "end", record->end);
    set_text(to, "src", record->source);
    set_text(to, "lib", record->library);
    if (record->timed > 0)
        set_spread(to, record);
}

static void build(builder *to, const tune_record *record)
{
    set_text(to, "t", kinds[record->kind]);
    set_hash(to, "e", record->environment);
    if (record->kind == RECORD_ENVIRONMENT) {
        set_text(to, "text", record->op);
        return;
    }
    set_hash(to, "k", record->key);
    set_text(to, "op", record->op);
    set_text(to, "kgen", record->kernel_hash);
    set(to, "c", json_string(record->candidate));
    if (record->kind == RECORD_WIN)
        set_win(to, record);
    set_text(to, record->kind == RECORD_PIN ? "by" : "why", record->reason);
    set_text(to, "ph", record->phase);
    set_number(to, "ts", record->time);
}

tuff_status tuff__record_write(const tune_record *record, text *out)
{
    text body = {0};
    tuff__json_begin();
    builder made = {.object = json_object()};
    build(&made, record);
    tuff_status status = TUFF_OK;
    if (made.failed)
        status = tuff__json_failure("tune: a record contains text that is not valid UTF-8");
    if (status == TUFF_OK)
        status = tuff__json_print(made.object, &body);
    json_decref(made.object);
    if (status == TUFF_OK)
        tuff__text_add(out, "%08" PRIx32 " %s\n", tuff__crc32(tuff__text_get(&body), body.length),
                       tuff__text_get(&body));
    tuff__text_free(&body);
    return status == TUFF_OK ? tuff__text_status(out) : status;
}

/* Reads the digits of a hash; returns false if they are not hexadecimal. */
static bool read_hash(const char *digits, hash128 *out)
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

/* A line being read. damaged: a required member is missing, or a member has the wrong type. */
typedef struct reader {
    const json_t *object;
    arena *texts;
    bool damaged, out_of_memory;
} reader;

/* Whether a text contains control characters. Texts are printed, so they must not be able to move a terminal's cursor.
   The C1 controls begin with 0xc2 in UTF-8. */
static bool has_control_characters(const char *found)
{
    for (; *found; found++) {
        const unsigned char byte = (unsigned char)*found, next = (unsigned char)found[1];
        if (byte < 0x20 || byte == 0x7f || (byte == 0xc2 && next >= 0x80 && next < 0xa0))
            return true;
    }
    return false;
}

static const char *copy_text(reader *from, const json_t *value)
{
    const char *found = json_string_value(value);
    from->damaged |= value && (!found || has_control_characters(found));
    const char *copy = found ? tuff__arena_strdup(from->texts, found) : "";
    from->out_of_memory |= !copy;
    return copy ? copy : "";
}

static const char *get_text(reader *from, const char *name)
{
    return copy_text(from, json_object_get(from->object, name));
}

static uint64_t read_integer(reader *from, const json_t *value)
{
    const json_int_t number = json_integer_value(value);
    from->damaged |= value && (!json_is_integer(value) || number < 0 || number > 999999999999999999);
    return (uint64_t)number;
}

static uint64_t get_number(reader *from, const char *name)
{
    return read_integer(from, json_object_get(from->object, name));
}

static hash128 get_hash(reader *from, const char *name)
{
    hash128 hash = {0};
    const json_t *value = json_object_get(from->object, name);
    from->damaged |= json_string_length(value) != HASH_DIGITS || !read_hash(json_string_value(value), &hash);
    return hash;
}

static void read_win(reader *from, tune_record *out)
{
    const json_t *quartiles = json_object_get(from->object, "ns"), *top = json_object_get(from->object, "top");
    from->damaged |= json_array_size(quartiles) != 3 || (top && !json_is_array(top));
    for (size_t i = 0; i < 3; i++)
        out->nanoseconds[i] = read_integer(from, json_array_get(quartiles, i));
    for (size_t i = 0; i < RUNNERS_UP; i++)
        out->runners_up[i] = copy_text(from, json_array_get(top, i));
    out->samples = get_number(from, "n");
    out->default_nanoseconds = get_number(from, "def");
    out->cold = get_text(from, "cold");
    out->budget_milliseconds = get_number(from, "bud");
    out->end = get_text(from, "end");
    out->source = get_text(from, "src");
    out->library = get_text(from, "lib");
    const json_t *all = json_object_get(from->object, "all");
    from->damaged |= all && json_array_size(all) != 1 + SPREAD;
    out->timed = read_integer(from, json_array_get(all, 0));
    for (size_t i = 0; i < SPREAD; i++)
        out->spread[i] = read_integer(from, json_array_get(all, 1 + i));
}

static void read_object(reader *from, tune_record *out)
{
    out->environment = get_hash(from, "e");
    if (out->kind == RECORD_ENVIRONMENT) {
        out->op = get_text(from, "text");
        from->damaged |= !tuff__is_same_hash(out->environment, tuff__hash_text(out->op));
        return;
    }
    out->key = get_hash(from, "k");
    out->op = get_text(from, "op");
    out->kernel_hash = get_text(from, "kgen");
    out->candidate = get_text(from, "c");
    from->damaged |= !json_object_get(from->object, "c");
    out->reason = get_text(from, out->kind == RECORD_PIN ? "by" : "why");
    out->phase = get_text(from, "ph");
    out->time = get_number(from, "ts");
    if (out->kind == RECORD_WIN)
        read_win(from, out);
    from->damaged |= !tuff__is_same_hash(out->key, tuff__hash_text(out->op));
}

static bool find_kind(const json_t *object, record_kind *out)
{
    const char *name = json_string_value(json_object_get(object, "t"));
    for (int i = 0; name && i < (int)(sizeof kinds / sizeof *kinds); i++)
        if (strcmp(name, kinds[i]) == 0) {
            *out = (record_kind)i;
            return true;
        }
    return false;
}

/* Returns the JSON of a line whose CRC matches, or NULL. */
static const char *find_checked_body(const char *line, size_t size)
{
    uint32_t check = 0;
    if (size <= CHECK_DIGITS + 1 || size > LINE_LIMIT || line[CHECK_DIGITS] != ' ')
        return NULL;
    for (int i = 0; i < CHECK_DIGITS; i++) {
        const char *digit = strchr("0123456789abcdef", line[i]);
        if (!digit || !*digit)
            return NULL;
        check = check << 4 | (uint32_t)(digit - "0123456789abcdef");
    }
    const char *body = line + CHECK_DIGITS + 1;
    return tuff__crc32(body, size - CHECK_DIGITS - 1) == check ? body : NULL;
}

/* Reads any JSON: lines of other versions, or written by other tools. */
static tuff_status read_json(const char *body, size_t size, arena *texts, tune_record *out, line_state *state)
{
    json_t *object = NULL;
    *out = tuff__empty_record;
    const tuff_status status = tuff__json_parse(body, size, &object);
    if (status != TUFF_OK)
        return status == TUFF_E_OOM_HOST ? status : TUFF_OK;
    reader from = {.object = object, .texts = texts};
    if (find_kind(object, &out->kind)) {
        read_object(&from, out);
        *state = from.damaged ? LINE_MALFORMED : LINE_GOOD;
    } else {
        *state = LINE_UNKNOWN;
    }
    json_decref(object);
    return from.out_of_memory ? TUFF_E_OOM_HOST : TUFF_OK;
}

/* at: the next character to read. mismatch: the line does not have the form that this parser reads. */
typedef struct cursor {
    char *at;
    bool mismatch;
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
    from->mismatch |= !skip(from, wanted);
}

/* Reads the text after an opening quote, and terminates it at its closing quote. */
static char *parse_text(cursor *from)
{
    char *begin = from->at, *end = begin;
    while (*end >= 0x20 && *end < 0x7f && *end != '"' && *end != '\\')
        end++;
    from->mismatch |= *end != '"';
    if (from->mismatch)
        return begin;
    *end = 0;
    from->at = end + 1;
    return begin;
}

static uint64_t parse_number(cursor *from)
{
    uint64_t value = 0;
    const size_t digits = strspn(from->at, "0123456789");
    from->mismatch |= digits == 0 || digits > NUMBER_DIGITS || (from->at[0] == '0' && digits > 1);
    for (size_t i = 0; i < digits && !from->mismatch; i++)
        value = 10 * value + (uint64_t)(from->at[i] - '0');
    from->at += digits;
    return value;
}

/* Optional members: if one is missing, the record keeps the value that it has. */
static void parse_optional_text(cursor *from, const char *name, const char **out)
{
    if (skip(from, name))
        *out = parse_text(from);
}

static void parse_optional_number(cursor *from, const char *name, uint64_t *out)
{
    if (skip(from, name))
        *out = parse_number(from);
}

static hash128 parse_hash(cursor *from, const char *name)
{
    hash128 out = {0};
    expect(from, name);
    if (from->mismatch)
        return out;
    const char *digits = parse_text(from);
    from->mismatch |= strlen(digits) != HASH_DIGITS || !read_hash(digits, &out);
    return out;
}

static void parse_win(cursor *from, tune_record *out)
{
    expect(from, ",\"ns\":[");
    for (int i = 0; i < 3; i++) {
        if (i > 0)
            expect(from, ",");
        out->nanoseconds[i] = parse_number(from);
    }
    expect(from, "]");
    parse_optional_number(from, ",\"n\":", &out->samples);
    parse_optional_number(from, ",\"def\":", &out->default_nanoseconds);
    expect(from, ",\"top\":[");
    for (int i = 0; i < RUNNERS_UP && skip(from, i > 0 ? ",\"" : "\""); i++)
        out->runners_up[i] = parse_text(from);
    expect(from, "]");
    parse_optional_text(from, ",\"cold\":\"", &out->cold);
    parse_optional_number(from, ",\"bud\":", &out->budget_milliseconds);
    parse_optional_text(from, ",\"end\":\"", &out->end);
    parse_optional_text(from, ",\"src\":\"", &out->source);
    parse_optional_text(from, ",\"lib\":\"", &out->library);
    if (!skip(from, ",\"all\":["))
        return;
    out->timed = parse_number(from);
    for (int i = 0; i < SPREAD; i++) {
        expect(from, ",");
        out->spread[i] = parse_number(from);
    }
    expect(from, "]");
}

static void parse_members(cursor *from, tune_record *out)
{
    out->key = parse_hash(from, ",\"k\":\"");
    parse_optional_text(from, ",\"op\":\"", &out->op);
    parse_optional_text(from, ",\"kgen\":\"", &out->kernel_hash);
    expect(from, ",\"c\":\"");
    out->candidate = parse_text(from);
    if (out->kind == RECORD_WIN)
        parse_win(from, out);
    parse_optional_text(from, out->kind == RECORD_PIN ? ",\"by\":\"" : ",\"why\":\"", &out->reason);
    parse_optional_text(from, ",\"ph\":\"", &out->phase);
    parse_optional_number(from, ",\"ts\":", &out->time);
    from->mismatch |= !tuff__is_same_hash(out->key, tuff__hash_text(out->op));
}

/* Reads the JSON of a line whose members are exactly those of its kind, in the order of record.h, in plain ASCII. out
   must be an empty record. Texts are not copied: body and one byte after it must be writable, and live as long as the
   record. Returns false if the line has another form; body and out are changed in that case too. */
static bool parse_canonical(char *body, size_t size, tune_record *out)
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
    out->environment = parse_hash(&from, ",\"e\":\"");
    if (out->kind == RECORD_ENVIRONMENT) {
        parse_optional_text(&from, ",\"text\":\"", &out->op);
        from.mismatch |= !tuff__is_same_hash(out->environment, tuff__hash_text(out->op));
    } else {
        parse_members(&from, out);
    }
    expect(&from, "}");
    return !from.mismatch && from.at == body + size;
}

/* Replaces former names of tunables in a candidate by their current names, because candidates are compared as texts. */
static tuff_status rename_candidate(arena *texts, const char **candidate)
{
    tune_config config;
    text name = {0};
    if (!tuff__has_former_name(*candidate) || tuff__config_parse(*candidate, &config) != TUFF_OK)
        return TUFF_OK;
    tuff__config_format(&config, &name);
    const tuff_status status = tuff__text_status(&name);
    const char *copy = status == TUFF_OK ? tuff__arena_strdup(texts, tuff__text_get(&name)) : NULL;
    tuff__text_free(&name);
    if (copy == NULL)
        return TUFF_E_OOM_HOST;
    *candidate = copy;
    return TUFF_OK;
}

tuff_status tuff__record_read(const char *line, size_t size, arena *texts, tune_record *out, line_state *state)
{
    const char *body = find_checked_body(line, size);
    *state = LINE_DAMAGED;
    *out = tuff__empty_record;
    if (!body)
        return TUFF_OK;
    *state = LINE_MALFORMED;
    size -= CHECK_DIGITS + 1;
    char *copy = tuff__arena_alloc(texts, size + 1);
    if (!copy)
        return TUFF_E_OOM_HOST;
    memcpy(copy, body, size);
    if (parse_canonical(copy, size, out))
        *state = LINE_GOOD;
    else
        TRY(read_json(body, size, texts, out, state));
    for (size_t i = 0; i < RUNNERS_UP; i++)
        TRY(rename_candidate(texts, &out->runners_up[i]));
    return rename_candidate(texts, &out->candidate);
}

bool tuff__record_is_result(record_kind kind)
{
    return kind == RECORD_WIN || kind == RECORD_REJECTION;
}

bool tuff__record_is_seed(const tune_record *win)
{
    return strcmp(win->source, "seed") == 0;
}

static bool has_same_kernel(const tune_record *later, const tune_record *earlier)
{
    return later->kind == RECORD_WIN && strcmp(later->kernel_hash, earlier->kernel_hash) == 0;
}

bool tuff__record_is_foreign(const tune_record *later, const tune_record *earlier)
{
    return has_same_kernel(later, earlier) && strcmp(earlier->source, "live") == 0 &&
           strcmp(later->source, "live") != 0;
}

bool tuff__record_is_weaker(const tune_record *later, const tune_record *earlier)
{
    return tuff__record_is_foreign(later, earlier) ||
           (has_same_kernel(later, earlier) && 2 * later->samples < earlier->samples);
}
