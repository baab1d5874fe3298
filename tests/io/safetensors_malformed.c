/* Every known error in safetensors files, each with the status and the words that name the error; and unusual files
   that are valid. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "failing_memory.h"
#include "tuff/io.h"

typedef struct example {
    const char *header;
    size_t data_size;
    tuff_status status;
    const char *words; /* part of the message */
} example;

/* Parses a file with this header; returns NULL on failure. Checks that memory stays within its bound. */
static tuff_file *parse(const char *header, size_t header_size, size_t data_size)
{
    size_t size = 8 + header_size + data_size;
    unsigned char *bytes = calloc(size, 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)header_size >> (8 * i));
    memcpy(bytes + 8, header, header_size);
    failing_memory_begin(0, false);
    tuff_file *file = tuff_file_parse(bytes, size);
    assert_true(failing_memory_bytes() <= 32 * header_size + (1 << 20) + (file ? data_size : 0));
    if (!file)
        assert_int_equal(failing_memory_live(), 0);
    failing_memory_end();
    free(bytes);
    return file;
}

static void check(const example *examples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const example *one = &examples[i];
        tuff_file *file = parse(one->header, strlen(one->header), one->data_size);
        tuff_status status = file ? TUFF_OK : tuff_last_status();
        tuff_file_close(file);
        if (status != one->status)
            fail_msg("%s: %s instead of %s: %s", one->header, tuff_status_name(status), tuff_status_name(one->status),
                     tuff_error());
        if (status != TUFF_OK && !strstr(tuff_error(), one->words))
            fail_msg("%s: \"%s\" does not say \"%s\"", one->header, tuff_error(), one->words);
    }
}
#define CHECK(examples) check(examples, sizeof(examples) / sizeof(examples)[0])

/* One tensor called x. */
#define X(dtype, shape, offsets) "{\"x\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
/* Two tensors of bytes. */
#define TWO(shape, offsets, second_shape, second_offsets)                    \
    "{\"x\":{\"dtype\":\"U8\",\"shape\":" shape ",\"data_offsets\":" offsets \
    "},\"y\":{\"dtype\":\"U8\",\"shape\":" second_shape ",\"data_offsets\":" second_offsets "}}"

static void legal_files_are_read(void **state)
{
    (void)state;
    static const example examples[] = {
        {"{}", 0, TUFF_OK, ""},
        {"{}      ", 0, TUFF_OK, ""},
        {"{ }\n", 0, TUFF_OK, ""},
        {"{\"__metadata__\":{}}", 0, TUFF_OK, ""},
        {"{\"__metadata__\":{\"a\":\"\"}}", 0, TUFF_OK, ""},
        {X("\"F32\"", "[]", "[0,4]"), 4, TUFF_OK, ""},
        {X("\"F32\"", "[0]", "[0,0]"), 0, TUFF_OK, ""},
        {X("\"F32\"", "[0,7]", "[0,0]"), 0, TUFF_OK, ""},
        {X("\"BOOL\"", "[3]", "[0,3]"), 3, TUFF_OK, ""},
        {X("\"U8\"", "[1,1,1,1,1,1,1,2]", "[0,2]"), 2, TUFF_OK, ""},
        {TWO("[2]", "[3,5]", "[3]", "[0,3]"), 5, TUFF_OK, ""},
        {TWO("[0]", "[1,1]", "[1]", "[0,1]"), 1, TUFF_OK, ""},
        {TWO("[0]", "[0,0]", "[1]", "[0,1]"), 1, TUFF_OK, ""},
        {TWO("[1]", "[0,1]", "[0]", "[0,0]"), 1, TUFF_OK, ""},
        {"{\"\":{\"shape\":[1],\"data_offsets\":[0,1],\"dtype\":\"I8\"}}", 1, TUFF_OK, ""},
        {"{\"\\ud83d\\ude00\\u00e9\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, TUFF_OK, ""},
    };
    CHECK(examples);
}

static void text_that_is_no_header_is_refused(void **state)
{
    (void)state;
    static const example examples[] = {
        {"", 0, TUFF_E_FORMAT, "expected {"},
        {" {}", 0, TUFF_E_FORMAT, "expected {"},
        {"[]", 0, TUFF_E_FORMAT, "expected {"},
        {"\xef\xbb\xbf{}", 0, TUFF_E_FORMAT, "expected {"},
        {"{", 0, TUFF_E_FORMAT, "JSON"},
        {"{}}", 0, TUFF_E_FORMAT, "end of file expected"},
        {"{} x", 0, TUFF_E_FORMAT, "end of file expected"},
        {"{\"x\"", 0, TUFF_E_FORMAT, "JSON"},
        {"{\"x\":", 0, TUFF_E_FORMAT, "JSON"},
        {"{\"x\\", 0, TUFF_E_FORMAT, "JSON"},
        {"{\"x", 0, TUFF_E_FORMAT, "JSON"},
        {"{,}", 0, TUFF_E_FORMAT, "JSON"},
        {"{x:1}", 0, TUFF_E_FORMAT, "JSON"},
        {"{'x':1}", 0, TUFF_E_FORMAT, "JSON"},
        {"{\"x\":1,}", 0, TUFF_E_FORMAT, "JSON"},
        {"{\"x\":NaN}", 0, TUFF_E_FORMAT, "JSON"},
        {"{\"x\":01}", 0, TUFF_E_FORMAT, "JSON"},
        {"{\"x\":{} /* comment */}", 0, TUFF_E_FORMAT, "JSON"},
        {"{\"\xff\":1}", 0, TUFF_E_FORMAT, "decode byte"},
        {"{\"\xc0\xaf\":1}", 0, TUFF_E_FORMAT, "decode byte"},
        {"{\"\xed\xa0\x80\":1}", 0, TUFF_E_FORMAT, "decode byte"},
        {"{\"a\nb\":1}", 0, TUFF_E_FORMAT, "unexpected newline"},
        {"{\"a\\u0000b\":1}", 0, TUFF_E_FORMAT, "\\u0000"},
        {"{\"__metadata__\":{\"a\":\"b\\u0000\"}}", 0, TUFF_E_FORMAT, "\\u0000"},
        {"{\"\\ud800\":1}", 0, TUFF_E_FORMAT, "Unicode"},
        {"{\"\\udc00\":1}", 0, TUFF_E_FORMAT, "Unicode"},
        {"{\"\\ud800\\u0041\":1}", 0, TUFF_E_FORMAT, "Unicode"},
        {"{\"x\":[[[[[[[[1]]]]]]]]}", 0, TUFF_E_FORMAT, "nested more than 8"},
    };
    CHECK(examples);
}

/* A NUL byte ends a C string, but not a header. */
static void a_nul_byte_anywhere_is_refused(void **state)
{
    (void)state;
    static const char header[] =
        "{\"__metadata__\":{\"a\":\"b\"},\"x\":{\"dtype\":\"U8\",\"shape\":[0,10],\"data_offsets\":[0,0]}} ";
    char changed[sizeof header + 1];
    for (size_t at = 0; at < sizeof header; at++) {
        memcpy(changed, header, at);
        changed[at] = 0;
        memcpy(changed + at + 1, header + at, sizeof header - 1 - at);
        assert_null(parse(changed, sizeof header, 0));
        assert_int_equal(tuff_last_status(), TUFF_E_FORMAT);
    }
    tuff_file *file = parse(header, sizeof header - 1, 0);
    assert_non_null(file);
    tuff_file_close(file);
}

static void keys_that_come_twice_are_refused(void **state)
{
    (void)state;
    static const example examples[] = {
        {"{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
         1, TUFF_E_FORMAT, "duplicate"},
        {"{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"\\u0078\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
         2, TUFF_E_FORMAT, "duplicate"},
        {"{\"x\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, TUFF_E_FORMAT,
         "duplicate"},
        {"{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"shape\":[2],\"data_offsets\":[0,1]}}", 1, TUFF_E_FORMAT,
         "duplicate"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, TUFF_E_FORMAT, "duplicate"},
        {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, TUFF_E_FORMAT, "duplicate"},
    };
    CHECK(examples);
}

static void entries_need_their_three_fields(void **state)
{
    (void)state;
    static const example examples[] = {
        {"{\"x\":{}}", 0, TUFF_E_FORMAT, "expected exactly dtype"},
        {"{\"x\":1}", 0, TUFF_E_FORMAT, "expected exactly dtype"},
        {"{\"x\":null}", 0, TUFF_E_FORMAT, "expected exactly dtype"},
        {"{\"x\":[]}", 0, TUFF_E_FORMAT, "expected exactly dtype"},
        {"{\"x\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, TUFF_E_FORMAT, "expected exactly dtype"},
        {"{\"x\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, TUFF_E_FORMAT, "expected exactly dtype"},
        {"{\"x\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, TUFF_E_FORMAT, "expected exactly dtype"},
        {"{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"more\":1}}", 1, TUFF_E_FORMAT,
         "expected exactly"},
        {"{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"offsets\":[0,1]}}", 1, TUFF_E_FORMAT, "expected exactly dtype"},
        {"{\"__metadata__\":[]}", 0, TUFF_E_FORMAT, "not an object"},
        {"{\"__metadata__\":null}", 0, TUFF_E_FORMAT, "not an object"},
        {"{\"__metadata__\":{\"a\":1}}", 0, TUFF_E_FORMAT, "is not a string"},
        {"{\"__metadata__\":{\"a\":{\"b\":\"c\"}}}", 0, TUFF_E_FORMAT, "is not a string"},
    };
    CHECK(examples);
}

static void dtypes_are_known_or_refused(void **state)
{
    (void)state;
    static const example examples[] = {
        {X("\"f32\"", "[1]", "[0,4]"), 4, TUFF_E_FORMAT, "unknown dtype \"f32\""},
        {X("\"\"", "[1]", "[0,4]"), 4, TUFF_E_FORMAT, "unknown dtype"},
        {X("\"F32 \"", "[1]", "[0,4]"), 4, TUFF_E_FORMAT, "unknown dtype"},
        {X("1", "[1]", "[0,4]"), 4, TUFF_E_FORMAT, "dtype is not a string"},
        {X("null", "[1]", "[0,4]"), 4, TUFF_E_FORMAT, "dtype is not a string"},
        {X("\"F8_E4M3\"", "[1]", "[0,1]"), 1, TUFF_E_UNSUPPORTED, "F8_E4M3"},
        {X("\"F4\"", "[3]", "[0,2]"), 2, TUFF_E_UNSUPPORTED, "F4"},
        {X("\"F6_E2M3\"", "[1]", "[0,1]"), 1, TUFF_E_UNSUPPORTED, "F6_E2M3"},
        {X("\"I16\"", "[1]", "[0,2]"), 2, TUFF_E_UNSUPPORTED, "I16"},
        {X("\"U64\"", "[1]", "[0,8]"), 8, TUFF_E_UNSUPPORTED, "U64"},
        {X("\"C64\"", "[1]", "[0,8]"), 8, TUFF_E_UNSUPPORTED, "C64"},
    };
    CHECK(examples);
}

static void shapes_are_lists_of_plain_integers(void **state)
{
    (void)state;
    static const example examples[] = {
        {X("\"U8\"", "1", "[0,1]"), 1, TUFF_E_FORMAT, "shape is not an array"},
        {X("\"U8\"", "{}", "[0,1]"), 1, TUFF_E_FORMAT, "shape is not an array"},
        {X("\"U8\"", "null", "[0,1]"), 1, TUFF_E_FORMAT, "shape is not an array"},
        {X("\"U8\"", "[-1]", "[0,1]"), 1, TUFF_E_FORMAT, "negative"},
        {X("\"U8\"", "[-0]", "[0,0]"), 0, TUFF_E_FORMAT, "negative"},
        {X("\"U8\"", "[1e3]", "[0,1000]"), 1000, TUFF_E_FORMAT, "not an integer"},
        {X("\"U8\"", "[1.0]", "[0,1]"), 1, TUFF_E_FORMAT, "not an integer"},
        {X("\"U8\"", "[1e999]", "[0,1]"), 1, TUFF_E_FORMAT, "real number overflow"},
        {X("\"U8\"", "[\"4\"]", "[0,4]"), 4, TUFF_E_FORMAT, "not an integer"},
        {X("\"U8\"", "[true]", "[0,1]"), 1, TUFF_E_FORMAT, "not an integer"},
        {X("\"U8\"", "[[1]]", "[0,1]"), 1, TUFF_E_FORMAT, "not an integer"},
        {X("\"U8\"", "[18446744073709551616]", "[0,0]"), 0, TUFF_E_FORMAT, "too big integer"},
        {X("\"U8\"", "[9223372036854775808]", "[0,0]"), 0, TUFF_E_FORMAT, "too big integer"},
        {X("\"U8\"", "[9223372036854775807]", "[0,0]"), 0, TUFF_E_FORMAT, "shape needs"},
        {X("\"U8\"", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), 1, TUFF_E_LIMIT, "9 axes"},
    };
    CHECK(examples);
}

static void sizes_that_wrap_are_refused(void **state)
{
    (void)state;
    static const example examples[] = {
        {X("\"U8\"", "[4294967296,4294967296]", "[0,0]"), 0, TUFF_E_FORMAT, "does not fit"},
        {X("\"F32\"", "[4294967296,1073741824]", "[0,0]"), 0, TUFF_E_FORMAT, "does not fit"},
        {X("\"F64\"", "[2305843009213693952]", "[0,0]"), 0, TUFF_E_FORMAT, "does not fit"},
        {X("\"F64\"", "[1152921504606846976]", "[0,0]"), 0, TUFF_E_FORMAT, "does not fit"},
        {X("\"U8\"", "[4294967296,4294967296,0]", "[0,0]"), 0, TUFF_E_FORMAT, "does not fit"},
        {X("\"U8\"", "[0,4294967296,4294967296]", "[0,0]"), 0, TUFF_E_FORMAT, "does not fit"},
        {X("\"U8\"", "[4,1073741823,1073741825,8]", "[0,0]"), 0, TUFF_E_FORMAT, "does not fit"},
    };
    CHECK(examples);
}

static void data_tile_the_file_exactly(void **state)
{
    (void)state;
    static const example examples[] = {
        {X("\"U8\"", "[1]", "[0]"), 1, TUFF_E_FORMAT, "not two integers"},
        {X("\"U8\"", "[1]", "[0,1,2]"), 1, TUFF_E_FORMAT, "not two integers"},
        {X("\"U8\"", "[1]", "[0,\"1\"]"), 1, TUFF_E_FORMAT, "not two integers"},
        {X("\"U8\"", "[1]", "[0,1.0]"), 1, TUFF_E_FORMAT, "not two integers"},
        {X("\"U8\"", "[1]", "{}"), 1, TUFF_E_FORMAT, "not two integers"},
        {X("\"U8\"", "[1]", "[1,0]"), 1, TUFF_E_FORMAT, "begin after their end"},
        {X("\"U8\"", "[1]", "[-1,0]"), 1, TUFF_E_FORMAT, "negative"},
        {X("\"U8\"", "[1]", "[9223372036854775806,9223372036854775807]"), 1, TUFF_E_FORMAT, "must begin at byte 0"},
        {X("\"U8\"", "[2]", "[0,1]"), 1, TUFF_E_FORMAT, "shape needs 2 bytes"},
        {X("\"F32\"", "[1]", "[0,1]"), 1, TUFF_E_FORMAT, "shape needs 4 bytes"},
        {X("\"U8\"", "[]", "[0,0]"), 0, TUFF_E_FORMAT, "shape needs 1 bytes"},
        {X("\"U8\"", "[2]", "[0,2]"), 1, TUFF_E_FORMAT, "end at byte 2, but"},
        {X("\"U8\"", "[1]", "[0,1]"), 2, TUFF_E_FORMAT, "unused bytes"},
        {X("\"U8\"", "[1]", "[1,2]"), 2, TUFF_E_FORMAT, "must begin at byte 0"},
        {"{}", 1, TUFF_E_FORMAT, "unused bytes"},
        {TWO("[2]", "[0,2]", "[2]", "[1,3]"), 3, TUFF_E_FORMAT, "inside"},
        {TWO("[2]", "[0,2]", "[2]", "[0,2]"), 2, TUFF_E_FORMAT, "inside"},
        {TWO("[1]", "[0,1]", "[1]", "[2,3]"), 3, TUFF_E_FORMAT, "after a gap"},
        {TWO("[4]", "[0,4]", "[0]", "[2,2]"), 4, TUFF_E_FORMAT, "inside"},
        {TWO("[4]", "[0,4]", "[0]", "[5,5]"), 4, TUFF_E_FORMAT, "after a gap"},
    };
    CHECK(examples);
}

/* The length field of the header, and files too short for one. */
static void wrong_lengths_of_the_header_are_refused(void **state)
{
    (void)state;
    unsigned char bytes[64] = {0};
    for (size_t size = 0; size < 8; size++) {
        assert_null(tuff_file_parse(bytes, size));
        assert_int_equal(tuff_last_status(), TUFF_E_FORMAT);
        assert_non_null(strstr(tuff_error(), "bytes long"));
    }
    static const uint64_t lengths[] = {0,          1,          57,         UINT64_MAX - 7,   1ULL << 63,
                                       100000001u, 100000000u, UINT64_MAX, (1ULL << 63) - 8, 1ULL << 32};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        for (size_t j = 0; j < 8; j++)
            bytes[j] = (unsigned char)(lengths[i] >> (8 * j));
        failing_memory_begin(0, false);
        assert_null(tuff_file_parse(bytes, sizeof bytes));
        assert_int_equal(failing_memory_live(), 0);
        assert_true(failing_memory_bytes() < 4096);
        failing_memory_end();
        assert_int_equal(tuff_last_status(), TUFF_E_FORMAT);
        const char *words = lengths[i] < 56 ? "at the start" : lengths[i] > 100000000 ? "would have" : "ends after";
        assert_non_null(strstr(tuff_error(), words));
    }
}

/* Parses a header of repeated pieces between a beginning and an end. %d in piece is replaced by the piece's number. */
static tuff_status parse_repeated(const char *begin, const char *piece, int count, const char *end)
{
    size_t capacity = strlen(begin) + strlen(end) + (strlen(piece) + 12) * (size_t)count + 1, used;
    char *header = malloc(capacity);
    assert_non_null(header);
    used = (size_t)snprintf(header, capacity, "%s", begin);
    for (int i = 0; i < count; i++) {
        /* A piece contains %d at most once, and no other conversion. */
        const char *number = strstr(piece, "%d");
        int before = number ? (int)(number - piece) : (int)strlen(piece);
        used += (size_t)snprintf(header + used, capacity - used, "%.*s", before, piece);
        if (number)
            used += (size_t)snprintf(header + used, capacity - used, "%d%s", i, number + 2);
    }
    used += (size_t)snprintf(header + used, capacity - used, "%s", end);
    tuff_file *file = parse(header, used, 0);
    int found = tuff_file_count(file);
    tuff_status status = file ? TUFF_OK : tuff_last_status();
    if (file && strstr(piece, "dtype"))
        assert_int_equal(found, count + 1);
    tuff_file_close(file);
    free(header);
    return status;
}

#define EMPTY_TENSOR "\"%d\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
#define LAST_TENSOR "\"x\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}"

static void bombs_cost_no_more_than_their_size(void **state)
{
    (void)state;
    assert_int_equal(parse_repeated("{", EMPTY_TENSOR, 100000, LAST_TENSOR), TUFF_OK);
    assert_int_equal(parse_repeated("{\"__metadata__\":{", "\"%d\":\"\",", 66000, "\"x\":\"\"}}"), TUFF_OK);
    static const struct {
        const char *begin, *piece, *end;
    } bombs[] = {
        {"{\"x\":", "[", ""},
        {"{\"x\":", "[", "1"},
        {"{", "\"x\":{", ""},
        {"{\"x\":[", "{},", "{}]}"},
        {"{\"x\":[", "[],", "[]]}"},
        {"{\"x\":[", "0,", "0]}"},
        {"{\"x\":[", "0   ,", "0]}"},
        {"{\"x\":[", "\"\",", "\"\"]}"},
        {"{\"x\":[", "\"ab\",", "\"\"]}"},
        {"{\"x\":[", "{           },", "{}]}"},
        {"{\"x\":[", "[      ],", "[]]}"},
        {"{", "\"%d\":{},", "\"x\":{}}"},
        {"{", "\"%d\":{        },", "\"x\":{}}"},
        {"{", "\"%d\":[     ],", "\"x\":{}}"},
        {"{", "\"%d\":0,", "\"x\":0}"},
        {"{", "\"%d\":0   ,", "\"x\":0}"},
        {"{\"x\":{", "\"%d\":0,", "\"x\":0}}"},
        {"{\"\\", "\"", ""},
    };
    for (size_t i = 0; i < sizeof bombs / sizeof bombs[0]; i++)
        assert_int_equal(parse_repeated(bombs[i].begin, bombs[i].piece, 132000, bombs[i].end), TUFF_E_FORMAT);
    assert_int_equal(parse_repeated("{\"x\":", "[", 1000000, ""), TUFF_E_FORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(legal_files_are_read),
        cmocka_unit_test(text_that_is_no_header_is_refused),
        cmocka_unit_test(a_nul_byte_anywhere_is_refused),
        cmocka_unit_test(keys_that_come_twice_are_refused),
        cmocka_unit_test(entries_need_their_three_fields),
        cmocka_unit_test(dtypes_are_known_or_refused),
        cmocka_unit_test(shapes_are_lists_of_plain_integers),
        cmocka_unit_test(sizes_that_wrap_are_refused),
        cmocka_unit_test(data_tile_the_file_exactly),
        cmocka_unit_test(wrong_lengths_of_the_header_are_refused),
        cmocka_unit_test(bombs_cost_no_more_than_their_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
