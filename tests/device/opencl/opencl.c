/* The OpenCL driver with failing calls: each call of a script fails once, with each kind of error. The status must be
   the right one, no object or block may leak, and the script must run again afterwards. Also tests waits that time
   out. */
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/state.h"
#include "each_device.h"

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
#include "opencl_faults.h"

static long blocks;

static void *count_allocate(void *user, size_t size)
{
    (void)user;
    void *block = malloc(size);
    __atomic_add_fetch(&blocks, block != NULL, __ATOMIC_RELAXED);
    return block;
}

static void *count_reallocate(void *user, void *block, size_t size)
{
    (void)user;
    void *moved = realloc(block, size);
    __atomic_add_fetch(&blocks, !block && moved, __ATOMIC_RELAXED);
    return moved;
}

static void count_release(void *user, void *block)
{
    (void)user;
    __atomic_sub_fetch(&blocks, block != NULL, __ATOMIC_RELAXED);
    free(block);
}

enum { COUNT = 3000, LARGE = 5 << 20 };

/* The objects that the script creates; any of them may be missing at its end. */
typedef struct script {
    tuff_device *device;
    storage *words, *copy, *large;
    staging *staged;
    program *compiled, *from_disk;
    recording *recorded, *timed;
} script;

static tuff_status make_storages(script *run)
{
    static unsigned char bytes[LARGE];
    uint32_t words[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
        words[i] = i;
    TRY(tuff__storage_create(run->device, sizeof words, true, &run->words));
    TRY(tuff__storage_create(run->device, sizeof words, false, &run->copy));
    TRY(tuff__storage_create(run->device, LARGE, false, &run->large));
    TRY(tuff__storage_write(run->device, run->words, 0, words, sizeof words));
    TRY(tuff__storage_write(run->device, run->large, 0, bytes, sizeof bytes));
    return TUFF_OK;
}

/* Whether the script compiles: this takes most of its time, and tests only few calls. */
static bool compiles = true;

/* Creates one program from the cache, if an earlier run stored it there; another one, and a broken one, from source. */
static tuff_status make_programs(script *run)
{
    test_kernel texts;
    program *broken = NULL;
    program_request request = test_request(run->device, &texts, "from_disk", "x[i] = x[i] * 3u;");
    TRY(tuff__program_get(run->device, &request, &run->from_disk));
    request = test_request(run->device, &texts, "from_text", "x[i] = x[i] + 1u;");
    if (!compiles)
        return tuff__program_get(run->device, &request, &run->compiled);
    assert_int_equal(setenv("TUFF_CACHE_DIR", "", 1), 0);
    tuff_status status = tuff__program_get(run->device, &request, &run->compiled);
    if (status == TUFF_OK) {
        request = test_request(run->device, &texts, "broken", "x[i] = none;");
        status = tuff__program_get(run->device, &request, &broken);
        assert_int_not_equal(status, TUFF_OK);
        if (status == TUFF_E_COMPILE)
            status = TUFF_OK;
    }
    assert_int_equal(setenv("TUFF_CACHE_DIR", cache_folder(), 1), 0);
    return status;
}

/* x = (x + 1) * 3 in parts, then a copy with a gap. */
static tuff_status make_recordings(script *run)
{
    test_kernel first = {.program = run->compiled}, second = {.program = run->from_disk};
    command commands[4] = {dispatch_over(run->device, &first, run->words, COUNT),
                           dispatch_over(run->device, &second, run->words, COUNT),
                           {.kind = COMMAND_COPY, .binding_count = 2},
                           {.kind = COMMAND_FILL_ZERO, .binding_count = 1}};
    commands[2].bindings[0] = buffer_range(run->words, 0, COUNT * 4, false);
    commands[2].bindings[1] = buffer_range(run->copy, 0, COUNT * 4, true);
    commands[3].bindings[0] = buffer_range(run->copy, 400, 4, true);
    TRY(tuff__recording_create(run->device, commands, 4, false, false, &run->recorded));
    return tuff__recording_create(run->device, commands, 4, false, true, &run->timed);
}

static tuff_status submit_all(script *run)
{
    uint64_t nanoseconds[4] = {0};
    TRY(tuff__submit(run->device, run->recorded));
    TRY(tuff__storage_write(run->device, run->large, 16, nanoseconds, 16));
    TRY(tuff__submit(run->device, run->timed));
    TRY(tuff__wait(run->device));
    return tuff__timestamps(run->device, run->timed, nanoseconds);
}

static tuff_status wait_staged(script *run)
{
    bool done = false;
    while (!done) {
        TRY(tuff__staging_poll(run->staged, &done));
        tuff__sleep(done ? 0 : 100000);
    }
    return TUFF_OK;
}

/* An upload and a download, one after the other on the queue. */
static tuff_status move_staged(script *run)
{
    TRY(tuff__staging_create(run->device, 512, true, &run->staged));
    unsigned char *bytes = tuff__staging_memory(run->staged);
    for (int i = 0; i < 256; i++)
        bytes[i] = (unsigned char)(i ^ 5);
    const staging_transfer up[] = {{run->large, 1000, 0, 100}, {run->large, 5000, 100, 156}};
    const staging_transfer down[] = {{run->large, 1000, 256, 100}, {run->large, 5000, 356, 156}};
    TRY(tuff__submit(run->device, run->recorded));
    TRY(tuff__storage_copy(run->device, run->copy, 0, run->large, 1000, 300));
    TRY(tuff__staging_upload(run->staged, up, 2));
    TRY(wait_staged(run));
    TRY(tuff__staging_send(run->staged, 256));
    TRY(tuff__staging_upload(run->staged, up, 2));
    TRY(wait_staged(run));
    TRY(tuff__staging_download(run->staged, down, 2));
    TRY(wait_staged(run));
    assert_memory_equal(bytes, bytes + 256, 256);
    return TUFF_OK;
}

static tuff_status check_result(script *run)
{
    uint32_t words[COUNT];
    TRY(tuff__storage_read(run->device, run->copy, 0, words, sizeof words));
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(words[i], i == 100 ? 0 : ((i + 1) * 3 + 1) * 3);
    return TUFF_OK;
}

static tuff_status run_steps(script *run)
{
    TRY(make_storages(run));
    TRY(make_programs(run));
    TRY(make_recordings(run));
    TRY(submit_all(run));
    TRY(check_result(run));
    return move_staged(run);
}

static void end_script(script *run)
{
    tuff__staging_destroy(run->staged);
    tuff__recording_destroy(run->device, run->timed);
    tuff__recording_destroy(run->device, run->recorded);
    tuff__program_release(run->device, run->compiled);
    tuff__program_release(run->device, run->from_disk);
    tuff__storage_release(run->words);
    tuff__storage_release(run->copy);
    tuff__storage_release(run->large);
    tuff_device_close(run->device);
}

static tuff_status run_script(const char *selector)
{
    script run = {.device = tuff_device_open(selector)};
    if (!run.device)
        return tuff_last_status();
    /* Makes every driver fetch binaries on first use. */
    run.device->handle->is_pocl = false;
    tuff_status status = run_steps(&run);
    end_script(&run);
    return status;
}

typedef struct fault {
    cl_int error;
    tuff_status status;
} fault;

static const fault kinds[] = {{CL_OUT_OF_RESOURCES, TUFF_E_OOM_DEVICE},
                              {CL_DEVICE_NOT_AVAILABLE, TUFF_E_DEVICE_LOST},
                              {CL_OUT_OF_HOST_MEMORY, TUFF_E_OOM_HOST}};

/* Accepts harmless failures (a retry, a release), and ones that hide the device while names are looked up. */
static void expect_clean(const char *selector, int site, int call, fault kind, long blocks_before)
{
    arm(site, call, 1, kind.error);
    tuff_status status = run_script(selector);
    bool fits = status == TUFF_OK || status == TUFF_E_NO_DEVICE || status == kind.status;
    if (!fits || (status != TUFF_OK && !tuff_error()[0]))
        fail_msg("%s, call %d, error %d: status %s: %s", site_names[site], call, kind.error, tuff_status_name(status),
                 tuff_error());
    if (faults.alive != 0 || faults.null_handles != 0 || blocks != blocks_before)
        fail_msg("%s, call %d, error %d: %d objects and %ld blocks left over, %d null handles", site_names[site], call,
                 kind.error, faults.alive, blocks - blocks_before, faults.null_handles);
}

static bool is_about_compiling(int site)
{
    return site == SITE_CreateProgramWithSource || site == SITE_BuildProgram || site == SITE_GetProgramBuildInfo ||
           site == SITE_GetProgramInfo || site == SITE_GetKernelWorkGroupInfo || site == SITE_ReleaseProgram;
}

/* The number of event polls depends on time: only the first ones are made to fail. */
static int call_limit(int site)
{
    return site == SITE_GetEventInfo ? 40 : 100000;
}

static void fail_every_call(const char *selector)
{
    disarm();
    compiles = false;
    assert_int_equal(run_script(selector), TUFF_OK);
    long before = blocks;
    int total = 0;
    for (int site = 0; site < SITE_COUNT; site++) {
        compiles = is_about_compiling(site);
        for (int call = 1; call <= call_limit(site); call++) {
            expect_clean(selector, site, call, kinds[call % 3], before);
            if (faults.hits == 0)
                break;
            total++;
            if (call <= 2) {
                expect_clean(selector, site, call, kinds[(call + 1) % 3], before);
                expect_clean(selector, site, call, kinds[(call + 2) % 3], before);
            }
        }
        disarm();
        assert_int_equal(run_script(selector), TUFF_OK);
        assert_int_equal(blocks, before);
    }
    compiles = true;
    print_message("  %s: %d calls failed\n", selector, total);
}

/* Every call that the script reaches must be one that was made to fail. */
static void expect_every_site_reached(const char *selector)
{
    assert_int_equal(run_script(selector), TUFF_OK);
    disarm();
    assert_int_equal(run_script(selector), TUFF_OK);
    for (int site = 0; site < SITE_COUNT; site++) {
        bool other = site == SITE_GetPlatformIDs || site == SITE_GetDeviceIDs || site == SITE_RetainContext ||
                     site == SITE_RetainCommandQueue || site == SITE_RetainMemObject ||
                     site == SITE_GetCommandQueueInfo || site == SITE_GetMemObjectInfo || site == SITE_RetainEvent ||
                     site == SITE_WaitForEvents || site == SITE_SetMemObjectDestructorCallback;
        if (faults.calls[site] == 0 && !other)
            fail_msg("the script does not reach %s", site_names[site]);
    }
}

/* Runs the test on the devices from the first to the last; they are listed before those of other APIs. */
static void for_some_opencl(int first, int last, void (*test)(const char *selector))
{
    for (int i = first; i <= last; i++) {
        tuff_device_info info;
        assert_int_equal(tuff_device_describe_at(i, &info), TUFF_OK);
        assert_int_equal(strncmp(info.selector, "opencl:", 7), 0);
        test(info.selector);
    }
}

/* Returns the number of devices, or skips the test if there is none. */
static int count_opencl(void)
{
    const char *absence;
    if (tuff_device_unavailable_reason("opencl"))
        skip();
    return tuff__driver_opencl.count(&absence);
}

static void for_each_opencl(void (*test)(const char *selector))
{
    for_some_opencl(0, count_opencl() - 1, test);
}

/* For tests that take long: one device, or all in a thorough run. */
static void for_drawn_opencl(int number, void (*test)(const char *selector))
{
    const int count = count_opencl(), drawn = drawn_turn("OpenCL device", number, count);
    for_some_opencl(is_thorough() ? 0 : drawn, is_thorough() ? count - 1 : drawn, test);
}

static void every_call_may_fail_once(void **state)
{
    (void)state;
    tuff__cl_group_limit = 40;
    for_each_opencl(expect_every_site_reached);
    for_drawn_opencl(0, fail_every_call);
}

/* Calls that keep failing: nothing hangs, and the device can be closed. */
static void fail_for_good(const char *selector)
{
    disarm();
    assert_int_equal(run_script(selector), TUFF_OK);
    for (int site = 0; site < SITE_COUNT; site++) {
        compiles = is_about_compiling(site);
        for (size_t kind = 0; kind < 3; kind++) {
            arm(site, 1 + (int)kind, 1 << 30, kinds[kind].error);
            tuff_status status = run_script(selector);
            /* A queue that returns this error for everything is lost, not out of memory. */
            const bool is_lost = kinds[kind].error == CL_OUT_OF_RESOURCES && status == TUFF_E_DEVICE_LOST;
            assert_true(status == TUFF_OK || status == TUFF_E_NO_DEVICE || status == kinds[kind].status || is_lost);
            assert_int_equal(faults.alive, 0);
        }
    }
    disarm();
    compiles = true;
    assert_int_equal(run_script(selector), TUFF_OK);
}

static void calls_may_fail_for_good(void **state)
{
    (void)state;
    for_drawn_opencl(1, fail_for_good);
}

/* The first open with its self-test; the other tests read its record instead. */
static void fail_the_first_open(const char *selector)
{
    const int sites[] = {
        SITE_BuildProgram, SITE_CreateKernel, SITE_EnqueueNDRangeKernel,      SITE_EnqueueReadBuffer,
        SITE_CreateBuffer, SITE_SetKernelArg, SITE_EnqueueMarkerWithWaitList, SITE_CreateProgramWithSource};
    assert_int_equal(setenv("TUFF_CACHE_DIR", "", 1), 0);
    for (size_t i = 0; i < sizeof sites / sizeof sites[0]; i++)
        for (int call = 1; call <= 3; call++) {
            /* A program that cannot be made is tried once more. */
            const bool makes_program = sites[i] == SITE_BuildProgram || sites[i] == SITE_CreateKernel ||
                                       sites[i] == SITE_CreateProgramWithSource;
            arm(sites[i], call, makes_program ? 1 << 30 : 1, kinds[call - 1].error);
            tuff_device *device = tuff_device_open(selector);
            if (!device)
                assert_int_equal(tuff_last_status(), kinds[call - 1].status);
            tuff_device_close(device);
            assert_true(makes_program ? faults.hits > 1 : faults.hits == 1);
            assert_int_equal(faults.alive, 0);
        }
    disarm();
    tuff_device_info info;
    tuff_device *device = tuff_device_open(selector);
    assert_non_null(device);
    assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
    assert_true(info.proved_barrier);
    tuff_device_close(device);
    assert_int_equal(faults.alive, 0);
    assert_int_equal(setenv("TUFF_CACHE_DIR", cache_folder(), 1), 0);
}

static void the_first_open_may_fail(void **state)
{
    (void)state;
    for_drawn_opencl(2, fail_the_first_open);
}

static void listing_survives_failures(void **state)
{
    (void)state;
    if (tuff_device_unavailable_reason("opencl"))
        skip();
    const char *absence = NULL;
    int count = tuff__driver_opencl.count(&absence);
    assert_true(count > 0);
    assert_null(absence);
    const int sites[] = {SITE_GetPlatformIDs, SITE_GetDeviceIDs, SITE_GetDeviceInfo};
    for (size_t i = 0; i < sizeof sites / sizeof sites[0]; i++) {
        arm(sites[i], 1, 1 << 30, CL_OUT_OF_HOST_MEMORY);
        assert_int_equal(tuff__driver_opencl.count(&absence), 0);
        assert_non_null(absence);
        assert_true(faults.hits > 0);
    }
    disarm();
    assert_int_equal(tuff__driver_opencl.count(&absence), count);
    assert_null(absence);
}

static cl_int told_state;

static cl_int CL_API_CALL tell_state(cl_event event, cl_event_info parameter, size_t size, void *value, size_t *needed)
{
    if (parameter != CL_EVENT_COMMAND_EXECUTION_STATUS)
        return faults.real.GetEventInfo(event, parameter, size, value, needed);
    memcpy(value, &told_state, sizeof told_state);
    return CL_SUCCESS;
}

static void check_waits(const char *selector)
{
    script run = {.device = tuff_device_open(selector)};
    assert_non_null(run.device);
    assert_int_equal(make_storages(&run), TUFF_OK);
    assert_int_equal(make_programs(&run), TUFF_OK);
    assert_int_equal(make_recordings(&run), TUFF_OK);
    uint64_t timeout = tuff__cl_timeout;
    tuff__cl_timeout = 30000000;
    /* A device whose work never finishes. */
    told_state = CL_RUNNING;
    tuff__cl.GetEventInfo = tell_state;
    assert_int_equal(tuff__submit(run.device, run.recorded), TUFF_OK);
    assert_int_equal(tuff__wait(run.device), TUFF_E_TIMEOUT);
    uint32_t word;
    assert_int_equal(tuff__storage_read(run.device, run.copy, 0, &word, 4), TUFF_E_TIMEOUT);
    assert_int_equal(tuff__submit(run.device, run.timed), TUFF_E_TIMEOUT);
    told_state = CL_SUBMITTED;
    assert_int_equal(tuff__wait(run.device), TUFF_E_TIMEOUT);
    tuff__cl.GetEventInfo = faults.real.GetEventInfo;
    assert_int_equal(tuff__wait(run.device), TUFF_OK);
    /* Memory runs out only when the command starts. */
    assert_int_equal(tuff__submit(run.device, run.recorded), TUFF_OK);
    told_state = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    tuff__cl.GetEventInfo = tell_state;
    assert_int_equal(tuff__wait(run.device), TUFF_E_OOM_DEVICE);
    tuff__cl.GetEventInfo = faults.real.GetEventInfo;
    assert_int_equal(tuff__wait(run.device), TUFF_OK);
    /* A kernel accessed memory outside its buffers: the device is lost, and stays so. */
    assert_int_equal(tuff__submit(run.device, run.recorded), TUFF_OK);
    told_state = -9999;
    tuff__cl.GetEventInfo = tell_state;
    assert_int_equal(tuff__wait(run.device), TUFF_E_DEVICE_LOST);
    tuff__cl.GetEventInfo = faults.real.GetEventInfo;
    assert_int_equal(tuff__wait(run.device), TUFF_E_DEVICE_LOST);
    tuff__cl_timeout = timeout;
    end_script(&run);
    assert_int_equal(run_script(selector), TUFF_OK);
}

static void waits_end(void **state)
{
    (void)state;
    for_each_opencl(check_waits);
}

static atomic_int waits_begun, waits_ended;
static atomic_bool holds;

static cl_int CL_API_CALL wait_held(cl_uint count, const cl_event *events)
{
    waits_begun++;
    while (holds)
        tuff__sleep(1000000);
    const cl_int answer = faults.real.WaitForEvents(count, events);
    waits_ended++;
    return answer;
}

/* A device whose driver computes on the threads that wait in it; in the second round the wait never returns. */
static void check_lending(const char *selector)
{
    for (int hangs = 0; hangs < 2; hangs++) {
        script run = {.device = tuff_device_open(selector)};
        assert_non_null(run.device);
        waits_begun = waits_ended = 0;
        tuff__cl.WaitForEvents = wait_held;
        run.device->handle->needs_wait_thread = true;
        holds = hangs;
        assert_int_equal(run_steps(&run), TUFF_OK);
        end_script(&run);
        assert_true(waits_begun > 0);
        assert_int_equal(waits_ended, hangs ? 0 : waits_begun);
        holds = false;
        while (faults.alive > 0)
            tuff__sleep(1000000);
        tuff__cl.WaitForEvents = faults.real.WaitForEvents;
    }
}

static void a_thread_is_lent_and_taken_back(void **state)
{
    (void)state;
    for_each_opencl(check_lending);
}

/* The query whose answer is changed slightly. */
static cl_uint changed_question;

static void change_value(cl_uint question, void *answer)
{
    if (question == changed_question && answer)
        ((char *)answer)[0] ^= 1;
}

static cl_int CL_API_CALL changed_platform_info(cl_platform_id a, cl_platform_info b, size_t c, void *d, size_t *e)
{
    const cl_int error = faults.real.GetPlatformInfo(a, b, c, d, e);
    change_value(b, d);
    return error;
}

static cl_int CL_API_CALL changed_device_info(cl_device_id a, cl_device_info b, size_t c, void *d, size_t *e)
{
    const cl_int error = faults.real.GetDeviceInfo(a, b, c, d, e);
    change_value(b, d);
    return error;
}

/* Gets the device's identity with a changed answer. */
static void identify(const char *selector, cl_uint question, char *out, size_t size)
{
    driver_device *device = NULL;
    changed_question = question;
    assert_int_equal(tuff__driver_opencl.open(atoi(strchr(selector, ':') + 1), &device), TUFF_OK);
    (void)snprintf(out, size, "%s", tuff__driver_opencl.identity(device));
    tuff__driver_opencl.close(device);
    changed_question = 0;
}

static void check_identity(const char *selector)
{
    static const cl_uint questions[] = {CL_PLATFORM_VERSION, CL_DEVICE_NAME,      CL_DEVICE_VERSION,
                                        CL_DRIVER_VERSION,   CL_DEVICE_VENDOR_ID, CL_DEVICE_ADDRESS_BITS};
    static char defaults[2048], other[2048];
    tuff__cl.GetPlatformInfo = changed_platform_info;
    tuff__cl.GetDeviceInfo = changed_device_info;
    identify(selector, 0, defaults, sizeof defaults);
    identify(selector, 0, other, sizeof other);
    assert_string_equal(defaults, other);
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        identify(selector, questions[i], other, sizeof other);
        if (strcmp(defaults, other) == 0)
            fail_msg("query %#x does not change the identity", questions[i]);
    }
    tuff__cl.GetPlatformInfo = faulty_GetPlatformInfo;
    tuff__cl.GetDeviceInfo = faulty_GetDeviceInfo;
}

/* The identity is part of a program's cache key: if another version of the driver returns anything else for a query, it
   gets another program. */
static void versions_of_a_driver_are_told_apart(void **state)
{
    (void)state;
    for_each_opencl(check_identity);
}

static void errors_have_names(void **state)
{
    (void)state;
    assert_string_equal(tuff__cl_error_name(CL_OUT_OF_RESOURCES), "CL_OUT_OF_RESOURCES");
    assert_int_equal(tuff__cl_fail(CL_INVALID_WORK_GROUP_SIZE, "clSomething"), TUFF_E_LIMIT);
    assert_string_equal(tuff_error(), "clSomething: CL_INVALID_WORK_GROUP_SIZE (-54)");
    assert_int_equal(tuff__cl_fail(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "an enqueued command"), TUFF_E_USAGE);
    assert_int_equal(tuff__cl_fail(-77777, "clSomething"), TUFF_E_UNSUPPORTED);
    assert_non_null(strstr(tuff_error(), "-77777"));
}

/* A download that fails after it was enqueued has an event, which the next one replaces. */
static void repeat_download(const char *selector)
{
    storage *memory = NULL;
    staging *staged = NULL;
    tuff_device *device = tuff_device_open(selector);
    assert_non_null(device);
    assert_int_equal(tuff__storage_create(device, 4096, true, &memory), TUFF_OK);
    const staging_transfer whole = {.storage = memory, .size = 4096};
    assert_int_equal(tuff__staging_create(device, 4096, false, &staged), TUFF_OK);
    arm(SITE_Flush, 1, 1, CL_OUT_OF_HOST_MEMORY);
    assert_int_equal(tuff__staging_download(staged, &whole, 1), TUFF_E_OOM_HOST);
    assert_int_equal(tuff__staging_download(staged, &whole, 1), TUFF_OK);
    tuff__staging_destroy(staged);
    tuff__storage_release(memory);
    /* Closing ends the device's own thread, which may hold an event until then. */
    tuff_device_close(device);
    assert_int_equal(faults.alive, 0);
}

static void a_failed_download_can_be_repeated(void **state)
{
    (void)state;
    for_drawn_opencl(8, repeat_download);
}

static int begin(void **state)
{
    (void)state;
    /* Listing the devices fills the table. */
    if (tuff_device_count() > 0 && !tuff_device_unavailable_reason("opencl"))
        install_faults();
    disarm();
    return 0;
}

static int end(void **state)
{
    (void)state;
    if (!tuff_device_unavailable_reason("opencl"))
        remove_faults();
    tuff__cl_group_limit = 0;
    return 0;
}

#define FAULTY_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const tuff_allocator counting = {count_allocate, count_reallocate, count_release, NULL};
    tuff_set_allocator(&counting);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_have_names),
        FAULTY_TEST(every_call_may_fail_once),
        FAULTY_TEST(calls_may_fail_for_good),
        FAULTY_TEST(the_first_open_may_fail),
        FAULTY_TEST(listing_survives_failures),
        FAULTY_TEST(waits_end),
        FAULTY_TEST(a_thread_is_lent_and_taken_back),
        FAULTY_TEST(versions_of_a_driver_are_told_apart),
        FAULTY_TEST(a_failed_download_can_be_repeated),
    };
    return cmocka_run_group_tests_name("opencl", tests, use_empty_cache, drop_cache);
}
#else
static void opencl_is_absent(void **state)
{
    (void)state;
    assert_non_null(tuff_device_unavailable_reason("opencl"));
    assert_null(tuff_device_open("opencl"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(opencl_is_absent)};
    return cmocka_run_group_tests_name("opencl", tests, NULL, NULL);
}
#endif
