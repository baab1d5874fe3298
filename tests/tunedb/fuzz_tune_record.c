/* libFuzzer target for what the tuner reads from files. An input is the JSON of a line, to which a check is added: both
   parsers must agree on it, and a good record must survive being written and read again. It is also parsed as a key, an
   environment and a candidate, which must convert back to the same text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "kernels/config.h"
#include "tunedb/environment.h"
#include "tunedb/key.h"
#include "tunedb/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *subject)
{
    if (!holds) {
        fprintf(stderr, "fuzz_tune_record: %s; last error: %s\n", subject, tuff_error());
        abort();
    }
}

static line_state read_body(const text *body, arena *texts, tune_record *out)
{
    text line = {0};
    line_state state;
    tuff__text_add(&line, "%08x ", (unsigned)tuff__crc32(tuff__text_get(body), body->length));
    tuff__text_add_bytes(&line, tuff__text_get(body), body->length);
    require(tuff__record_read(tuff__text_get(&line), line.length, texts, out, &state) == TUFF_OK, "no memory");
    tuff__text_free(&line);
    return state;
}

static void write_line(const tune_record *record, text *out)
{
    require(tuff__record_write(record, out) == TUFF_OK, "a record that was read is not written");
}

static void check_key(const char *source)
{
    tune_key key;
    if (tuff__key_parse(source, &key) == TUFF_OK)
        require(strcmp(KEY_TEXT(&key), source) == 0, "a key gives another text");
}

static void check_environment(const char *source)
{
    tune_environment read, again;
    if (tuff__environment_parse(source, &read) == TUFF_OK)
        require(tuff__environment_parse(ENVIRONMENT_TEXT(&read), &again) == TUFF_OK &&
                    strcmp(ENVIRONMENT_TEXT(&read), ENVIRONMENT_TEXT(&again)) == 0,
                "an environment does not come back");
}

static void check_candidate(const char *source)
{
    tune_config read, again;
    if (tuff__config_parse(source, &read) != TUFF_OK)
        return;
    text canonical = {0};
    tuff__config_format(&read, &canonical);
    require(tuff__config_parse(tuff__text_get(&canonical), &again) == TUFF_OK && tuff__config_equal(&read, &again),
            "a candidate does not come back");
    tuff__text_free(&canonical);
}

static void check_good(const tune_record *quick, const tune_record *slow, arena *texts)
{
    text first = {0}, second = {0}, third = {0};
    tune_record again;
    line_state state;
    write_line(quick, &first);
    write_line(slow, &second);
    require(strcmp(tuff__text_get(&first), tuff__text_get(&second)) == 0, "the parsers read different records");
    require(tuff__record_read(tuff__text_get(&first), first.length - 1, texts, &again, &state) == TUFF_OK &&
                state == LINE_GOOD,
            "a written record is refused");
    write_line(&again, &third);
    require(strcmp(tuff__text_get(&first), tuff__text_get(&third)) == 0, "writing twice gives different lines");
    tuff__text_free(&first);
    tuff__text_free(&second);
    tuff__text_free(&third);
}

static void check_body(const text *plain)
{
    arena texts = {0};
    text spaced = {0};
    tune_record quick, slow;
    /* A space that JSON allows but the quick parser does not expect. */
    tuff__text_add(&spaced, "{ ");
    tuff__text_add_bytes(&spaced, plain->data + 1, plain->length - 1);
    const line_state state = read_body(plain, &texts, &quick);
    require(state == read_body(&spaced, &texts, &slow), "the parsers disagree");
    if (state == LINE_GOOD)
        check_good(&quick, &slow, &texts);
    tuff__text_free(&spaced);
    tuff__arena_free(&texts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    text input = {0};
    if (size == 0 || size > 8192)
        return 0;
    tuff__text_add_bytes(&input, (const char *)data, size);
    if (data[0] == '{')
        check_body(&input);
    check_key(tuff__text_get(&input));
    check_environment(tuff__text_get(&input));
    check_candidate(tuff__text_get(&input));
    tuff__text_free(&input);
    return 0;
}
