/* Staging memory on every device found: copies are ordered with kernels and with each other, and invalid ones are
   refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"

enum { COUNT = 1031, SIZE = COUNT * 4 };

static void wait_for(staging *memory)
{
    bool done = false;
    while (!done) {
        assert_int_equal(tuff__staging_poll(memory, &done), TUFF_OK);
        tuff__sleep(done ? 0 : 100000);
    }
}

static void fill(uint32_t *words, uint32_t seed)
{
    for (uint32_t i = 0; i < COUNT; i++)
        words[i] = i * 2654435761u + seed;
}

/* Parts of odd sizes at odd offsets. */
static void check_bytes(tuff_device *device)
{
    staging *memory;
    storage *target;
    unsigned char read[SIZE];
    assert_int_equal(tuff__staging_create(device, 2 * SIZE, false, &memory), TUFF_OK);
    assert_int_equal(tuff__storage_create(device, SIZE, true, &target), TUFF_OK);
    unsigned char *bytes = tuff__staging_memory(memory);
    for (int i = 0; i < SIZE; i++)
        bytes[i] = (unsigned char)(i * 7 + 1);
    const uint64_t version = tuff__storage_version(target);
    const staging_transfer up[] = {
        {target, 3, 11, 1}, {target, 101, 64, 997}, {target, 0, 0, 0}, {target, SIZE - 5, 5, 5}};
    assert_int_equal(tuff__staging_upload(memory, up, 4), TUFF_OK);
    assert_true(tuff__storage_version(target) > version);
    assert_int_equal(tuff__storage_read(device, target, 0, read, SIZE), TUFF_OK);
    for (int i = 0; i < SIZE; i++) {
        const int from = i == 3 ? 11 : i >= 101 && i < 1098 ? i - 37 : i >= SIZE - 5 ? i - SIZE + 10 : -1;
        assert_int_equal(read[i], from < 0 ? 0 : bytes[from]);
    }
    wait_for(memory);
    const staging_transfer down = {target, 0, SIZE, SIZE};
    assert_int_equal(tuff__staging_download(memory, &down, 1), TUFF_OK);
    wait_for(memory);
    assert_memory_equal(bytes + SIZE, read, SIZE);
    const staging_transfer outside[] = {
        {target, SIZE + 256, 0, 1}, {target, 0, 2 * SIZE, 1}, {target, 4, 0, UINT64_MAX}};
    for (int i = 0; i < 3; i++)
        assert_int_equal(tuff__staging_upload(memory, &outside[i], 1), TUFF_E_USAGE);
    assert_int_equal(tuff__staging_download(memory, up, MAX_STAGED_COPIES + 1), TUFF_E_LIMIT);
    tuff__storage_release(target);
    tuff__staging_destroy(memory);
    tuff__staging_destroy(NULL);
}

/* Copies on the device between odd offsets. */
static void check_copies(tuff_device *device)
{
    tuff_array *a = tuff_array_create(device, TUFF_U8, TUFF_SHAPE(101)),
               *b = tuff_array_create(device, TUFF_U8, TUFF_SHAPE(101));
    tuff_array *part = tuff_array_view(a, 3, TUFF_SHAPE(31)), *place = tuff_array_view(b, 58, TUFF_SHAPE(31));
    tuff_array *near = tuff_array_view(a, 33, TUFF_SHAPE(31)),
               *words = tuff_array_create(device, TUFF_U32, TUFF_SHAPE(31));
    unsigned char bytes[101], read[101];
    for (int i = 0; i < 101; i++)
        bytes[i] = (unsigned char)(i + 9);
    assert_int_equal(tuff_array_write(a, bytes, sizeof bytes), TUFF_OK);
    const uint64_t version = tuff_array_version(b);
    assert_int_equal(tuff_array_copy(place, part), TUFF_OK);
    assert_true(tuff_array_version(b) > version);
    assert_int_equal(tuff_array_read(b, read, sizeof read), TUFF_OK);
    for (int i = 0; i < 101; i++)
        assert_int_equal(read[i], i >= 58 && i < 89 ? bytes[i - 55] : 0);
    assert_int_equal(tuff_array_copy(a, b), TUFF_OK);
    assert_int_equal(tuff_array_read(a, bytes, sizeof bytes), TUFF_OK);
    assert_memory_equal(bytes, read, sizeof read);
    assert_int_equal(tuff_array_copy(part, near), TUFF_E_USAGE);
    assert_int_equal(tuff_array_copy(a, a), TUFF_E_USAGE);
    assert_int_equal(tuff_array_copy(a, NULL), TUFF_E_USAGE);
    assert_int_equal(tuff_array_copy(a, part), TUFF_E_SHAPE);
    assert_int_equal(tuff_array_copy(words, part), TUFF_E_DTYPE);
    tuff_array *const all[] = {a, b, part, place, near, words};
    for (int i = 0; i < 6; i++)
        tuff_array_destroy(all[i]);
}

/* Alternates between two stagings, with a kernel after each upload and a download after the kernel, and waits only for
   a staging to become free. Some uploads are sent ahead, concurrently with the previous kernel, and some of these are
   discarded for other data. */
static void check_order(tuff_device *device)
{
    enum { ROUNDS = 20 };
    test_kernel kernel;
    staging *up[2], *down[2];
    uint32_t expected[COUNT];
    make_kernel(device, &kernel, "add", "x[i] += 7u;");
    storage *words = make_words(device, COUNT);
    command work = dispatch_over(device, &kernel, words, COUNT);
    recording *recorded;
    assert_int_equal(tuff__recording_create(device, &work, 1, false, false, &recorded), TUFF_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tuff__staging_create(device, SIZE, true, &up[i]), TUFF_OK);
        assert_int_equal(tuff__staging_create(device, SIZE, false, &down[i]), TUFF_OK);
    }
    for (uint32_t round = 0; round < ROUNDS + 2; round++) {
        const staging_transfer whole = {words, 0, 0, SIZE};
        wait_for(up[round % 2]);
        wait_for(down[round % 2]);
        if (round >= 2) {
            fill(expected, (round - 2) * 13 + 7);
            assert_memory_equal(tuff__staging_memory(down[round % 2]), expected, SIZE);
        }
        if (round >= ROUNDS)
            continue;
        if (round % 5 == 3) {
            fill(tuff__staging_memory(up[round % 2]), 1);
            assert_int_equal(tuff__staging_send(up[round % 2], SIZE), TUFF_OK);
            wait_for(up[round % 2]);
        }
        fill(tuff__staging_memory(up[round % 2]), round * 13);
        if (round % 4 != 2 || round % 5 == 3)
            assert_int_equal(tuff__staging_send(up[round % 2], SIZE), TUFF_OK);
        assert_int_equal(tuff__staging_upload(up[round % 2], &whole, 1), TUFF_OK);
        assert_int_equal(tuff__submit(device, recorded), TUFF_OK);
        assert_int_equal(tuff__staging_download(down[round % 2], &whole, 1), TUFF_OK);
    }
    assert_int_equal(tuff__staging_send(down[0], SIZE), TUFF_E_USAGE);
    assert_int_equal(tuff__staging_send(up[0], SIZE + 1), TUFF_E_USAGE);
    assert_int_equal(tuff__staging_send(up[0], SIZE), TUFF_OK); /* never uploaded */
    for (int i = 0; i < 2; i++) {
        tuff__staging_destroy(up[i]);
        tuff__staging_destroy(down[i]);
    }
    tuff__recording_destroy(device, recorded);
    tuff__program_release(device, kernel.program);
    tuff__storage_release(words);
}

static void copies_bytes(void **state)
{
    (void)state;
    for_each_device(check_bytes);
}

static void copies_on_the_device(void **state)
{
    (void)state;
    for_each_device(check_copies);
}

static void keeps_the_order(void **state)
{
    (void)state;
    for_each_driver(check_order);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(copies_bytes), cmocka_unit_test(copies_on_the_device),
                                       cmocka_unit_test(keeps_the_order)};
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
