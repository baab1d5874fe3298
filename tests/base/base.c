/* Memory, arithmetic, texts, errors, the log, shapes and hashes: the basis of everything else. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/hash.h"
#include "base/library.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"
#include "failing_memory.h"

static void sums_and_products_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    size_t size = 7;
    assert_true(tuff__add_size(SIZE_MAX - 1, 1, &size) && size == SIZE_MAX);
    assert_false(tuff__add_size(SIZE_MAX, 1, &size));
    assert_true(tuff__mul_size(SIZE_MAX, 1, &size) && size == SIZE_MAX);
    assert_true(tuff__mul_size(SIZE_MAX, 0, &size) && size == 0);
    size = 7;
    assert_false(tuff__mul_size(SIZE_MAX / 2 + 1, 2, &size));
    assert_int_equal(size, 7);
    uint64_t aligned = 7;
    assert_true(tuff__align_u64(UINT64_MAX - 15, 16, &aligned) && aligned == UINT64_MAX - 15);
    assert_true(tuff__align_u64(17, 12, &aligned) && aligned == 24);
    assert_false(tuff__align_u64(UINT64_MAX - 14, 16, &aligned));
    assert_int_equal(aligned, 24);
}

/* Compared with 128-bit arithmetic, for all pairs of boundary values. */
static void signed_arithmetic_agrees_with_wider_arithmetic(void **state)
{
    (void)state;
    static const int64_t values[] = {0,
                                     1,
                                     -1,
                                     2,
                                     -2,
                                     3,
                                     -3,
                                     1LL << 31,
                                     -(1LL << 31),
                                     1LL << 32,
                                     INT64_MAX,
                                     INT64_MIN,
                                     INT64_MAX - 1,
                                     INT64_MIN + 1,
                                     INT64_MAX / 2,
                                     INT64_MIN / 2,
                                     INT64_MAX / 2 + 1,
                                     3037000499,
                                     3037000500,
                                     -3037000500,
                                     INT64_MAX / 3,
                                     INT64_MIN / 3};
    const size_t count = sizeof values / sizeof values[0];
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++) {
            __extension__ typedef __int128 wide;
            wide sum = (wide)values[i] + values[j], product = (wide)values[i] * values[j];
            int64_t out = 77;
            bool fits = sum >= INT64_MIN && sum <= INT64_MAX;
            assert_int_equal(tuff__add_i64(values[i], values[j], &out), fits);
            assert_true(out == (fits ? (int64_t)sum : 77));
            out = 77;
            fits = product >= INT64_MIN && product <= INT64_MAX;
            assert_int_equal(tuff__mul_i64(values[i], values[j], &out), fits);
            assert_true(out == (fits ? (int64_t)product : 77));
        }
}

static void impossible_requests_for_memory_are_errors(void **state)
{
    (void)state;
    assert_null(tuff__alloc(SIZE_MAX));
    assert_int_equal(tuff_last_status(), TUFF_E_OOM_HOST);
    assert_null(tuff__calloc(SIZE_MAX / 2, 3));
    assert_null(tuff__realloc_array(NULL, SIZE_MAX / 2, 3));
    void *empty = tuff__alloc(0), *none = tuff__calloc(0, 8);
    assert_non_null(empty);
    assert_non_null(none);
    tuff__free(empty);
    tuff__free(none);
    tuff__free(NULL);
}

static void arrays_grow_and_keep_their_elements(void **state)
{
    (void)state;
    double *items = NULL;
    int count = 0, capacity = 0;
    for (int i = 0; i < 1000; i++) {
        assert_true(GROW(items, count, capacity));
        items[count++] = i;
    }
    for (int i = 0; i < count; i++)
        assert_true(items[i] == i);
    tuff__free(items);
    int full = INT32_MAX - 1;
    items = NULL;
    assert_false(tuff__grow((void **)&items, &full, 1));
    assert_int_equal(full, INT32_MAX - 1);
}

static void an_array_that_cannot_grow_stays_as_it_was(void **state)
{
    (void)state;
    int *items = NULL, count = 0, capacity = 0;
    failing_memory_begin(2, true);
    while (count < 8) {
        assert_true(GROW(items, count, capacity));
        items[count] = count;
        count++;
    }
    assert_false(GROW(items, count, capacity));
    assert_int_equal(capacity, 8);
    assert_int_equal(items[7], 7);
    tuff__free(items);
    assert_int_equal(failing_memory_live(), 0);
    assert_true(failing_memory_end());
}

static void arena_memory_is_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    arena memory = {0};
    unsigned char *blocks[200];
    for (size_t i = 0; i < 200; i++) {
        size_t size = i % 7 == 0 ? 30000 : i * 5;
        blocks[i] = tuff__arena_alloc(&memory, size);
        assert_non_null(blocks[i]);
        assert_true((uintptr_t)blocks[i] % _Alignof(max_align_t) == 0);
        for (size_t j = 0; j < size; j++)
            assert_int_equal(blocks[i][j], 0);
        memset(blocks[i], (int)i + 1, size);
    }
    for (size_t i = 0; i < 200; i++)
        for (size_t j = 0; j < (i % 7 == 0 ? 30000 : i * 5); j++)
            assert_int_equal(blocks[i][j], (unsigned char)(i + 1));
    assert_string_equal(tuff__arena_strdup(&memory, "text"), "text");
    assert_null(tuff__arena_alloc(&memory, SIZE_MAX));
    assert_null(tuff__arena_alloc(&memory, SIZE_MAX - 64));
    tuff__arena_free(&memory);
    assert_null(memory.blocks);
}

/* A large request does not discard the rest of the current block. */
static void arenas_do_not_waste_blocks(void **state)
{
    (void)state;
    arena memory = {0};
    failing_memory_begin(0, false);
    for (int i = 0; i < 8; i++) {
        assert_non_null(tuff__arena_alloc(&memory, 64));
        assert_non_null(tuff__arena_alloc(&memory, 20000));
    }
    assert_int_equal(failing_memory_requests(), 9);
    tuff__arena_free(&memory);
    assert_int_equal(failing_memory_live(), 0);
    failing_memory_end();
}

static void texts_grow(void **state)
{
    (void)state;
    text line = {0};
    assert_string_equal(tuff__text_get(&line), "");
    tuff__text_add(&line, "%s", "");
    assert_string_equal(tuff__text_get(&line), "");
    char expected[1024] = "";
    size_t used = 0;
    for (int i = 0; i < 200; i++) {
        tuff__text_add(&line, "%d,", i);
        used += (size_t)snprintf(expected + used, sizeof expected - used, "%d,", i);
    }
    tuff__text_add_bytes(&line, "ab\0cd", 5);
    assert_int_equal(line.length, used + 5);
    assert_memory_equal(line.data, expected, used);
    assert_memory_equal(line.data + used, "ab\0cd", 6);
    assert_int_equal(tuff__text_status(&line), TUFF_OK);
    tuff__text_clear(&line);
    assert_string_equal(tuff__text_get(&line), "");
    tuff__text_free(&line);
    assert_null(line.data);
}

static void json_strings_are_utf8(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"", "\"\""},
        {"a \"b\" \\ c", "\"a \\\"b\\\" \\\\ c\""},
        {"\n\x1f\x7f", "\"\\u000a\\u001f\\u007f\""},
        {"gr\xc3\xb6n \xe2\x84\xa2 \xf0\x9f\x99\x82", "\"gr\xc3\xb6n \xe2\x84\xa2 \xf0\x9f\x99\x82\""},
        {"Intel\xae", "\"Intel\\u00ae\""},    /* Latin-1 */
        {"\xae \xc3", "\"\\u00ae \\u00c3\""}, /* cut */
        {"\xe2\x84\"", "\"\\u00e2\\u0084\\\"\""},
        {"\xc0\xaf \xed\xa0\x80", "\"\\u00c0\\u00af \\u00ed\\u00a0\\u0080\""}, /* overlong, a surrogate */
        {"\xf8\x90\x80\x80 \xf4\x90\x80\x80",
         "\"\\u00f8\\u0090\\u0080\\u0080 \\u00f4\\u0090\\u0080\\u0080\""}, /* beyond the last character */
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        text out = {0};
        tuff__text_add_json(&out, pairs[i][0]);
        assert_string_equal(tuff__text_get(&out), pairs[i][1]);
        tuff__text_free(&out);
    }
}

static void a_failed_text_stays_as_it_was_until_cleared(void **state)
{
    (void)state;
    text line = {0};
    failing_memory_begin(2, false);
    tuff__text_add(&line, "kept");
    tuff__text_add(&line, "%0100d", 1);
    assert_true(line.failed);
    tuff__text_add(&line, "x");
    tuff__text_add_bytes(&line, "y", 1);
    assert_string_equal(tuff__text_get(&line), "kept");
    assert_int_equal(tuff__text_status(&line), TUFF_E_OOM_HOST);
    tuff__text_clear(&line);
    tuff__text_add(&line, "%0100d", 1);
    assert_int_equal(line.length, 100);
    assert_int_equal(tuff__text_status(&line), TUFF_OK);
    tuff__text_free(&line);
    assert_int_equal(failing_memory_live(), 0);
    assert_true(failing_memory_end());
}

static void texts_are_cut_to_one_line(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"two\nlines\r\n", "two lines"},
        {"\x1b[31mred\x7f!", " [31mred !"},
        {"caf\xc3\xa9", "caf\xc3\xa9"},
        {"cut \xc3", "cut"},
        {"cut\xe2\x82", "cut"},
        {"cut\xf0\x9f\x98", "cut"},
        {"whole\xf0\x9f\x98\x80", "whole\xf0\x9f\x98\x80"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char line[64];
        (void)snprintf(line, sizeof line, "%s", cases[i].from);
        tuff__text_one_line(line);
        assert_string_equal(line, cases[i].to);
    }
}

static void messages_are_one_bounded_line(void **state)
{
    (void)state;
    char wide[3000];
    memset(wide, 'a', sizeof wide - 1);
    wide[sizeof wide - 1] = 0;
    assert_int_equal(FAIL(TUFF_E_SHAPE, "first %d\nsecond %s", 1, wide), TUFF_E_SHAPE);
    assert_int_equal(strlen(tuff_error()), TUFF_ERROR_SIZE - 1);
    assert_memory_equal(tuff_error(), "first 1 second aaa", 18);
    assert_int_equal(tuff_last_status(), TUFF_E_SHAPE);
    (void)FAIL(TUFF_E_IO, "inner");
    (void)FAIL(TUFF_E_FORMAT, "outer: %s", tuff_error());
    assert_string_equal(tuff_error(), "outer: inner");
    (void)FAIL(TUFF_E_NUMERIC, "%s", "");
    assert_string_equal(tuff_error(), "numerical error");
}

static void *fail_elsewhere(void *seen)
{
    *(bool *)seen = tuff_error()[0] == 0 && tuff_last_status() == TUFF_OK;
    (void)FAIL(TUFF_E_TIMEOUT, "from the other thread");
    return NULL;
}

static void each_thread_has_its_own_message(void **state)
{
    (void)state;
    (void)FAIL(TUFF_E_USAGE, "from this thread");
    pthread_t thread;
    bool empty = false;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &empty), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(empty);
    assert_string_equal(tuff_error(), "from this thread");
    assert_int_equal(tuff_last_status(), TUFF_E_USAGE);
}

static void statuses_and_dtypes_have_names(void **state)
{
    (void)state;
    assert_string_equal(tuff_status_name(TUFF_OK), "TUFF_OK");
    assert_string_equal(tuff_status_name(TUFF_E_NUMERIC), "TUFF_E_NUMERIC");
    assert_string_equal(tuff_status_name((tuff_status)99), "TUFF_E_UNKNOWN");
    assert_string_equal(tuff_status_name((tuff_status)-1), "TUFF_E_UNKNOWN");
    assert_string_equal(tuff_dtype_name(TUFF_BF16), "bf16");
    assert_string_equal(tuff_dtype_name((tuff_dtype)77), "unknown");
    assert_int_equal(tuff_dtype_size(TUFF_BOOL), 1);
    assert_int_equal(tuff_dtype_size(TUFF_I64), 8);
    assert_int_equal(tuff_dtype_size((tuff_dtype)-5), 0);
    char version[32];
    (void)snprintf(version, sizeof version, "%d.%d.%d", TUFF_VERSION_MAJOR, TUFF_VERSION_MINOR, TUFF_VERSION_PATCH);
    assert_string_equal(tuff_version(), version);
}

static void shapes_are_counted_and_compared(void **state)
{
    (void)state;
    assert_int_equal(tuff_shape_count(TUFF_SCALAR), 1);
    assert_int_equal(tuff_shape_count(TUFF_SHAPE(2, 3, 4)), 24);
    assert_int_equal(tuff_shape_count(TUFF_SHAPE(2, 0, 4)), 0);
    assert_int_equal(tuff_shape_count(TUFF_SHAPE(2, -1)), -1);
    assert_int_equal(tuff_shape_count(TUFF_SHAPE(1LL << 32, 1LL << 32)), -1);
    assert_int_equal(tuff_shape_count(TUFF_SHAPE(1LL << 32, 1LL << 32, 0)), -1);
    assert_int_equal(tuff_shape_count(TUFF_SHAPE(0, 1LL << 32, 1LL << 32)), -1);
    assert_true(tuff_shape_count(TUFF_SHAPE(INT64_MAX)) == INT64_MAX);
    assert_int_equal(tuff_shape_count((tuff_shape){.rank = 9}), -1);
    assert_int_equal(tuff_shape_count((tuff_shape){.rank = -1}), -1);
    assert_true(tuff_shape_equal(TUFF_SHAPE(2, 3), TUFF_SHAPE(2, 3)));
    assert_false(tuff_shape_equal(TUFF_SHAPE(2, 3), TUFF_SHAPE(3, 2)));
    assert_false(tuff_shape_equal(TUFF_SHAPE(2), TUFF_SHAPE(2, 1)));
    assert_true(tuff_shape_equal(TUFF_SCALAR, TUFF_SCALAR));
}

static void shapes_have_texts(void **state)
{
    (void)state;
    assert_string_equal(SHAPE_TEXT(TUFF_SHAPE(2, 3)), "[2,3]");
    assert_string_equal(SHAPE_TEXT(TUFF_SCALAR), "[]");
    assert_string_equal(SHAPE_TEXT(TUFF_SHAPE(-1)), "[-1]");
    char small[5];
    assert_string_equal(tuff__shape_text(TUFF_SHAPE(100, 200), small, sizeof small), "[100");
    tuff_shape wrong = {.rank = 1000};
    assert_string_equal(SHAPE_TEXT(wrong), "[0,0,0,0,0,0,0,0]");
}

/* The reference values of xxHash for empty input; and every byte and the seed affect the hash. */
static void hashes_are_those_of_xxh3(void **state)
{
    (void)state;
    hash128 empty = tuff__hash("", 0);
    assert_true(empty.low == 0x6001c324468d497fULL && empty.high == 0x99aa06d3014798d8ULL);
    assert_true(tuff__hash64("", 0, 0) == 0x2d06800538d394c2ULL);
    unsigned char bytes[300] = {0};
    hash128 before = tuff__hash(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] ^= 1;
        hash128 after = tuff__hash(bytes, sizeof bytes);
        assert_false(after.low == before.low || after.high == before.high);
        bytes[i] ^= 1;
    }
    assert_true(tuff__hash64(bytes, sizeof bytes, 1) != tuff__hash64(bytes, sizeof bytes, 2));
}

typedef struct log_record {
    int count;
    tuff_log_level level;
    char line[5000];
} log_record;

static void record_message(void *user, tuff_log_level level, const char *line)
{
    log_record *recorded = user;
    recorded->count++;
    recorded->level = level;
    (void)snprintf(recorded->line, sizeof recorded->line, "%s", line);
    /* The callback may call the library. */
    if (recorded->count == 1)
        tuff__log(TUFF_LOG_DEBUG, "again %d", recorded->count);
}

static void the_log_reaches_its_callback_in_lines(void **state)
{
    (void)state;
    static log_record recorded;
    tuff__log(TUFF_LOG_ERROR, "nobody hears this");
    tuff_set_log(record_message, &recorded);
    tuff__log(TUFF_LOG_WARNING, "one\ntwo %d\n", 3);
    assert_int_equal(recorded.count, 2);
    assert_int_equal(recorded.level, TUFF_LOG_DEBUG);
    assert_string_equal(recorded.line, "again 1");
    tuff__log(TUFF_LOG_WARNING, "one\ntwo %d\n", 3);
    assert_int_equal(recorded.level, TUFF_LOG_WARNING);
    assert_string_equal(recorded.line, "one two 3");
    tuff__log(TUFF_LOG_INFO, "%09999d", 1);
    assert_int_equal(strlen(recorded.line), 4095);
    tuff_set_log(NULL, NULL);
    tuff__log(TUFF_LOG_ERROR, "nobody hears this");
    assert_int_equal(recorded.count, 4);
}

static void libraries_that_are_missing_are_no_error(void **state)
{
    (void)state;
    const char *const none[] = {"libtuff-no-such-library.so.7"};
    assert_null(tuff__library_open(none, 1));
    assert_null(tuff__library_symbol(NULL, "malloc"));
    const char *const names[] = {"libtuff-no-such-library.so.7", "libm.so.6", "libm.so"};
    void *library = tuff__library_open(names, 3);
    assert_non_null(library);
    assert_non_null(tuff__library_symbol(library, "cos"));
    assert_null(tuff__library_symbol(library, "tuff_no_such_symbol"));
}

static void the_clock_and_locks_work(void **state)
{
    (void)state;
    uint64_t before = tuff__nanoseconds();
    (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    assert_true(tuff__nanoseconds() >= before + 2000000);
    mutex lock;
    assert_int_equal(tuff__mutex_create(&lock), 0);
    tuff__lock(&lock);
    assert_int_not_equal(pthread_mutex_trylock(&lock), 0);
    tuff__unlock(&lock);
    assert_int_equal(pthread_mutex_trylock(&lock), 0);
    tuff__unlock(&lock);
    tuff__mutex_destroy(&lock);
}

/* Uses everything in base that allocates memory; returns false on any failure. */
static bool use_memory(void)
{
    arena memory = {0};
    text line = {0};
    int *items = NULL, count = 0, capacity = 0;
    char *copy = tuff__strdup("copy"), *bytes = tuff__memdup("abc", 3), *zeros = tuff__calloc(3, 4);
    char *moved = zeros ? tuff__realloc_array(zeros, 100, 4) : NULL;
    bool done = copy && bytes && moved;
    zeros = moved ? moved : zeros;
    done =
        done && tuff__arena_alloc(&memory, 10) && tuff__arena_alloc(&memory, 20000) && tuff__arena_strdup(&memory, "x");
    for (int i = 0; done && i < 20; i++) {
        done = GROW(items, count, capacity);
        if (done)
            items[count++] = i;
    }
    tuff__text_add(&line, "%0200d", 1);
    done = done && tuff__text_status(&line) == TUFF_OK;
    tuff__text_free(&line);
    tuff__arena_free(&memory);
    tuff__free(items);
    tuff__free(copy);
    tuff__free(bytes);
    tuff__free(zeros);
    return done;
}

static bool use_memory_after_another_error(void)
{
    (void)FAIL(TUFF_E_USAGE, "old message");
    return use_memory();
}

static void expect_new_message(void)
{
    assert_non_null(strstr(tuff_error(), "out of host memory"));
}

static void memory_may_run_out_at_every_request(void **state)
{
    (void)state;
    assert_in_range(fail_each_request(use_memory_after_another_error, expect_new_message), 9, 100);
    assert_true(use_memory());
}

static void an_incomplete_allocator_is_not_used(void **state)
{
    (void)state;
    const tuff_allocator incomplete = {0};
    tuff_set_allocator(&incomplete);
    void *block = tuff__alloc(10);
    assert_non_null(block);
    tuff__free(block);
    tuff_set_allocator(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_products_that_do_not_fit_are_refused),
        cmocka_unit_test(signed_arithmetic_agrees_with_wider_arithmetic),
        cmocka_unit_test(impossible_requests_for_memory_are_errors),
        cmocka_unit_test(arrays_grow_and_keep_their_elements),
        cmocka_unit_test(an_array_that_cannot_grow_stays_as_it_was),
        cmocka_unit_test(arena_memory_is_zeroed_aligned_and_apart),
        cmocka_unit_test(arenas_do_not_waste_blocks),
        cmocka_unit_test(texts_grow),
        cmocka_unit_test(json_strings_are_utf8),
        cmocka_unit_test(a_failed_text_stays_as_it_was_until_cleared),
        cmocka_unit_test(texts_are_cut_to_one_line),
        cmocka_unit_test(messages_are_one_bounded_line),
        cmocka_unit_test(each_thread_has_its_own_message),
        cmocka_unit_test(statuses_and_dtypes_have_names),
        cmocka_unit_test(shapes_are_counted_and_compared),
        cmocka_unit_test(shapes_have_texts),
        cmocka_unit_test(hashes_are_those_of_xxh3),
        cmocka_unit_test(the_log_reaches_its_callback_in_lines),
        cmocka_unit_test(libraries_that_are_missing_are_no_error),
        cmocka_unit_test(the_clock_and_locks_work),
        cmocka_unit_test(memory_may_run_out_at_every_request),
        cmocka_unit_test(an_incomplete_allocator_is_not_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
