/* Programs whose binary costs a second compilation, as PoCL's do: they are stored once a plan has proved useful, so
   that the second start of a program compiles nothing. */
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "device/state.h"
#include "each_device.h"
#include "tuff.h"

static const driver *real;

static void forget(void)
{
    forget_cache_files(".seen");
    forget_cache_files(".program");
}

static int binary_reads;

static bool is_always_costly(driver_device *device)
{
    (void)device;
    return true;
}

static tuff_status count_bytes(driver_device *device, driver_program *compiled, blob *made)
{
    (void)device;
    (void)compiled;
    binary_reads++;
    *made = (blob){tuff__strdup("bytes"), 5};
    return made->data ? TUFF_OK : TUFF_E_OOM_HOST;
}

static tuff_status want_none(driver_device *device, const program_request *request, blob cached, blob *made,
                             driver_program **out)
{
    assert_null(made);
    blob dropped = {0};
    const tuff_status status = real->program_create(device, request, cached, &dropped, out);
    tuff__free(dropped.data);
    return status;
}

/* Ends a plan with two programs after so many nanoseconds of use. Returns how many of the programs are stored. */
static int keep_two(tuff_device *device, bool launched, uint64_t used)
{
    test_kernel kernels[2];
    make_kernel(device, &kernels[0], "ones", "x[i] = 1;");
    make_kernel(device, &kernels[1], "twos", "x[i] = 2;");
    program *programs[] = {kernels[0].program, NULL, kernels[1].program, kernels[0].program};
    binary_reads = 0;
    device->binary_cost = 0;
    tuff__programs_store(device, programs, 4, launched, used);
    const int kept = binary_reads;
    tuff__programs_store(device, programs, 4, launched, used / 1000);
    assert_int_equal(binary_reads, kept);
    for (int i = 0; i < 2; i++)
        tuff__program_release(device, kernels[i].program);
    assert_int_equal(count_cache_files(".program", NULL, 0), kept);
    assert_int_equal(count_cache_files(".seen", NULL, 0), 2 - kept);
    return kept;
}

/* If nothing can be stored, the driver is not asked for binaries that cost a compilation. */
static void check_without_a_cache(tuff_device *device)
{
    test_kernel kernel;
    char *folder = tuff__strdup(getenv("TUFF_CACHE_DIR"));
    assert_int_equal(setenv("TUFF_CACHE_DIR", "", 1), 0);
    make_kernel(device, &kernel, "threes", "x[i] = 3;");
    binary_reads = 0;
    tuff__programs_store(device, &kernel.program, 1, true, UINT64_MAX);
    assert_int_equal(binary_reads, 0);
    assert_int_equal(setenv("TUFF_CACHE_DIR", folder, 1), 0);
    tuff__programs_store(device, &kernel.program, 1, true, UINT64_MAX);
    assert_int_equal(binary_reads, 1);
    tuff__program_release(device, kernel.program);
    tuff__free(folder);
}

/* The first binary is expected to take a tenth of a second; after that the fake driver's measured cost is close to
   zero. */
static void check_costly_bytes(tuff_device *device)
{
    driver costly = *device->driver;
    real = device->driver;
    costly.program_create = want_none;
    costly.is_binary_costly = is_always_costly;
    costly.program_bytes = count_bytes;
    device->driver = &costly;
    forget();
    assert_int_equal(keep_two(device, true, 199999999), 0);
    assert_int_equal(keep_two(device, true, 99999999), 0);
    assert_int_equal(keep_two(device, true, 100000000), 2); /* seen in an earlier start */
    forget();
    assert_int_equal(keep_two(device, true, 200000000), 2);
    forget();
    assert_int_equal(keep_two(device, false, 400000000), 0);
    assert_int_equal(keep_two(device, false, 400000000), 2);
    forget();
    check_without_a_cache(device);
    forget();
    device->driver = real;
}

static void costly_bytes_are_kept_after_enough_use(void **state)
{
    (void)state;
    for_each_driver(check_costly_bytes);
}

/* Runs a graph's plan for a moment. Returns what its start compiled and loaded from disk. */
static tuff_device_counters start_once(const char *selector)
{
    tuff_device_counters before, after;
    const struct timespec use = {.tv_nsec = 500000000};
    float x[256], y[256];
    tuff_device *device = tuff_device_open(selector);
    assert_non_null(device);
    assert_int_equal(tuff_device_counters_get(device, &before), TUFF_OK);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *input = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(256));
    tuff_output(graph, "y", tuff_add(tuff_mul(input, input), input));
    tuff_plan *plan = tuff_compile(graph, NULL);
    assert_non_null(plan);
    assert_int_equal(tuff_device_counters_get(device, &after), TUFF_OK);
    for (int i = 0; i < 256; i++)
        x[i] = (float)i;
    assert_int_equal(tuff_plan_write(plan, "x", x, sizeof x), TUFF_OK);
    assert_int_equal(tuff_plan_run(plan), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "y", y, sizeof y), TUFF_OK);
    for (int i = 0; i < 256; i++)
        assert_true(y[i] == (float)(i * i + i));
    (void)nanosleep(&use, NULL);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    tuff_device_close(device);
    after.programs_compiled -= before.programs_compiled;
    after.programs_from_disk -= before.programs_from_disk;
    return after;
}

static void a_second_start_compiles_nothing(void **state)
{
    (void)state;
    if (tuff_device_count() == 1)
        skip();
    for (int i = 0; i < tuff_device_count() - 1; i++) {
        tuff_device_info info;
        assert_int_equal(tuff_device_describe_at(i, &info), TUFF_OK);
        print_message("  %s: %s\n", info.selector, info.name);
        forget();
        const tuff_device_counters first = start_once(info.selector), second = start_once(info.selector);
        assert_int_equal(first.programs_compiled, 1);
        assert_int_equal(first.programs_from_disk, 0);
        assert_int_equal(second.programs_compiled, 0);
        assert_int_equal(second.programs_from_disk, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costly_bytes_are_kept_after_enough_use),
        cmocka_unit_test(a_second_start_compiles_nothing),
    };
    return cmocka_run_group_tests_name("program_keep", tests, use_empty_cache, drop_cache);
}
