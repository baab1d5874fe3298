/* Programs whose binary costs a second compilation, as PoCL's do: they are stored once a plan has proved useful, so
   that the second start of a program compiles nothing. Several programs are compiled at once. */
#define _XOPEN_SOURCE 700
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

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

enum { TEXTS = 6, REQUESTS = TEXTS + 2 };

static _Atomic int in_the_compiler, most_in_the_compiler, creations;

/* Waits until another thread is in the compiler too, or for two seconds. */
static tuff_status create_beside(driver_device *device, const program_request *request, blob cached, blob *made,
                                 driver_program **out)
{
    const struct timespec moment = {.tv_nsec = 10000000};
    const int inside = ++in_the_compiler;
    creations++;
    for (int i = 0; i < 200 && most_in_the_compiler < 2; i++) {
        if (inside > most_in_the_compiler)
            most_in_the_compiler = inside;
        (void)nanosleep(&moment, NULL);
    }
    const tuff_status status = real->program_create(device, request, cached, made, out);
    in_the_compiler--;
    return status;
}

/* Six texts, one of them twice, and one that does not compile. */
static void prepare_several(tuff_device *device)
{
    driver watched = *device->driver;
    test_kernel kernels[REQUESTS];
    program_request requests[REQUESTS];
    program *out[REQUESTS] = {NULL}, *same;
    for (int i = 0; i < REQUESTS; i++) {
        char statement[32];
        (void)snprintf(statement, sizeof statement, i <= TEXTS ? "x[i] = %du;" : "nonsense %d;", 70 + i % TEXTS);
        requests[i] = test_request(device, &kernels[i], "test_prepare", statement);
    }
    real = device->driver;
    watched.program_create = create_beside;
    device->driver = &watched;
    in_the_compiler = most_in_the_compiler = creations = 0;
    forget();
    tuff__programs_prepare(device, requests, REQUESTS, out);
    assert_int_equal(in_the_compiler, 0);
    assert_int_equal(creations, TEXTS + 1);
    assert_true(most_in_the_compiler > 1 || sysconf(_SC_NPROCESSORS_ONLN) == 1);
    for (int i = 0; i < TEXTS; i++)
        assert_non_null(out[i]);
    assert_null(out[TEXTS]);
    assert_null(out[TEXTS + 1]);
    assert_int_equal(tuff__program_get(device, &requests[TEXTS], &same), TUFF_OK);
    assert_ptr_equal(same, out[0]);
    assert_int_equal(tuff__program_get(device, &requests[TEXTS + 1], &out[TEXTS + 1]), TUFF_E_COMPILE);
    tuff__programs_prepare(device, requests, TEXTS, out); /* all are in memory */
    assert_int_equal(creations, TEXTS + 2);
    device->driver = real;
    tuff__program_release(device, same);
    for (int i = 0; i < TEXTS; i++)
        tuff__program_release(device, out[i]);
    for (int i = 0; i < TEXTS; i++)
        assert_false(tuff__program_is_loaded(device, &requests[i]));
}

static void programs_are_compiled_at_once(void **state)
{
    (void)state;
    for_each_driver(prepare_several);
}

/* The kernels of the self-test are compiled at once, too. */
static void test_itself(tuff_device *device)
{
    driver watched = *device->driver;
    const tuff_device_info info = device->info;
    real = device->driver;
    watched.program_create = create_beside;
    in_the_compiler = most_in_the_compiler = creations = 0;
    forget();
    forget_cache_files(".device");
    device->info = claims_of(device);
    device->driver = &watched;
    assert_int_equal(tuff__device_self_test(device), TUFF_OK);
    device->driver = real;
    assert_true(device->info.proved);
    device->info = info;
    assert_int_equal(in_the_compiler, 0);
    assert_true(creations > 2);
    assert_true(most_in_the_compiler > 1 || sysconf(_SC_NPROCESSORS_ONLN) == 1);
}

static void the_self_test_compiles_at_once(void **state)
{
    (void)state;
    for_each_driver(test_itself);
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

static bool takes_signals;

static tuff_status note_signals(driver_device *device, const program_request *request, blob cached, blob *made,
                                driver_program **out)
{
    sigset_t blocked;
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &blocked), 0);
    takes_signals = sigismember(&blocked, SIGINT) != 1;
    return real->program_create(device, request, cached, made, out);
}

/* Signals are for the program's threads: none interrupts a compiler. */
static void check_signals(tuff_device *device)
{
    test_kernel kernel;
    driver noting = *device->driver;
    real = device->driver;
    noting.program_create = note_signals;
    device->driver = &noting;
    takes_signals = true;
    tuff__device_limit_compiles(device, UINT64_C(600000000000));
    make_kernel(device, &kernel, "fours", "x[i] = 4;");
    assert_false(takes_signals);
    tuff__program_release(device, kernel.program);
    device->driver = real;
}

static void a_compiler_under_a_deadline_takes_no_signals(void **state)
{
    (void)state;
    forget();
    for_each_driver(check_signals);
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
        cmocka_unit_test(programs_are_compiled_at_once),
        cmocka_unit_test(the_self_test_compiles_at_once),
        cmocka_unit_test(a_compiler_under_a_deadline_takes_no_signals),
        cmocka_unit_test(a_second_start_compiles_nothing),
    };
    return cmocka_run_group_tests_name("program_keep", tests, use_empty_cache, drop_cache);
}
