/* Records as lines: the quick parser and the JSON parser agree on every line, and no control characters are
   accepted. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc.h"
#include "tunedb/record.h"

static void checks_are_those_of_the_standard(void **state)
{
    (void)state;
    static const char digits[] = "123456789123456789";
    assert_int_equal(tuff__crc32("", 0), 0);
    assert_int_equal(tuff__crc32(digits, 9), 0xcbf43926);
    /* All lengths around the width of a step, against a bitwise computation. */
    for (size_t size = 0; size < sizeof digits; size++) {
        uint32_t rest = 0xffffffffu;
        for (size_t i = 0; i < size; i++) {
            rest ^= (unsigned char)digits[i];
            for (int bit = 0; bit < 8; bit++)
                rest = rest >> 1 ^ (rest & 1 ? 0xedb88320u : 0);
        }
        assert_int_equal(tuff__crc32(digits, size), ~rest);
    }
}

static const tune_record full = {.kind = RECORD_WIN,
                                 .environment = {1, 2},
                                 .op = "matmul of a test",
                                 .kernel_hash = "c31e",
                                 .candidate = "a=1;b=2",
                                 .nanoseconds = {0, 1100, 999999999999999999},
                                 .samples = 20,
                                 .default_nanoseconds = 2000,
                                 .runners_up = {"a=4", "a=5", ""},
                                 .cold = "w",
                                 .end = "patience",
                                 .budget_milliseconds = 3100,
                                 .source = "live",
                                 .library = "0.1.0",
                                 .timed = 23,
                                 .spread = {900, 1000, 0, 2000, 999999999999999999},
                                 .reason = "",
                                 .phase = "",
                                 .time = 1800000000};

static tune_record record_of(record_kind kind)
{
    tune_record out = full;
    out.key = tuff__hash_text(out.op);
    out.kind = kind;
    if (kind == RECORD_ENVIRONMENT)
        out.environment = tuff__hash_text(out.op);
    if (kind == RECORD_REJECTION || kind == RECORD_PIN) {
        out.reason = "wrong";
        out.phase = kind == RECORD_REJECTION ? "verify" : "";
    }
    return out;
}

/* Reads a line with a correct check around a body. */
static line_state read_body(const char *body, arena *texts, tune_record *out)
{
    text line = {0};
    line_state found;
    tuff__text_add(&line, "%08x %s", (unsigned)tuff__crc32(body, strlen(body)), body);
    assert_int_equal(tuff__text_status(&line), TUFF_OK);
    assert_int_equal(tuff__record_read(tuff__text_get(&line), line.length, texts, out, &found), TUFF_OK);
    tuff__text_free(&line);
    return found;
}

static void expect_same(const tune_record *a, const tune_record *b)
{
    const char *const first[] = {a->op,    a->kernel_hash,   a->candidate,     a->cold,
                                 a->end,   a->source,        a->library,       a->reason,
                                 a->phase, a->runners_up[0], a->runners_up[1], a->runners_up[2]};
    const char *const second[] = {b->op,    b->kernel_hash,   b->candidate,     b->cold,
                                  b->end,   b->source,        b->library,       b->reason,
                                  b->phase, b->runners_up[0], b->runners_up[1], b->runners_up[2]};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        assert_string_equal(first[i], second[i]);
    assert_int_equal(a->kind, b->kind);
    assert_true(tuff__is_same_hash(a->key, b->key) && tuff__is_same_hash(a->environment, b->environment));
    assert_memory_equal(a->nanoseconds, b->nanoseconds, sizeof a->nanoseconds);
    assert_true(a->samples == b->samples && a->default_nanoseconds == b->default_nanoseconds && a->time == b->time &&
                a->budget_milliseconds == b->budget_milliseconds && a->timed == b->timed);
    assert_memory_equal(a->spread, b->spread, sizeof a->spread);
}

/* A space that JSON allows makes the slow JSON parser read a body. Returns whether the body is good. */
static bool expect_agreement(const char *body)
{
    arena texts = {0};
    tune_record quick, slow;
    char spaced[2064];
    if (body[0] != '{')
        return false;
    snprintf(spaced, sizeof spaced, "{ %.2047s", body + 1);
    const line_state a = read_body(body, &texts, &quick), b = read_body(spaced, &texts, &slow);
    assert_int_equal(a, b);
    if (a == LINE_GOOD)
        expect_same(&quick, &slow);
    tuff__arena_free(&texts);
    return a == LINE_GOOD;
}

static void both_parsers_agree(void **state)
{
    (void)state;
    int good = 0;
    for (int kind = RECORD_ENVIRONMENT; kind <= RECORD_PIN; kind++) {
        const tune_record record = record_of((record_kind)kind);
        text line = {0};
        assert_int_equal(tuff__record_write(&record, &line), TUFF_OK);
        char body[2048];
        snprintf(body, sizeof body, "%s", tuff__text_get(&line) + 9);
        body[strlen(body) - 1] = 0;
        tuff__text_free(&line);
        assert_true(expect_agreement(body));
        static const char others[] = "0aZ\"\\{}[],: -.\x01\x7f\xc3";
        for (size_t i = 0, size = strlen(body); i < size; i++) {
            const char was = body[i];
            for (size_t k = 0; k < sizeof others; k++) { /* the last is the terminating 0 */
                body[i] = others[k];
                good += expect_agreement(body);
            }
            body[i] = was;
        }
    }
    assert_true(good > 100); /* changes of meaningless digits and letters */
}

static void records_come_back_whole(void **state)
{
    (void)state;
    for (int kind = RECORD_WIN; kind <= RECORD_PIN; kind++) {
        tune_record record = record_of((record_kind)kind), read;
        arena texts = {0};
        text line = {0};
        line_state found;
        if (kind == RECORD_PIN)
            record.candidate = "";
        assert_int_equal(tuff__record_write(&record, &line), TUFF_OK);
        assert_int_equal(tuff__record_read(tuff__text_get(&line), line.length - 1, &texts, &read, &found), TUFF_OK);
        assert_int_equal(found, LINE_GOOD);
        assert_string_equal(read.candidate, record.candidate);
        assert_string_equal(read.op, record.op);
        assert_int_equal(read.time, record.time);
        if (kind == RECORD_WIN)
            expect_same(&read, &record);
        tuff__text_free(&line);
        tuff__arena_free(&texts);
    }
}

/* Lines of an earlier version, which lack the distribution of the candidates' times, and malformed ones with a part of
   it. */
static void older_lines_are_read(void **state)
{
    (void)state;
    tune_record record = record_of(RECORD_WIN), found;
    text line = {0};
    arena texts = {0};
    char body[2048];
    assert_int_equal(tuff__record_write(&record, &line), TUFF_OK);
    (void)snprintf(body, sizeof body, "%s", tuff__text_get(&line) + 9);
    tuff__text_free(&line);
    char *all = strstr(body, ",\"all\":["), *rest = all ? strchr(all, ']') : NULL;
    assert_non_null(rest);
    char tail[64];
    (void)snprintf(tail, sizeof tail, "%.*s", (int)strcspn(rest + 1, "\n"), rest + 1);
    (void)snprintf(all, sizeof body - (size_t)(all - body), "%s", tail);
    assert_int_equal(read_body(body, &texts, &found), LINE_GOOD);
    record.timed = 0;
    memset(record.spread, 0, sizeof record.spread);
    expect_same(&record, &found);
    (void)snprintf(all, sizeof body - (size_t)(all - body), ",\"all\":[3,1,2,3]%s", tail);
    assert_int_equal(read_body(body, &texts, &found), LINE_MALFORMED);
    tuff__arena_free(&texts);
}

/* JSON of other tools: numbers that a line of record.h cannot have, and other members in place of arrays. */
static void numbers_out_of_range_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *member;
        line_state wanted;
    } cases[] = {{"\"ts\":5", LINE_GOOD},
                 {"\"ts\":-5", LINE_MALFORMED},
                 {"\"ts\":999999999999999999", LINE_GOOD},
                 {"\"ts\":1000000000000000000", LINE_MALFORMED},
                 {"\"ts\":5,\"top\":{}", LINE_MALFORMED},
                 {"\"ts\":5,\"top\":[]", LINE_GOOD}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const hash128 key = tuff__hash_text("op");
        arena texts = {0};
        tune_record found;
        char body[512];
        (void)snprintf(body, sizeof body,
                       "{\"t\": \"win\",\"e\":\"%016" PRIx64 "%016" PRIx64 "\",\"k\":\"%016" PRIx64 "%016" PRIx64
                       "\",\"op\":\"op\",\"c\":\"\",\"ns\":[1,2,3],%s}",
                       key.high, key.low, key.high, key.low, cases[i].member);
        assert_int_equal(read_body(body, &texts, &found), cases[i].wanted);
        tuff__arena_free(&texts);
    }
}

/* Candidates with names of an earlier version get today's names, by which records are compared. */
static void former_candidates_have_todays_names(void **state)
{
    (void)state;
    for (record_kind kind = RECORD_WIN; kind <= RECORD_PIN; kind++) {
        tune_record record = record_of(kind), found;
        text line = {0};
        arena texts = {0};
        record.candidate = "map.stream_mebibytes=16;map.local_size=8";
        record.runners_up[1] = "map.stream_mebibytes=32";
        assert_int_equal(tuff__record_write(&record, &line), TUFF_OK);
        char body[2048];
        (void)snprintf(body, sizeof body, "%s", tuff__text_get(&line) + 9);
        body[strcspn(body, "\n")] = 0;
        assert_int_equal(read_body(body, &texts, &found), LINE_GOOD);
        assert_string_equal(found.candidate, "map.local_size=8;map.nontemporal_mib=16");
        if (kind == RECORD_WIN)
            assert_string_equal(found.runners_up[1], "map.nontemporal_mib=32");
        assert_true(expect_agreement(body));
        tuff__text_free(&line);
        tuff__arena_free(&texts);
    }
}

static void texts_that_move_the_cursor_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *op;
        line_state wanted;
    } cases[] = {{"plain", LINE_GOOD},
                 {"\xc3\xa9t\xc3\xa9", LINE_GOOD},
                 {"a\\b\"c", LINE_GOOD},
                 {"red \x1b[31m", LINE_MALFORMED},
                 {"two\nlines", LINE_MALFORMED},
                 {"del\x7f", LINE_MALFORMED},
                 {"csi \xc2\x9b", LINE_MALFORMED}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tune_record record = record_of(RECORD_REJECTION), read;
        arena texts = {0};
        text line = {0};
        line_state found;
        record.op = cases[i].op;
        record.key = tuff__hash_text(record.op);
        assert_int_equal(tuff__record_write(&record, &line), TUFF_OK);
        assert_int_equal(tuff__record_read(tuff__text_get(&line), line.length - 1, &texts, &read, &found), TUFF_OK);
        assert_int_equal(found, cases[i].wanted);
        if (found == LINE_GOOD)
            assert_string_equal(read.op, record.op);
        tuff__text_free(&line);
        tuff__arena_free(&texts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checks_are_those_of_the_standard),
        cmocka_unit_test(records_come_back_whole),
        cmocka_unit_test(both_parsers_agree),
        cmocka_unit_test(older_lines_are_read),
        cmocka_unit_test(numbers_out_of_range_are_refused),
        cmocka_unit_test(former_candidates_have_todays_names),
        cmocka_unit_test(texts_that_move_the_cursor_are_refused),
    };
    return cmocka_run_group_tests_name("tune_record", tests, NULL, NULL);
}
