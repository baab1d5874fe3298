/* Loaders whose source fails, hangs or is truncated, that get invalid options, or that run out of memory: each gives a
   clear message, and nothing leaks. */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file/file.h"
#include "base/status.h"
#include "base/thread.h"
#include "each_device.h"
#include "failing_memory.h"
#include "scratch_folder.h"
#include "small_plans.h"
#include "tuff.h"

static const tuff_field one_number = {.name = "x", .dtype = TUFF_I32, .shape = {.rank = 0}};

/* How a source of 40 samples fails. */
typedef struct plot {
    _Atomic int64_t fails_at[2];
    tuff_status status;
    const char *message; /* NULL: none */
    bool by_library;     /* the failure comes from a call of the library */
    bool handles_error;  /* a call of the library fails in the sample before, with the same status */
    _Atomic int calls;
} plot;

static tuff_status fill(void *user, tuff_sample *sample)
{
    plot *self = user;
    self->calls++;
    *(int32_t *)sample->data[0] = (int32_t)sample->index;
    if (self->handles_error && sample->index == self->fails_at[0] - 1)
        (void)FAIL(self->status, "the source handled this");
    if (sample->index != self->fails_at[0] && sample->index != self->fails_at[1])
        return TUFF_OK;
    /* The failure that is later in order happens earlier in time. */
    if (sample->index == self->fails_at[0])
        tuff__sleep(2000000);
    if (self->by_library)
        return FAIL(self->status, "the library said so of %lld", (long long)sample->index);
    if (self->message)
        snprintf(sample->message, sample->message_size, "%s %lld", self->message, (long long)sample->index);
    return self->status;
}

static tuff_loader *make(plot *self, int workers)
{
    tuff_loader *loader = tuff_loader_create(NULL, &(tuff_loader_options){.fields = &one_number,
                                                                          .field_count = 1,
                                                                          .batch_size = 10,
                                                                          .sample_count = 40,
                                                                          .workers = workers,
                                                                          .sample = fill,
                                                                          .user = self});
    if (!loader)
        fail_msg("%s", tuff_error());
    return loader;
}

static void tells_what_failed(void **state)
{
    (void)state;
    for (int workers = 1; workers <= 4; workers += 3) {
        plot plots[] = {{.fails_at = {13, 17}, .status = TUFF_E_IO, .message = "no picture"},
                        {.fails_at = {13, 17}, .status = TUFF_E_FORMAT, .by_library = true},
                        {.fails_at = {13, 17}, .status = TUFF_E_NUMERIC},
                        {.fails_at = {13, 17}, .status = TUFF_E_NUMERIC, .handles_error = true}};
        static const char *const texts[] = {"sample 13, in batch 1 of epoch 0: no picture 13",
                                            "sample 13, in batch 1 of epoch 0: the library said so of 13",
                                            "sample 13, in batch 1 of epoch 0: the source returned TUFF_E_NUMERIC",
                                            "sample 13, in batch 1 of epoch 0: the source returned TUFF_E_NUMERIC"};
        for (int i = 0; i < 4; i++) {
            tuff_loader *loader = make(&plots[i], workers);
            tuff_batch batch;
            tuff_loader_position position;
            assert_int_equal(tuff_loader_next(loader, NULL, &batch), TUFF_OK);
            for (int again = 0; again < 3; again++)
                expect_error(tuff_loader_next(loader, NULL, &batch), plots[i].status, texts[i]);
            assert_int_equal(tuff_loader_tell(loader, &position), TUFF_OK);
            assert_int_equal(position.batch, 1);
            /* Another batch works, and so does this one once its source does. */
            assert_int_equal(tuff_loader_seek(loader, (tuff_loader_position){.batch = 2}), TUFF_OK);
            assert_int_equal(tuff_loader_next(loader, NULL, &batch), TUFF_OK);
            assert_int_equal(((const int32_t *)batch.data[0])[9], 29);
            plots[i].fails_at[0] = plots[i].fails_at[1] = -1;
            assert_int_equal(tuff_loader_seek(loader, position), TUFF_OK);
            assert_int_equal(tuff_loader_next(loader, NULL, &batch), TUFF_OK);
            assert_int_equal(((const int32_t *)batch.data[0])[3], 13);
            assert_int_equal(tuff_loader_destroy(loader), TUFF_OK);
        }
    }
}

/* A source that blocks until it is released. */
static struct {
    mutex lock;
    pthread_cond_t changed;
    int inside;
    bool is_released;
    int written;
} trap = {.lock = MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static tuff_status hang(void *user, tuff_sample *sample)
{
    (void)user;
    if (sample->index < 2)
        return TUFF_OK;
    tuff__lock(&trap.lock);
    trap.inside++;
    pthread_cond_broadcast(&trap.changed);
    while (!trap.is_released)
        pthread_cond_wait(&trap.changed, &trap.lock);
    /* Its memory is still valid, though the loader and the device were destroyed. */
    memset(sample->data[0], 0x55, 4);
    sample->rows[0] = 1;
    snprintf(sample->message, sample->message_size, "late");
    trap.written++;
    trap.inside--;
    pthread_cond_broadcast(&trap.changed);
    tuff__unlock(&trap.lock);
    return TUFF_E_IO;
}

static char logged[256];

static void keep_log(void *user, tuff_log_level level, const char *text)
{
    (void)user;
    if (level == TUFF_LOG_ERROR)
        snprintf(logged, sizeof logged, "%s", text);
}

static void await_inside(int count)
{
    tuff__lock(&trap.lock);
    while (trap.inside != count)
        pthread_cond_wait(&trap.changed, &trap.lock);
    tuff__unlock(&trap.lock);
}

static void hang_and_close(tuff_device *device)
{
    trap.is_released = false;
    trap.written = 0;
    tuff_loader *loader = tuff_loader_create(device, &(tuff_loader_options){.fields = &one_number,
                                                                            .field_count = 1,
                                                                            .batch_size = 2,
                                                                            .sample_count = 20,
                                                                            .workers = 3,
                                                                            .ring = 3,
                                                                            .timeout = 0.05,
                                                                            .sample = hang});
    assert_non_null(loader);
    assert_int_equal(tuff_loader_next(loader, NULL, NULL), TUFF_OK);
    await_inside(3);
    expect_error(tuff_loader_seek(loader, (tuff_loader_position){0}), TUFF_E_TIMEOUT, "has not returned");
    expect_error(tuff_loader_next(loader, NULL, NULL), TUFF_E_TIMEOUT, "call tuff_loader_seek again");
    const uint64_t begin = tuff__nanoseconds();
    logged[0] = 0;
    tuff_set_log(keep_log, NULL);
    expect_error(tuff_loader_destroy(loader), TUFF_E_TIMEOUT, "has not returned for 0.05 s");
    tuff_set_log(NULL, NULL);
    assert_non_null(strstr(logged, "its thread keeps running"));
    assert_true(tuff__nanoseconds() - begin < UINT64_C(20000000000));
}

static void release_workers(void)
{
    tuff__lock(&trap.lock);
    trap.is_released = true;
    pthread_cond_broadcast(&trap.changed);
    tuff__unlock(&trap.lock);
    await_inside(0);
    assert_int_equal(trap.written, 3);
}

static void leaves_a_hanging_source_alone(void **state)
{
    (void)state;
    failing_memory_begin(0, false);
    hang_and_close(NULL);
    assert_true(failing_memory_live() > 0);
    release_workers();
    for (int i = 0; i < 10000 && failing_memory_live() > 0; i++)
        tuff__sleep(1000000);
    assert_int_equal(failing_memory_live(), 0);
    failing_memory_end();
}

static void hangs_behind_the_device(void **state)
{
    (void)state;
    const int count = tuff_device_count();
    for (int i = 0; i < count; i++) {
        tuff_device_info info;
        assert_int_equal(tuff_device_describe_at(i, &info), TUFF_OK);
        tuff_device *device = tuff_device_open(info.selector);
        assert_non_null(device);
        hang_and_close(device);
        tuff_device_close(device);
        release_workers();
    }
}

/* The waiting thread gets one warning that it waits, and then releases the source. */
static void record_warning(void *user, tuff_log_level level, const char *text)
{
    (*(int *)user)++;
    assert_int_equal(level, TUFF_LOG_WARNING);
    if (!strstr(text, "a source has not returned for 0.05 s"))
        fail_msg("unexpected warning: \"%s\"", text);
    tuff__sleep(200000000);
    release_workers();
}

static void tells_that_a_source_is_waited_for(void **state)
{
    int warnings = 0;
    (void)state;
    trap.is_released = false;
    trap.written = 2;
    tuff_loader *loader = tuff_loader_create(NULL, &(tuff_loader_options){.fields = &one_number,
                                                                          .field_count = 1,
                                                                          .batch_size = 1,
                                                                          .sample_count = 3,
                                                                          .timeout = 0.05,
                                                                          .sample = hang});
    assert_non_null(loader);
    tuff_set_log(record_warning, &warnings);
    for (int i = 0; i < 2; i++)
        assert_int_equal(tuff_loader_next(loader, NULL, NULL), TUFF_OK);
    expect_error(tuff_loader_next(loader, NULL, NULL), TUFF_E_IO, "late");
    tuff_set_log(NULL, NULL);
    assert_int_equal(warnings, 1);
    assert_int_equal(tuff_loader_destroy(loader), TUFF_OK);
}

static tuff_loader_options file_options(void)
{
    return (tuff_loader_options){
        .fields = &one_number, .field_count = 1, .batch_size = 10, .path = scratch_path("numbers")};
}

static void survives_a_file_that_shrinks(void **state)
{
    int32_t numbers[100];
    tuff_batch batch;
    (void)state;
    for (int i = 0; i < 100; i++)
        numbers[i] = i;
    scratch_write("numbers", numbers, sizeof numbers);
    const tuff_loader_options options = file_options();
    tuff_loader *loader = tuff_loader_create(NULL, &options);
    assert_non_null(loader);
    assert_int_equal(tuff_loader_next(loader, NULL, &batch), TUFF_OK);
    assert_int_equal(truncate(scratch_path("numbers"), 4 * 77 + 1), 0);
    int64_t index = 1;
    tuff_status status = TUFF_OK;
    while (status == TUFF_OK && index < 10) {
        status = tuff_loader_next(loader, NULL, &batch);
        if (status == TUFF_OK)
            assert_int_equal(((const int32_t *)batch.data[0])[0], index * 10);
        index += status == TUFF_OK;
    }
    assert_int_equal(index, 7);
    expect_error(status, TUFF_E_IO, "numbers: cannot read a record at bytes 308 to 312");
    assert_int_equal(tuff_loader_destroy(loader), TUFF_OK);
}

static ssize_t broken_read(int fd, void *data, size_t size, off_t offset)
{
    (void)fd, (void)data, (void)size, (void)offset;
    errno = EIO;
    return -1;
}

/* Reads one byte per call, and interrupts every second call. */
static ssize_t slow_read(int fd, void *data, size_t size, off_t offset)
{
    static int calls;
    errno = EINTR;
    return size == 0 || calls++ % 2 ? -1 : pread(fd, data, 1, offset);
}

static void tells_of_bad_files(void **state)
{
    int32_t numbers[10] = {5, 4, 3, 2, 1};
    tuff_loader_options options = file_options();
    tuff_batch batch;
    (void)state;
    assert_null(tuff_loader_create(NULL, &options));
    expect_error(tuff_last_status(), TUFF_E_IO, "numbers");
    options.path = scratch_folder();
    assert_null(tuff_loader_create(NULL, &options));
    expect_error(tuff_last_status(), TUFF_E_IO, "not a regular file");
    scratch_write("numbers", numbers, 3);
    options = file_options();
    assert_null(tuff_loader_create(NULL, &options));
    expect_error(tuff_last_status(), TUFF_E_FORMAT, "3 bytes hold 0 records");
    scratch_write("numbers", numbers, sizeof numbers);
    options.sample_count = 11;
    assert_null(tuff_loader_create(NULL, &options));
    expect_error(tuff_last_status(), TUFF_E_FORMAT, "hold 10 records of 4 bytes, 11 requested");
    options.sample_count = 0;
    options.header_size = UINT64_MAX - 1;
    assert_null(tuff_loader_create(NULL, &options));
    options.header_size = 0;
    tuff__file.pread = slow_read;
    tuff_loader *loader = tuff_loader_create(NULL, &options);
    assert_non_null(loader);
    assert_int_equal(tuff_loader_next(loader, NULL, &batch), TUFF_OK);
    assert_memory_equal(batch.data[0], numbers, sizeof numbers);
    assert_int_equal(tuff_loader_destroy(loader), TUFF_OK);
    tuff__file.pread = broken_read;
    loader = tuff_loader_create(NULL, &options);
    assert_non_null(loader);
    expect_error(tuff_loader_next(loader, NULL, &batch), TUFF_E_IO, "cannot read");
    assert_int_equal(tuff_loader_destroy(loader), TUFF_OK);
    tuff__file.pread = pread;
}

static tuff_status fill_too_much(void *user, tuff_sample *sample)
{
    sample->rows[0] = sample->index == 3 ? *(int64_t *)user : 2;
    return TUFF_OK;
}

static void checks_rows(void **state)
{
    tuff_field field = {
        .name = "rows", .dtype = TUFF_F32, .shape = {.rank = 2, .extent = {3, 2}}, .collate = TUFF_COLLATE_PAD};
    int64_t rows = 4;
    tuff_loader_options options = {
        .fields = &field, .field_count = 1, .batch_size = 5, .sample_count = 5, .sample = fill_too_much, .user = &rows};
    (void)state;
    tuff_loader *loader = tuff_loader_create(NULL, &options);
    expect_error(tuff_loader_next(loader, NULL, NULL), TUFF_E_SHAPE, "sample 3, in batch 0 of epoch 0: \"rows\"");
    assert_int_equal(tuff_loader_destroy(loader), TUFF_OK);
    rows = -1;
    loader = tuff_loader_create(NULL, &options);
    expect_error(tuff_loader_next(loader, NULL, NULL), TUFF_E_SHAPE, "-1 rows, expected 0 to 3");
    assert_int_equal(tuff_loader_destroy(loader), TUFF_OK);
    rows = 3;
    field.collate = TUFF_COLLATE_CONCAT;
    field.rows = 10;
    loader = tuff_loader_create(NULL, &options);
    expect_error(tuff_loader_next(loader, NULL, NULL), TUFF_E_LIMIT,
                 "batch 0 of epoch 0: \"rows\": the samples have 11 rows in total, but the buffer holds only 10");
    assert_int_equal(tuff_loader_destroy(loader), TUFF_OK);
}

static tuff_status fill_nothing(void *user, tuff_batch_target *target)
{
    (void)user, (void)target;
    return TUFF_OK;
}

static void refuses_nonsense(void **state)
{
    plot quiet = {.fails_at = {-1, -1}};
    const tuff_field wrong[] = {
        {.name = NULL, .dtype = TUFF_I32},
        {.name = "x", .dtype = TUFF_F64},
        {.name = "x", .dtype = TUFF_I32, .shape = {.rank = 8, .extent = {1, 1, 1, 1, 1, 1, 1, 1}}},
        {.name = "x", .dtype = TUFF_I32, .shape = {.rank = 1, .extent = {-1}}},
        {.name = "x", .dtype = TUFF_I32, .shape = {.rank = 1, .extent = {INT64_MAX / 8}}},
        {.name = "x", .dtype = TUFF_I32, .lengths = "n"},
        {.name = "x", .dtype = TUFF_I32, .rows = 4},
        {.name = "x", .dtype = TUFF_I32, .collate = TUFF_COLLATE_PAD},
        {.name = "x", .dtype = TUFF_I32, .shape = {.rank = 1, .extent = {4}}, .collate = (tuff_collate)3},
        {.name = "x", .dtype = TUFF_I32, .shape = {.rank = 1, .extent = {4}}, .collate = TUFF_COLLATE_PAD, .rows = 4},
        {.name = "x",
         .dtype = TUFF_I32,
         .shape = {.rank = 1, .extent = {4}},
         .collate = TUFF_COLLATE_PAD,
         .lengths = "x"}};
    const tuff_loader_options good = {
        .fields = &one_number, .field_count = 1, .batch_size = 10, .sample_count = 40, .sample = fill, .user = &quiet};
    tuff_loader_options options = good;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        options.fields = &wrong[i];
        if (tuff_loader_create(NULL, &options))
            fail_msg("field %zu is accepted", i);
        assert_int_equal(strncmp(tuff_error(), "loader: ", 8), 0);
    }
    tuff_loader_options others[16];
    for (int i = 0; i < 16; i++)
        others[i] = good;
    others[0].fields = NULL;
    others[1].field_count = 0;
    others[2].field_count = 17;
    others[3].batch_size = 0;
    others[4].batch_size = 41;
    others[5].sample_count = -1;
    others[6].sample_count = 0;
    others[7].sample = NULL;
    others[8].batch = fill_nothing;
    others[9].path = "both";
    others[10].workers = -1;
    others[11].workers = 100000;
    others[12].ring = -2;
    others[13].timeout = -1;
    others[14] = (tuff_loader_options){
        .fields = &one_number, .field_count = 1, .batch_size = 1, .batch = fill_nothing, .shuffle = true};
    others[15] = (tuff_loader_options){
        .fields = &one_number, .field_count = 1, .batch_size = 1, .batch = fill_nothing, .keep_last = true};
    for (int i = 0; i < 16; i++) {
        if (tuff_loader_create(NULL, &others[i]))
            fail_msg("options %d are accepted", i);
        assert_int_equal(strncmp(tuff_error(), "loader: ", 8), 0);
    }
    assert_null(tuff_loader_create(NULL, NULL));
    assert_int_equal(tuff_loader_next(NULL, NULL, NULL), TUFF_E_USAGE);
    assert_int_equal(tuff_loader_destroy(NULL), TUFF_OK);
    assert_int_equal(quiet.calls, 0);
}

static bool load_some(void)
{
    plot quiet = {.fails_at = {-1, -1}};
    const tuff_loader_options options = {.fields = &one_number,
                                         .field_count = 1,
                                         .batch_size = 10,
                                         .sample_count = 40,
                                         .workers = 2,
                                         .sample = fill,
                                         .user = &quiet};
    tuff_loader *loader = tuff_loader_create(NULL, &options);
    if (!loader)
        return false;
    tuff_batch batch;
    for (int i = 0; i < 6; i++)
        assert_int_equal(tuff_loader_next(loader, NULL, &batch), TUFF_OK);
    assert_int_equal(((const int32_t *)batch.data[0])[0], 10);
    assert_int_equal(tuff_loader_destroy(loader), TUFF_OK);
    return true;
}

static void runs_out_of_memory(void **state)
{
    (void)state;
    assert_true(fail_each_request(load_some, NULL) >= 8);
}

static tuff_status take_time(void *user, tuff_sample *sample)
{
    (void)user;
    memcpy(sample->data[0], &(int32_t){(int32_t)sample->index}, sizeof(int32_t));
    tuff__sleep(20000000);
    return TUFF_OK;
}

/* A batch takes longer than the timeout of a source, but each call is quick: a seek waits only for the current call. */
static void seeks_amid_a_slow_batch(void **state)
{
    (void)state;
    const tuff_loader_options options = {.fields = &one_number,
                                         .field_count = 1,
                                         .batch_size = 100,
                                         .sample_count = 200,
                                         .workers = 1,
                                         .ring = 2,
                                         .timeout = 1,
                                         .sample = take_time};
    tuff_batch batch;
    tuff_loader *loader = tuff_loader_create(NULL, &options);
    assert_non_null(loader);
    tuff__sleep(60000000);
    assert_int_equal(tuff_loader_seek(loader, (tuff_loader_position){.batch = 1}), TUFF_OK);
    assert_int_equal(tuff_loader_next(loader, NULL, &batch), TUFF_OK);
    assert_int_equal(batch.count, 100);
    for (int i = 0; i < 100; i++)
        assert_int_equal(((const int32_t *)batch.data[0])[i], 100 + i);
    assert_int_equal(tuff_loader_destroy(loader), TUFF_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_what_failed),
        cmocka_unit_test(leaves_a_hanging_source_alone),
        cmocka_unit_test(tells_that_a_source_is_waited_for),
        cmocka_unit_test_setup_teardown(survives_a_file_that_shrinks, scratch_folder_make, scratch_folder_remove),
        cmocka_unit_test_setup_teardown(tells_of_bad_files, scratch_folder_make, scratch_folder_remove),
        cmocka_unit_test(checks_rows),
        cmocka_unit_test(seeks_amid_a_slow_batch),
        cmocka_unit_test(refuses_nonsense),
        cmocka_unit_test(runs_out_of_memory),
        /* Last, because nothing shows when its threads have freed their memory. */
        cmocka_unit_test(hangs_behind_the_device),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
