/* Devices by name, and arrays on every device found: initial zeros, writes, reads, views, versions, refusals, the pool,
   threads, and a lost device. */
#define _XOPEN_SOURCE 700
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "device/state.h"
#include "each_device.h"
#include "tuff/device.h"

static void every_listed_device_opens_by_its_selector(void **state)
{
    (void)state;
    int count = tuff_device_count();
    assert_true(count >= 1);
    for (int i = 0; i < count; i++) {
        tuff_device_info info, opened;
        assert_int_equal(tuff_device_describe_at(i, &info), TUFF_OK);
        tuff_device *device = tuff_device_open(info.selector);
        assert_non_null(device);
        assert_int_equal(tuff_device_describe(device, &opened), TUFF_OK);
        assert_string_equal(opened.name, info.name);
        assert_string_equal(opened.selector, info.selector);
        assert_true(strlen(info.driver) > 0 && strlen(info.api) > 0);
        assert_int_equal(opened.device_class == TUFF_DEVICE_REFERENCE, i == count - 1);
        assert_int_equal(opened.proved, i != count - 1);
        tuff_device_close(device);
    }
    tuff_device_info info;
    assert_int_equal(tuff_device_describe_at(count, &info), TUFF_E_USAGE);
    assert_int_equal(tuff_device_describe_at(-1, &info), TUFF_E_USAGE);
    assert_int_equal(tuff_device_describe_at(0, NULL), TUFF_E_USAGE);
}

static int devices_of(const char *api)
{
    int count = 0;
    for (int i = 0; i < tuff_device_count(); i++) {
        tuff_device_info info;
        assert_int_equal(tuff_device_describe_at(i, &info), TUFF_OK);
        count += strncmp(info.selector, api, strlen(api)) == 0;
    }
    return count;
}

static void an_absent_api_says_why(void **state)
{
    (void)state;
    const char *apis[] = {"opencl", "vulkan"};
    for (int i = 0; i < 2; i++) {
        const char *reason = tuff_device_unavailable_reason(apis[i]);
        if (devices_of(apis[i]) > 0) {
            assert_null(reason);
            continue;
        }
        assert_non_null(reason);
        assert_null(tuff_device_open(apis[i]));
        assert_int_equal(tuff_last_status(), TUFF_E_NO_DEVICE);
        assert_non_null(strstr(tuff_error(), reason));
    }
    assert_non_null(tuff_device_unavailable_reason("direct3d"));
    assert_non_null(tuff_device_unavailable_reason(NULL));
}

static void an_unknown_device_is_refused_with_a_list(void **state)
{
    (void)state;
    const char *names[] = {"cuda",    "opencl:99", "opencl:no such maker", "opencl:",    "vulkan:-1", "open",
                           "opencl0", "Reference", "opencl:4294967296",    "reference:0"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_null(tuff_device_open(names[i]));
        assert_int_equal(tuff_last_status(), TUFF_E_NO_DEVICE);
        assert_non_null(strstr(tuff_error(), names[i]));
        assert_non_null(strstr(tuff_error(), "reference"));
    }
    char longer[4000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    assert_null(tuff_device_open(longer));
}

/* Selects by a part of the device's own name, in upper case. */
static void a_part_of_the_name_selects(void **state)
{
    (void)state;
    if (tuff_device_count() == 1)
        skip();
    for (int i = 0; i < tuff_device_count() - 1; i++) {
        tuff_device_info info, opened;
        assert_int_equal(tuff_device_describe_at(i, &info), TUFF_OK);
        char selector[64] = "";
        size_t api = strcspn(info.selector, ":") + 1;
        memcpy(selector, info.selector, api);
        /* A name of digits only would be taken for an index. */
        for (size_t k = 0; k < 20 && info.name[k + 1]; k++) {
            char c = info.name[k + 1];
            selector[api + k] = (char)(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
        }
        tuff_device *device = tuff_device_open(selector);
        assert_non_null(device);
        assert_int_equal(tuff_device_describe(device, &opened), TUFF_OK);
        assert_int_equal(strncmp(opened.selector, selector, api), 0);
        tuff_device_close(device);
    }
}

static void the_environment_names_the_default(void **state)
{
    (void)state;
    assert_int_equal(setenv("TUFF_DEVICE", "reference", 1), 0);
    tuff_device *device = tuff_device_open(NULL);
    assert_non_null(device);
    assert_true(tuff__device_is_reference(device));
    tuff_device_close(device);
    assert_int_equal(setenv("TUFF_DEVICE", "nowhere", 1), 0);
    assert_null(tuff_device_open(NULL));
    assert_non_null(strstr(tuff_error(), "nowhere"));
    assert_int_equal(setenv("TUFF_DEVICE", "", 1), 0);
    device = tuff_device_open(NULL);
    if (tuff_device_count() > 1) {
        assert_non_null(device);
        assert_false(tuff__device_is_reference(device));
    } else {
        assert_null(device);
        assert_non_null(strstr(tuff_error(), "install"));
    }
    tuff_device_close(device);
    assert_int_equal(unsetenv("TUFF_DEVICE"), 0);
}

static void check_zeros(tuff_device *device)
{
    static unsigned char bytes[4 * 33 * 35], garbage[4 * 33 * 35];
    memset(garbage, 0xa5, sizeof garbage);
    /* The second array reuses the memory of the first, but must be zero. */
    for (int round = 0; round < 2; round++) {
        tuff_array *array = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(33, 35));
        assert_non_null(array);
        assert_int_equal(tuff_array_read(array, bytes, sizeof bytes), TUFF_OK);
        for (size_t i = 0; i < sizeof bytes; i++)
            assert_int_equal(bytes[i], 0);
        assert_int_equal(tuff_array_write(array, garbage, sizeof garbage), TUFF_OK);
        tuff_array_destroy(array);
    }
}

static void a_new_array_is_zero(void **state)
{
    (void)state;
    for_each_device(check_zeros);
}

static void check_transfers(tuff_device *device)
{
    const tuff_dtype dtypes[] = {TUFF_F32, TUFF_F16, TUFF_BF16, TUFF_I32, TUFF_U32, TUFF_I8, TUFF_U8, TUFF_BOOL};
    const int64_t counts[] = {0, 1, 3, 257, 100003};
    static unsigned char source[4 * 100003], kept[4 * 100003], read[4 * 100003];
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++)
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            size_t size = (size_t)counts[c] * tuff_dtype_size(dtypes[d]);
            tuff_array *array = tuff_array_create(device, dtypes[d], TUFF_SHAPE(counts[c]));
            assert_non_null(array);
            assert_int_equal(tuff_array_size(array), size);
            assert_int_equal(tuff_array_dtype(array), dtypes[d]);
            for (size_t i = 0; i < size; i++)
                source[i] = kept[i] = (unsigned char)(i * 31 + d + c);
            assert_int_equal(tuff_array_write(array, source, size), TUFF_OK);
            memset(source, 0, size); /* the caller may reuse it at once */
            assert_int_equal(tuff_array_read(array, read, size), TUFF_OK);
            assert_memory_equal(read, kept, size ? size : 1);
            tuff_array_destroy(array);
        }
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    for_each_device(check_transfers);
}

/* Many writes in a row, of which the last one counts, with the sources reused in between. */
static void check_write_order(tuff_device *device)
{
    enum { COUNT = 5000 };
    static uint32_t words[COUNT], read[COUNT];
    tuff_array *array = tuff_array_create(device, TUFF_U32, TUFF_SHAPE(COUNT));
    assert_non_null(array);
    for (uint32_t round = 0; round < 400; round++) {
        for (uint32_t i = 0; i < COUNT; i++)
            words[i] = round * 7919 + i;
        assert_int_equal(tuff_array_write(array, words, sizeof words), TUFF_OK);
    }
    assert_int_equal(tuff_array_read(array, read, sizeof read), TUFF_OK);
    assert_memory_equal(read, words, sizeof words);
    assert_int_equal(tuff_array_version(array), 400);
    tuff_array_destroy(array);
}

static void writes_keep_their_order(void **state)
{
    (void)state;
    for_each_device(check_write_order);
}

static void check_views(tuff_device *device)
{
    float numbers[12], read[12] = {0};
    for (int i = 0; i < 12; i++)
        numbers[i] = (float)i;
    tuff_array *whole = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(3, 4));
    assert_non_null(whole);
    assert_int_equal(tuff_array_write(whole, numbers, sizeof numbers), TUFF_OK);
    tuff_array *row = tuff_array_view(whole, 4, TUFF_SHAPE(4));
    tuff_array *part = tuff_array_view(row, 1, TUFF_SHAPE(2, 1));
    tuff_array *none = tuff_array_view(whole, 12, TUFF_SHAPE(0, 7));
    assert_non_null(row);
    assert_non_null(part);
    assert_non_null(none);
    assert_int_equal(tuff_array_shape(part).rank, 2);
    assert_null(tuff_array_view(whole, 9, TUFF_SHAPE(4)));
    assert_null(tuff_array_view(whole, -1, TUFF_SHAPE(1)));
    assert_null(tuff_array_view(row, 0, TUFF_SHAPE(5)));
    assert_non_null(strstr(tuff_error(), "[5]"));
    assert_int_equal(tuff_array_version(part), tuff_array_version(whole));
    const float changed[2] = {50, 60};
    assert_int_equal(tuff_array_write(part, changed, sizeof changed), TUFF_OK);
    assert_int_equal(tuff_array_version(whole), 2);
    assert_int_equal(tuff_array_read(whole, read, sizeof read), TUFF_OK);
    numbers[5] = 50;
    numbers[6] = 60;
    assert_memory_equal(read, numbers, sizeof numbers);
    /* The storage outlives the array that created it. */
    tuff_array_destroy(whole);
    tuff_array_destroy(none);
    assert_int_equal(tuff_array_read(row, read, 16), TUFF_OK);
    assert_memory_equal(read, numbers + 4, 16);
    tuff_array_destroy(row);
    assert_int_equal(tuff_array_read(part, read, 8), TUFF_OK);
    assert_memory_equal(read, changed, 8);
    tuff_array_destroy(part);
}

static void views_share_the_storage(void **state)
{
    (void)state;
    for_each_device(check_views);
}

static void check_refusals(tuff_device *device)
{
    tuff_shape deep = {.rank = 9}, negative = {.rank = -1};
    assert_null(tuff_array_create(NULL, TUFF_F32, TUFF_SHAPE(1)));
    assert_int_equal(tuff_last_status(), TUFF_E_USAGE);
    assert_null(tuff_array_create(device, TUFF_F64, TUFF_SHAPE(1)));
    assert_int_equal(tuff_last_status(), TUFF_E_DTYPE);
    assert_null(tuff_array_create(device, (tuff_dtype)77, TUFF_SHAPE(1)));
    assert_int_equal(tuff_last_status(), TUFF_E_DTYPE);
    assert_null(tuff_array_create(device, TUFF_F32, TUFF_SHAPE(2, -3)));
    assert_int_equal(tuff_last_status(), TUFF_E_SHAPE);
    assert_null(tuff_array_create(device, TUFF_F32, TUFF_SHAPE(INT64_MAX)));
    assert_int_equal(tuff_last_status(), TUFF_E_SHAPE);
    assert_null(tuff_array_create(device, TUFF_F32, deep));
    assert_null(tuff_array_create(device, TUFF_F32, negative));
    assert_null(tuff_array_create(device, TUFF_U8, TUFF_SHAPE(INT64_MAX - 1000)));
    assert_int_equal(tuff_last_status(), TUFF_E_LIMIT);
    tuff_array *array = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(4));
    assert_non_null(array);
    float numbers[5] = {0};
    assert_int_equal(tuff_array_write(array, numbers, 20), TUFF_E_USAGE);
    assert_int_equal(tuff_array_read(array, numbers, 12), TUFF_E_USAGE);
    assert_int_equal(tuff_array_write(array, NULL, 16), TUFF_E_USAGE);
    assert_int_equal(tuff_array_read(NULL, numbers, 16), TUFF_E_USAGE);
    assert_int_equal(tuff_array_version(array), 0);
    tuff_array_destroy(array);
    tuff_array_destroy(NULL);
    tuff_device_close(NULL);
}

static void wrong_use_is_refused(void **state)
{
    (void)state;
    for_each_device(check_refusals);
}

static void check_counters(tuff_device *device)
{
    tuff_device_counters counters;
    float numbers[256] = {0};
    tuff_array *array = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(256));
    tuff_array *other = tuff_array_create(device, TUFF_U8, TUFF_SHAPE(1));
    assert_non_null(array);
    assert_non_null(other);
    assert_int_equal(tuff_array_write(array, numbers, sizeof numbers), TUFF_OK);
    assert_int_equal(tuff_array_read(array, numbers, sizeof numbers), TUFF_OK);
    assert_int_equal(tuff_array_read(array, numbers, sizeof numbers), TUFF_OK);
    tuff_array_destroy(other);
    assert_int_equal(tuff_device_counters_get(device, &counters), TUFF_OK);
    assert_int_equal(counters.reads, 2);
    assert_int_equal(counters.writes, 1);
    assert_int_equal(counters.bytes_allocated, 1024);
    assert_int_equal(counters.bytes_peak, 1280);
    assert_int_equal(counters.programs_compiled + counters.programs_from_disk, 0);
    tuff_array_destroy(array);
    assert_int_equal(tuff_device_counters_get(device, &counters), TUFF_OK);
    assert_int_equal(counters.bytes_allocated, 0);
}

static void work_is_counted(void **state)
{
    (void)state;
    for_each_device(check_counters);
}

static void check_pool(tuff_device *device)
{
    storage *first = NULL, *second = NULL, *small = NULL;
    assert_int_equal(tuff__storage_create(device, 100000, false, &first), TUFF_OK);
    driver_buffer *buffer = tuff__storage_buffer(first);
    tuff__storage_release(first);
    assert_int_equal(tuff__storage_create(device, 1000, false, &small), TUFF_OK);
    assert_ptr_not_equal(tuff__storage_buffer(small), buffer);
    assert_int_equal(tuff__storage_create(device, 90000, false, &second), TUFF_OK);
    assert_ptr_equal(tuff__storage_buffer(second), buffer);
    assert_int_equal(tuff__storage_size(second), 90112);
    assert_int_equal(tuff__storage_version(second), 0);
    tuff__storage_release(second);
    tuff__storage_release(small);
}

static void the_pool_reuses_what_fits(void **state)
{
    (void)state;
    for_each_driver(check_pool);
}

/* The pool keeps an eighth of the device's memory: the buffers released last, as many as fit. */
static void check_pool_limit(tuff_device *device)
{
    storage *storages[6] = {NULL};
    device->info.memory_size = 8 * 100000;
    for (int i = 0; i < 6; i++)
        assert_int_equal(tuff__storage_create(device, 30000, false, &storages[i]), TUFF_OK);
    for (int i = 0; i < 6; i++) {
        tuff__storage_release(storages[i]);
        assert_true(device->idle_size <= 100000);
    }
    assert_int_equal(device->idle_size, 3 * 30208);
    storage *large = NULL; /* too large to be kept: the others stay */
    assert_int_equal(tuff__storage_create(device, 200000, false, &large), TUFF_OK);
    tuff__storage_release(large);
    assert_int_equal(device->idle_size, 3 * 30208);
    tuff_device_counters counters;
    assert_int_equal(tuff_device_counters_get(device, &counters), TUFF_OK);
    assert_int_equal(counters.bytes_allocated, 0);
    assert_int_equal(counters.bytes_peak, 200192);
}

static void the_pool_keeps_within_its_limit(void **state)
{
    (void)state;
    for_each_driver(check_pool_limit);
}

static const driver *real;
static int failures_left;

static tuff_status fail_out_of_memory(driver_device *device, uint64_t size, driver_buffer **buffer)
{
    if (failures_left > 0) {
        failures_left--;
        return tuff__fail(TUFF_E_OOM_DEVICE, "no room");
    }
    return real->buffer_create(device, size, buffer);
}

static void check_pressure(tuff_device *device)
{
    driver scarce = *device->driver;
    real = device->driver;
    scarce.buffer_create = fail_out_of_memory;
    scarce.buffer_create_anywhere = NULL;
    storage *idle = NULL, *wanted = NULL;
    assert_int_equal(tuff__storage_create(device, 4096, false, &idle), TUFF_OK);
    tuff__storage_release(idle);
    assert_non_null(device->idle);
    device->driver = &scarce;
    failures_left = 1;
    assert_int_equal(tuff__storage_create(device, 1 << 20, false, &wanted), TUFF_OK);
    assert_null(device->idle);
    /* If the pool is empty, the failed allocation is not retried. */
    storage *none = NULL;
    failures_left = 1;
    assert_int_equal(tuff__storage_create(device, 1 << 21, false, &none), TUFF_E_OOM_DEVICE);
    assert_null(none);
    assert_int_equal(failures_left, 0);
    assert_int_equal(tuff__storage_create(device, 1 << 21, false, &none), TUFF_OK);
    device->driver = real;
    tuff__storage_release(none);
    tuff__storage_release(wanted);
}

static void memory_pressure_empties_the_pool(void **state)
{
    (void)state;
    for_each_driver(check_pressure);
}

static tuff_status lose(driver_device *device, driver_recording *recorded)
{
    (void)device;
    (void)recorded;
    return tuff__fail(TUFF_E_DEVICE_LOST, "the cable was pulled");
}

static void check_loss(tuff_device *device)
{
    driver broken = *device->driver;
    real = device->driver;
    broken.submit = lose;
    float numbers[4] = {0};
    test_kernel kernel;
    make_kernel(device, &kernel, "nothing_much", "x[i] = i;");
    storage *words = make_words(device, 64);
    tuff_array *array = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(4));
    command dispatch = dispatch_over(device, &kernel, words, 64);
    recording *recorded = NULL;
    assert_int_equal(tuff__recording_create(device, &dispatch, 1, false, false, &recorded), TUFF_OK);
    device->driver = &broken;
    assert_int_equal(tuff__submit(device, recorded), TUFF_E_DEVICE_LOST);
    device->driver = real;
    /* From now on every call fails with the reason, even though the driver works again. */
    assert_int_equal(tuff__submit(device, recorded), TUFF_E_DEVICE_LOST);
    assert_int_equal(tuff__wait(device), TUFF_E_DEVICE_LOST);
    assert_int_equal(tuff_array_read(array, numbers, sizeof numbers), TUFF_E_DEVICE_LOST);
    assert_int_equal(tuff_array_write(array, numbers, sizeof numbers), TUFF_E_DEVICE_LOST);
    assert_non_null(strstr(tuff_error(), "the cable was pulled"));
    assert_null(tuff_array_create(device, TUFF_F32, TUFF_SHAPE(4)));
    program_request request = test_request(device, &kernel, "another", "x[i] = 1;");
    program *none = NULL;
    assert_int_equal(tuff__program_get(device, &request, &none), TUFF_E_DEVICE_LOST);
    assert_int_equal(tuff__refused_dispatch(device, NULL), -1); /* of a plan without commands */
    tuff__recording_destroy(device, recorded);
    tuff__program_release(device, kernel.program);
    tuff__storage_release(words);
    tuff_array_destroy(array);
}

static void a_lost_device_stays_lost_and_opens_anew(void **state)
{
    (void)state;
    for_each_driver(check_loss);
    for_each_driver(check_zeros);
}

typedef struct worker {
    tuff_device *device;
    uint32_t seed;
    int wrong;
} worker;

/* Uses no assertions: cmocka supports them on the main thread only. */
static void *work(void *argument)
{
    worker *self = argument;
    uint32_t words[500], read[500];
    for (uint32_t round = 0; round < 40; round++) {
        tuff_array *array = tuff_array_create(self->device, TUFF_U32, TUFF_SHAPE(500));
        for (uint32_t i = 0; i < 500; i++)
            words[i] = self->seed * 1000003u + round * 500 + i;
        if (!array || tuff_array_write(array, words, sizeof words) != TUFF_OK ||
            tuff_array_read(array, read, sizeof read) != TUFF_OK || memcmp(words, read, sizeof read) != 0)
            self->wrong++;
        tuff_array_destroy(array);
    }
    return NULL;
}

static void check_threads(tuff_device *device)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){device, (uint32_t)i + 1, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(workers[i].wrong, 0);
    }
}

static void threads_share_a_device(void **state)
{
    (void)state;
    for_each_device(check_threads);
}

static void objects_that_are_none_are_refused(void **state)
{
    (void)state;
#if !defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN
    const bool with_vulkan = true;
#else
    const bool with_vulkan = false;
#endif
    int something = 0;
    tuff_vulkan_handles handles = {0};
    assert_null(tuff_device_wrap_opencl(&(tuff_opencl_handles){.context = &something, .queue = &something}));
    assert_int_equal(tuff_last_status(), TUFF_E_USAGE);
    assert_null(tuff_device_wrap_opencl(NULL));
    assert_int_equal(tuff_last_status(), TUFF_E_USAGE);
    assert_null(tuff_device_wrap_vulkan(&handles));
    assert_int_equal(tuff_last_status(), with_vulkan ? TUFF_E_USAGE : TUFF_E_NO_DEVICE);
    tuff_device *reference = tuff_device_open("reference");
    assert_null(tuff_array_import(reference, &something, 0, TUFF_F32, TUFF_SHAPE(1)));
    assert_int_equal(tuff_last_status(), TUFF_E_UNSUPPORTED);
    assert_null(tuff_array_import(reference, NULL, 0, TUFF_F32, TUFF_SHAPE(1)));
    assert_int_equal(tuff_last_status(), TUFF_E_USAGE);
    tuff_device_close(reference);
    assert_null(tuff_device_wrap_vulkan(NULL));
    assert_true(strlen(tuff_vulkan_requirements()) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_listed_device_opens_by_its_selector),
        cmocka_unit_test(an_absent_api_says_why),
        cmocka_unit_test(an_unknown_device_is_refused_with_a_list),
        cmocka_unit_test(a_part_of_the_name_selects),
        cmocka_unit_test(the_environment_names_the_default),
        cmocka_unit_test(a_new_array_is_zero),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(writes_keep_their_order),
        cmocka_unit_test(views_share_the_storage),
        cmocka_unit_test(wrong_use_is_refused),
        cmocka_unit_test(work_is_counted),
        cmocka_unit_test(the_pool_reuses_what_fits),
        cmocka_unit_test(the_pool_keeps_within_its_limit),
        cmocka_unit_test(memory_pressure_empties_the_pool),
        cmocka_unit_test(a_lost_device_stays_lost_and_opens_anew),
        cmocka_unit_test(threads_share_a_device),
        cmocka_unit_test(objects_that_are_none_are_refused),
    };
    return cmocka_run_group_tests_name("device", tests, use_empty_cache, drop_cache);
}
