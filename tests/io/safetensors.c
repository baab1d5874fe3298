/* safetensors files as a user sees them: read, written and read again, with every kind of wrong use and every failure
   of memory and disk. Malformed files are in safetensors_malformed.c. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file/file.h"
#include "failing_memory.h"
#include "faulty_files.h"
#include "scratch_folder.h"
#include "tuff/io.h"

/* Written by the format's own library (version 0.8.0): all dtypes that tuff supports, names that need escaping and
   sorting, an empty tensor. */
#define REFERENCE TUFF_TEST_DATA "/safetensors/reference"

static const float weights[] = {1.5f, -2.0f, 3.25f, 0.0f, 1e-45f, -0.0f};
static const unsigned char flags[] = {1, 0, 1};
static const double precise[] = {3.0};
static const tuff_file_tensor tensors[] = {
    {"flags", TUFF_BOOL, {.rank = 1, .extent = {3}}, flags, sizeof flags},
    {"weights", TUFF_F32, {.rank = 2, .extent = {2, 3}}, weights, sizeof weights},
    {"none", TUFF_F32, {.rank = 2, .extent = {2, 0}}, NULL, 0},
    {"\xc3\xa9 \"quoted\"\n", TUFF_F64, {.rank = 0}, precise, sizeof precise},
};
#define TENSOR_COUNT ((int)(sizeof tensors / sizeof tensors[0]))
static const char *const keys[] = {"step", "\xe2\x82\xac", ""};
static const char *const texts[] = {"12", "a \"text\"\twith\\things", ""};

static tuff_status save(const char *name)
{
    return tuff_file_save(scratch_path(name), tensors, TENSOR_COUNT, keys, texts, 3);
}

static void check_contents(const tuff_file *file)
{
    tuff_file_tensor found;
    assert_int_equal(tuff_file_count(file), TENSOR_COUNT);
    for (int i = 0; i < TENSOR_COUNT; i++) {
        assert_int_equal(tuff_file_find(file, tensors[i].name, &found), TUFF_OK);
        assert_string_equal(found.name, tensors[i].name);
        assert_int_equal(found.dtype, tensors[i].dtype);
        assert_true(tuff_shape_equal(found.shape, tensors[i].shape));
        assert_int_equal(found.size, tensors[i].size);
        assert_int_equal((uintptr_t)found.data % 16, 0);
        if (found.size)
            assert_memory_equal(found.data, tensors[i].data, found.size);
    }
    assert_int_equal(tuff_file_metadata_count(file), 3);
    for (int i = 0; i < 3; i++) {
        const char *key, *value;
        assert_int_equal(tuff_file_metadata_at(file, i, &key, &value), TUFF_OK);
        assert_string_equal(key, keys[i]);
        assert_string_equal(value, texts[i]);
        assert_string_equal(tuff_file_metadata(file, keys[i]), texts[i]);
    }
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    assert_int_equal(save("x"), TUFF_OK);
    tuff_file *file = tuff_file_open(scratch_path("x"));
    assert_non_null(file);
    check_contents(file);
    tuff_file_tensor first;
    assert_int_equal(tuff_file_tensor_at(file, 0, &first), TUFF_OK);
    assert_int_equal(first.dtype, TUFF_F64);
    tuff_file_close(file);
    faulty_files_begin(FAULT_NONE, 0, false);
    assert_int_equal(save("x"), TUFF_OK);
    faulty_files_end();
    assert_string_equal(scratch_list(), "x x.prev ");
    /* The bytes are flushed before the file gets its name, and the folder after. */
    const char *renamed = strrchr(faulty_files_log(), 'm'), *flushed = strchr(faulty_files_log(), 'f');
    assert_non_null(renamed);
    assert_true(flushed && flushed < renamed);
    assert_non_null(strchr(renamed, 'f'));
}

/* Saves the content of file under name. */
static void save_again(const tuff_file *file, const char *name)
{
    tuff_file_tensor all[64];
    const char *all_keys[8], *all_texts[8];
    int count = tuff_file_count(file), metadata_count = tuff_file_metadata_count(file);
    assert_in_range(count, 1, 64);
    assert_in_range(metadata_count, 0, 8);
    for (int i = 0; i < count; i++)
        assert_int_equal(tuff_file_tensor_at(file, i, &all[i]), TUFF_OK);
    for (int i = 0; i < metadata_count; i++)
        assert_int_equal(tuff_file_metadata_at(file, i, &all_keys[i], &all_texts[i]), TUFF_OK);
    assert_int_equal(tuff_file_save(scratch_path(name), all, count, all_keys, all_texts, metadata_count), TUFF_OK);
}

static char *read_path(const char *path, size_t *size)
{
    void *data = NULL, *copy;
    assert_int_equal(tuff__file_read(path, 1 << 20, &data, size), TUFF_OK);
    copy = malloc(*size + 1);
    assert_non_null(copy);
    memcpy(copy, data, *size);
    free(data);
    return copy;
}

static void assert_same_files(const char *a, const char *b)
{
    size_t a_size = 0, b_size = 0;
    char *a_data = read_path(a, &a_size), *b_data = read_path(b, &b_size);
    assert_int_equal(a_size, b_size);
    assert_memory_equal(a_data, b_data, a_size);
    free(a_data);
    free(b_data);
}

static void writing_what_was_read_gives_the_same_bytes(void **state)
{
    (void)state;
    assert_int_equal(save("first"), TUFF_OK);
    tuff_file *file = tuff_file_open(scratch_path("first"));
    assert_non_null(file);
    save_again(file, "second");
    tuff_file_close(file);
    assert_same_files(scratch_path("first"), scratch_path("second"));
}

static void files_of_the_reference_library_are_written_bit_for_bit(void **state)
{
    (void)state;
    tuff_file *file = tuff_file_open(REFERENCE);
    assert_non_null(file);
    assert_int_equal(tuff_file_count(file), 31);
    tuff_file_tensor found;
    assert_int_equal(tuff_file_find(file, "bf16.a", &found), TUFF_OK);
    assert_int_equal(found.dtype, TUFF_BF16);
    assert_true(tuff_shape_equal(found.shape, TUFF_SHAPE(1, 2)));
    assert_string_equal(tuff_file_metadata(file, "format"), "tuff \xc3\xbc \"x\"\n");
    save_again(file, "x");
    tuff_file_close(file);
    assert_same_files(REFERENCE, scratch_path("x"));
}

static void the_header_is_compact_sorted_and_padded(void **state)
{
    (void)state;
    static const char expected[] = "\x70\0\0\0\0\0\0\0"
                                   "{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                                   "\"b\":{\"dtype\":\"I8\",\"shape\":[1,2],\"data_offsets\":[4,6]}}"
                                   "    "
                                   "\0\0\x80\x3f\x07\xff";
    const float w = 1.0f;
    const signed char b[] = {7, -1};
    const tuff_file_tensor two[] = {{"b", TUFF_I8, {.rank = 2, .extent = {1, 2}}, b, 2},
                                    {"w", TUFF_F32, {.rank = 1, .extent = {1}}, &w, 4}};
    assert_int_equal(tuff_file_save(scratch_path("x"), two, 2, NULL, NULL, 0), TUFF_OK);
    size_t size = 0;
    char *data = read_path(scratch_path("x"), &size);
    assert_int_equal(size % 8, 6);
    assert_int_equal(size, sizeof expected - 1);
    assert_memory_equal(data, expected, size);
    free(data);
}

static void an_empty_file_is_legal(void **state)
{
    (void)state;
    assert_int_equal(tuff_file_save(scratch_path("x"), NULL, 0, NULL, NULL, 0), TUFF_OK);
    tuff_file *file = tuff_file_open(scratch_path("x"));
    assert_non_null(file);
    assert_int_equal(tuff_file_count(file), 0);
    tuff_file_tensor found;
    assert_int_equal(tuff_file_find(file, "x", &found), TUFF_E_USAGE);
    tuff_file_close(file);
}

static void questions_that_make_no_sense_are_answered_with_errors(void **state)
{
    (void)state;
    assert_int_equal(save("x"), TUFF_OK);
    tuff_file *file = tuff_file_open(scratch_path("x"));
    tuff_file_tensor found;
    const char *key, *value;
    assert_int_equal(tuff_file_tensor_at(file, -1, &found), TUFF_E_USAGE);
    assert_int_equal(tuff_file_tensor_at(file, TENSOR_COUNT, &found), TUFF_E_USAGE);
    assert_int_equal(tuff_file_tensor_at(NULL, 0, &found), TUFF_E_USAGE);
    assert_int_equal(tuff_file_tensor_at(file, 0, NULL), TUFF_E_USAGE);
    assert_int_equal(tuff_file_find(file, "missing", &found), TUFF_E_USAGE);
    assert_non_null(strstr(tuff_error(), "missing"));
    assert_int_equal(tuff_file_find(file, NULL, &found), TUFF_E_USAGE);
    assert_int_equal(tuff_file_find(NULL, "x", &found), TUFF_E_USAGE);
    assert_int_equal(tuff_file_metadata_at(file, 3, &key, &value), TUFF_E_USAGE);
    assert_int_equal(tuff_file_metadata_at(file, 0, NULL, &value), TUFF_E_USAGE);
    assert_null(tuff_file_metadata(file, "missing"));
    assert_null(tuff_file_metadata(file, NULL));
    assert_null(tuff_file_metadata(NULL, "step"));
    assert_int_equal(tuff_file_count(NULL), 0);
    assert_int_equal(tuff_file_metadata_count(NULL), 0);
    tuff_file_close(file);
    tuff_file_close(NULL);
    assert_null(tuff_file_open(NULL));
    assert_null(tuff_file_parse(NULL, 8));
    assert_null(tuff_file_open(scratch_path("missing")));
    assert_non_null(strstr(tuff_error(), "missing"));
}

/* The writer refuses files that the reader would refuse. */
static void files_that_could_not_be_read_are_not_written(void **state)
{
    (void)state;
    const tuff_file_tensor good = tensors[1];
    struct {
        tuff_file_tensor tensor;
        tuff_status status;
    } wrong[10];
    for (size_t i = 0; i < 10; i++)
        wrong[i].tensor = good;
    wrong[0].tensor.name = NULL, wrong[0].status = TUFF_E_USAGE;
    wrong[1].tensor.name = "__metadata__", wrong[1].status = TUFF_E_USAGE;
    wrong[2].tensor.name = "\xff", wrong[2].status = TUFF_E_USAGE;
    wrong[3].tensor.dtype = (tuff_dtype)99, wrong[3].status = TUFF_E_DTYPE;
    wrong[4].tensor.shape.extent[0] = -2, wrong[4].status = TUFF_E_SHAPE;
    wrong[5].tensor.shape.rank = 9, wrong[5].status = TUFF_E_SHAPE;
    wrong[6].tensor.size--, wrong[6].status = TUFF_E_SHAPE;
    wrong[7].tensor.data = NULL, wrong[7].status = TUFF_E_USAGE;
    wrong[8].tensor.shape = TUFF_SHAPE(1LL << 61), wrong[8].status = TUFF_E_SHAPE;
    wrong[9].tensor.name = "twice", wrong[9].status = TUFF_E_USAGE;
    for (size_t i = 0; i < 10; i++) {
        const tuff_file_tensor pair[] = {{"twice", TUFF_U8, {.rank = 1, .extent = {3}}, flags, 3}, wrong[i].tensor};
        assert_int_equal(tuff_file_save(scratch_path("x"), pair, 2, NULL, NULL, 0), wrong[i].status);
    }
    const char *const bad_keys[] = {"a", "a"}, *const bad_texts[] = {"1", "\xff"}, *const no_texts[] = {"1", NULL};
    assert_int_equal(tuff_file_save(scratch_path("x"), &good, 1, bad_keys, texts, 2), TUFF_E_USAGE);
    assert_int_equal(tuff_file_save(scratch_path("x"), &good, 1, keys, bad_texts, 2), TUFF_E_USAGE);
    assert_int_equal(tuff_file_save(scratch_path("x"), &good, 1, keys, no_texts, 2), TUFF_E_USAGE);
    assert_int_equal(tuff_file_save(scratch_path("x"), &good, 1, NULL, NULL, 2), TUFF_E_USAGE);
    assert_int_equal(tuff_file_save(scratch_path("x"), &good, -1, NULL, NULL, 0), TUFF_E_USAGE);
    assert_int_equal(tuff_file_save(scratch_path("x"), NULL, 1, NULL, NULL, 0), TUFF_E_USAGE);
    assert_int_equal(tuff_file_save(scratch_path("x"), &good, 1, NULL, NULL, -1), TUFF_E_USAGE);
    assert_int_equal(tuff_file_save(NULL, &good, 1, NULL, NULL, 0), TUFF_E_USAGE);
    assert_string_equal(scratch_list(), "");
}

/* Refused before the data, which do not exist, are accessed. */
static void data_beyond_the_format_s_limit_are_not_written(void **state)
{
    (void)state;
    tuff_file_tensor huge[] = {{"a", TUFF_U8, {.rank = 1, .extent = {1LL << 62}}, flags, 1ULL << 62},
                               {"b", TUFF_U8, {.rank = 1, .extent = {1LL << 62}}, flags, 1ULL << 62}};
    assert_int_equal(tuff_file_save(scratch_path("x"), huge, 2, NULL, NULL, 0), TUFF_E_LIMIT);
    assert_string_equal(scratch_list(), "");
}

static void a_header_beyond_the_format_s_limit_is_not_written(void **state)
{
    (void)state;
    char *wide = malloc(100000001);
    assert_non_null(wide);
    memset(wide, 'a', 100000000);
    wide[100000000] = 0;
    const char *const wide_texts[] = {wide};
    assert_int_equal(tuff_file_save(scratch_path("x"), NULL, 0, keys, wide_texts, 1), TUFF_E_LIMIT);
    free(wide);
    assert_string_equal(scratch_list(), "");
}

/* Whether the tensors of both files are equal except for their names. */
static bool same_tensors(const tuff_file *a, const tuff_file *b, size_t *different_names)
{
    *different_names = 0;
    bool same = tuff_file_count(a) == tuff_file_count(b);
    for (int i = 0; same && i < tuff_file_count(a); i++) {
        tuff_file_tensor x, y;
        assert_int_equal(tuff_file_tensor_at(a, i, &x), TUFF_OK);
        assert_int_equal(tuff_file_tensor_at(b, i, &y), TUFF_OK);
        same = x.dtype == y.dtype && tuff_shape_equal(x.shape, y.shape) && x.size == y.size &&
               (x.size == 0 || memcmp(x.data, y.data, (size_t)x.size) == 0);
        *different_names += strcmp(x.name, y.name) != 0;
    }
    return same;
}

/* A flipped bit in a name gives another name. Any other must be detected or change nothing, like one white space that
   becomes another. */
static void every_flipped_bit_of_a_header_is_noticed_or_harmless(void **state)
{
    (void)state;
    static char bytes[] = "\x40\0\0\0\0\0\0\0"
                          "{\"ab\":{\"dtype\":\"F32\",\"shape\":[3,1],\"data_offsets\":[0,12]}}      "
                          "\1\2\3\4\5\6\7\10\11\12\13\14";
    const size_t size = sizeof bytes - 1, header_end = 8 + 0x40;
    tuff_file *whole = tuff_file_parse(bytes, size);
    assert_non_null(whole);
    int accepted = 0;
    for (size_t bit = 0; bit < 8 * header_end; bit++) {
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
        tuff_file *flipped = tuff_file_parse(bytes, size);
        size_t different_names = 0;
        if (flipped) {
            bool in_name = bit / 8 == 10 || bit / 8 == 11;
            assert_true(same_tensors(whole, flipped, &different_names));
            assert_int_equal(different_names, in_name);
            accepted++;
        } else
            assert_int_equal(tuff_last_status(), TUFF_E_FORMAT);
        tuff_file_close(flipped);
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
    }
    tuff_file_close(whole);
    assert_in_range(accepted, 4, 40);
}

static void every_truncated_and_extended_file_is_refused(void **state)
{
    (void)state;
    size_t size = 0;
    char *data = read_path(REFERENCE, &size), *cut;
    for (size_t length = 0; length < size; length++) {
        cut = malloc(length + 1);
        assert_non_null(cut);
        memcpy(cut, data, length);
        assert_null(tuff_file_parse(cut, length));
        assert_int_equal(tuff_last_status(), TUFF_E_FORMAT);
        free(cut);
    }
    char *longer = calloc(size + 1, 1);
    assert_non_null(longer);
    memcpy(longer, data, size);
    assert_null(tuff_file_parse(longer, size + 1));
    scratch_write("cut", data, size - 1);
    assert_null(tuff_file_open(scratch_path("cut")));
    assert_int_equal(tuff_last_status(), TUFF_E_FORMAT);
    assert_non_null(strstr(tuff_error(), "cut: "));
    free(longer);
    free(data);
}

/* A large sparse file with a small header needs no memory before its header is found to be wrong. */
static void the_size_of_a_file_alone_asks_for_no_memory(void **state)
{
    (void)state;
    scratch_write("sparse", "\2\0\0\0\0\0\0\0{}", 10);
    assert_int_equal(truncate(scratch_path("sparse"), (off_t)10 << 30), 0);
    failing_memory_begin(0, false);
    assert_null(tuff_file_open(scratch_path("sparse")));
    assert_true(failing_memory_bytes() < (1 << 20));
    assert_int_equal(failing_memory_live(), 0);
    failing_memory_end();
    assert_int_equal(tuff_last_status(), TUFF_E_FORMAT);
}

/* Saves and reads; returns false on failure. */
static bool save_and_open(void)
{
    if (save("x") != TUFF_OK)
        return false;
    tuff_file *file = tuff_file_open(scratch_path("x"));
    bool done = file != NULL;
    tuff_file_close(file);
    return done;
}

static void expect_no_temporary_file(void)
{
    assert_null(strstr(scratch_list(), ".tmp-"));
}

static void memory_may_run_out_at_every_request(void **state)
{
    (void)state;
    assert_in_range(fail_each_request(save_and_open, expect_no_temporary_file), 50, 1000);
    tuff_file *file = tuff_file_open(scratch_path("x"));
    assert_non_null(file);
    check_contents(file);
    tuff_file_close(file);
}

static bool open_file(void)
{
    tuff_file *file = tuff_file_open(scratch_path("x"));
    tuff_file_close(file);
    return file != NULL;
}

/* Names and texts so long that each needs its own block of memory. */
static void memory_may_run_out_at_every_part_of_a_header(void **state)
{
    (void)state;
    static char names[12][6000], values[12][9000];
    static tuff_file_tensor many[12];
    const char *many_keys[12], *many_texts[12];
    for (int i = 0; i < 12; i++) {
        (void)snprintf(names[i], sizeof names[i], "%05999d", i);
        (void)snprintf(values[i], sizeof values[i], "%08999d", i);
        many[i] = (tuff_file_tensor){names[i], TUFF_U8, {.rank = 1, .extent = {1}}, flags, 1};
        many_keys[i] = names[i];
        many_texts[i] = values[i];
    }
    assert_int_equal(tuff_file_save(scratch_path("x"), many, 12, many_keys, many_texts, 12), TUFF_OK);
    (void)fail_each_request(open_file, NULL);
}

static void the_previous_file_survives_every_failure_of_the_disk(void **state)
{
    (void)state;
    static const fault_kind kinds[] = {FAULT_EIO, FAULT_ENOSPC, FAULT_EINTR, FAULT_SHORT};
    assert_int_equal(save("x"), TUFF_OK);
    for (size_t i = 0; i < 4; i++)
        for (int k = 1;; k++) {
            faulty_files_begin(kinds[i], k, false);
            bool done = save_and_open();
            assert_int_equal(faulty_files_open(), 0);
            bool hit = faulty_files_end();
            assert_true(done || tuff_last_status() == TUFF_E_IO);
            assert_true(done || kinds[i] == FAULT_EIO || kinds[i] == FAULT_ENOSPC);
            assert_null(strstr(scratch_list(), ".tmp-"));
            tuff_file *file = tuff_file_open(scratch_path("x"));
            assert_non_null(file);
            check_contents(file);
            tuff_file_close(file);
            if (!hit) {
                assert_true(done && k > 18);
                break;
            }
        }
}

#define SCRATCH_TEST(test) cmocka_unit_test_setup_teardown(test, scratch_folder_make, scratch_folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(what_is_written_is_read),
        SCRATCH_TEST(writing_what_was_read_gives_the_same_bytes),
        SCRATCH_TEST(files_of_the_reference_library_are_written_bit_for_bit),
        SCRATCH_TEST(the_header_is_compact_sorted_and_padded),
        SCRATCH_TEST(an_empty_file_is_legal),
        SCRATCH_TEST(questions_that_make_no_sense_are_answered_with_errors),
        SCRATCH_TEST(files_that_could_not_be_read_are_not_written),
        SCRATCH_TEST(data_beyond_the_format_s_limit_are_not_written),
        SCRATCH_TEST(a_header_beyond_the_format_s_limit_is_not_written),
        SCRATCH_TEST(every_flipped_bit_of_a_header_is_noticed_or_harmless),
        SCRATCH_TEST(every_truncated_and_extended_file_is_refused),
        SCRATCH_TEST(the_size_of_a_file_alone_asks_for_no_memory),
        SCRATCH_TEST(memory_may_run_out_at_every_request),
        SCRATCH_TEST(memory_may_run_out_at_every_part_of_a_header),
        SCRATCH_TEST(the_previous_file_survives_every_failure_of_the_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
