/* Loaders: their batches for any number of threads, the layout of samples in a batch, where they resume, and the data
   that reach plans on every device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "failing_memory.h"
#include "scratch_folder.h"
#include "tuff.h"

static tuff_loader *make(tuff_device *device, const tuff_loader_options *options)
{
    tuff_loader *loader = tuff_loader_create(device, options);
    if (!loader)
        fail_msg("%s", tuff_error());
    return loader;
}

static void take(tuff_loader *loader, tuff_plan *plan, tuff_batch *batch)
{
    if (tuff_loader_next(loader, plan, batch) != TUFF_OK)
        fail_msg("%s", tuff_error());
}

static void permutes(void **state)
{
    static const int64_t counts[] = {1, 2, 3, 4, 5, 15, 16, 17, 64, 65, 1000, 4097, 100003};
    static unsigned char seen[100003];
    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        memset(seen, 0, sizeof seen);
        for (int64_t j = 0; j < counts[i]; j++) {
            const int64_t at = tuff_shuffled_index(77, 3, j, counts[i]);
            assert_in_range(at, 0, counts[i] - 1);
            assert_int_equal(seen[at]++, 0);
        }
    }
    /* Different epochs and seeds give different orders, none of them the identity. */
    int same_epoch = 0, same_seed = 0, in_place = 0;
    for (int64_t j = 0; j < 1000; j++) {
        const int64_t at = tuff_shuffled_index(1, 0, j, 1000);
        same_epoch += at == tuff_shuffled_index(1, 1, j, 1000);
        same_seed += at == tuff_shuffled_index(2, 0, j, 1000);
        in_place += at == j;
    }
    assert_in_range(same_epoch + same_seed + in_place, 0, 30);
    const int64_t most = INT64_MAX;
    assert_in_range(tuff_shuffled_index(5, 9, most - 1, most), 0, most - 1);
    assert_int_equal(tuff_shuffled_index(5, 9, 12345, most), tuff_shuffled_index(5, 9, 12345, most));
    assert_int_equal(tuff_shuffled_index(0, 0, 10, 10), -1);
    assert_int_equal(tuff_shuffled_index(0, 0, -1, 10), -1);
    assert_int_equal(tuff_shuffled_index(0, 0, 0, 0), -1);
}

/* A sample i has its number, and 0 to 5 rows of 2 values that identify their origin. */
enum { ROWS_MAX = 5, ROOM = 60 };

static int64_t rows_of(int64_t index)
{
    return index * 7 % (ROWS_MAX + 1);
}

static int32_t element_of(int64_t index, int64_t row, int64_t column)
{
    return (int32_t)(index * 100 + row * 10 + column + 1);
}

static void fill_rows(int64_t index, int32_t *rows)
{
    for (int64_t row = 0; row < rows_of(index); row++)
        for (int64_t column = 0; column < 2; column++)
            rows[2 * row + column] = element_of(index, row, column);
}

static tuff_status fill_sample(void *user, tuff_sample *sample)
{
    (void)user;
    assert_int_equal(sample->rows[1], ROWS_MAX);
    memcpy(sample->data[0], &sample->index, 4);
    for (int field = 1; field < 3; field++) {
        fill_rows(sample->index, sample->data[field]);
        sample->rows[field] = rows_of(sample->index);
    }
    /* Makes threads finish in different orders. */
    if (sample->index % 3 == 0)
        tuff__sleep(20000);
    return TUFF_OK;
}

static tuff_status fill_batch(void *user, tuff_batch_target *target)
{
    (void)user;
    for (int64_t i = 0; i < target->count; i++) {
        ((int32_t *)target->data[0])[i] = (int32_t)target->indices[i];
        for (int field = 1; field < 3; field++) {
            fill_rows(target->indices[i], (int32_t *)target->data[field] + 2 * ROWS_MAX * i);
            target->rows[field][i] = rows_of(target->indices[i]);
        }
    }
    return TUFF_OK;
}

static const tuff_field fields[] = {
    {.name = "number", .dtype = TUFF_I32, .shape = {.rank = 0}},
    {.name = "padded",
     .dtype = TUFF_I32,
     .shape = {.rank = 2, .extent = {ROWS_MAX, 2}},
     .collate = TUFF_COLLATE_PAD,
     .lengths = "lengths",
     .fill = -7},
    {.name = "joined",
     .dtype = TUFF_I32,
     .shape = {.rank = 2, .extent = {ROWS_MAX, 2}},
     .collate = TUFF_COLLATE_CONCAT,
     .rows = ROOM},
};

enum { SAMPLES = 67, BATCH = 13 };

static tuff_loader_options ragged(bool whole_batches)
{
    return (tuff_loader_options){.fields = fields,
                                 .field_count = 3,
                                 .batch_size = BATCH,
                                 .sample_count = SAMPLES,
                                 .shuffle = true,
                                 .seed = 11,
                                 .keep_last = true,
                                 .sample = whole_batches ? NULL : fill_sample,
                                 .batch = whole_batches ? fill_batch : NULL};
}

/* Checks a batch for its samples, in order. */
static void check_batch(const tuff_batch *batch, int64_t number)
{
    const int32_t *numbers = batch->data[0], *padded = batch->data[1], *joined = batch->data[2];
    const int64_t per_epoch = (SAMPLES + BATCH - 1) / BATCH;
    assert_int_equal(batch->epoch, number / per_epoch);
    assert_int_equal(batch->index, number % per_epoch);
    assert_int_equal(batch->count, batch->index == per_epoch - 1 ? SAMPLES % BATCH : BATCH);
    assert_null(batch->lengths[0]);
    int64_t used = 0;
    for (int64_t i = 0; i < BATCH; i++) {
        const bool is_there = i < batch->count;
        const int64_t index = is_there ? tuff_shuffled_index(11, batch->epoch, batch->index * BATCH + i, SAMPLES) : 0;
        const int64_t rows = is_there ? rows_of(index) : 0;
        assert_int_equal(numbers[i], index);
        assert_int_equal(batch->lengths[1][i], rows);
        assert_int_equal(batch->lengths[2][i], rows);
        for (int64_t j = 0; j < 2 * ROWS_MAX; j++)
            assert_int_equal(padded[i * 2 * ROWS_MAX + j], j < 2 * rows ? element_of(index, j / 2, j % 2) : -7);
        for (int64_t j = 0; j < 2 * rows; j++)
            assert_int_equal(joined[used++], element_of(index, j / 2, j % 2));
    }
    for (; used < 2 * ROOM; used++)
        assert_int_equal(joined[used], 0);
}

static void makes_the_same_batches(void **state)
{
    (void)state;
    for (int workers = 1; workers <= 5; workers++)
        for (int ring = 1; ring <= 4; ring++) {
            tuff_loader_options options = ragged((workers + ring) % 3 == 0);
            options.workers = workers;
            options.ring = ring;
            tuff_loader *loader = make(NULL, &options);
            assert_int_equal(tuff_loader_batch_count(loader), 6);
            assert_int_equal(tuff_loader_sample_count(loader), SAMPLES);
            for (int64_t number = 0; number < 14; number++) {
                tuff_batch batch;
                take(loader, NULL, &batch);
                check_batch(&batch, number);
            }
            assert_int_equal(tuff_loader_destroy(loader), TUFF_OK);
        }
}

static void leaves_the_rest_out(void **state)
{
    tuff_loader_options options = ragged(false);
    tuff_batch batch;
    (void)state;
    options.keep_last = options.shuffle = false;
    tuff_loader *loader = make(NULL, &options);
    assert_int_equal(tuff_loader_batch_count(loader), 5);
    for (int64_t number = 0; number < 11; number++) {
        take(loader, NULL, &batch);
        assert_int_equal(batch.count, BATCH);
        assert_int_equal(batch.epoch, number / 5);
        assert_int_equal(((const int32_t *)batch.data[0])[0], number % 5 * BATCH);
    }
    assert_int_equal(tuff_loader_destroy(loader), TUFF_OK);
}

static tuff_status fill_endless(void *user, tuff_batch_target *target)
{
    (void)user;
    assert_null(target->indices);
    for (int64_t i = 0; i < target->count; i++)
        ((float *)target->data[0])[i] = (float)(target->number % 100000000 * 10 + i);
    return TUFF_OK;
}

static void goes_on_without_end(void **state)
{
    const tuff_field field = {.name = "x", .dtype = TUFF_F32, .shape = {.rank = 0}};
    const tuff_loader_options options = {
        .fields = &field, .field_count = 1, .batch_size = 3, .batch = fill_endless, .workers = 2, .ring = 3};
    tuff_loader *loader = make(NULL, &options);
    tuff_batch batch;
    tuff_loader_position position;
    (void)state;
    for (int64_t number = 0; number < 20; number++) {
        take(loader, NULL, &batch);
        assert_int_equal(batch.index, number);
        assert_true(((const float *)batch.data[0])[2] == (float)(number * 10 + 2));
    }
    assert_int_equal(tuff_loader_tell(loader, &position), TUFF_OK);
    assert_int_equal(position.batch, 20);
    assert_int_equal(tuff_loader_seek(loader, (tuff_loader_position){.batch = 1000000}), TUFF_OK);
    take(loader, NULL, &batch);
    assert_true(((const float *)batch.data[0])[1] == 10000001.0f);
    assert_int_equal(tuff_loader_seek(loader, (tuff_loader_position){.batch = INT64_MAX / 3}), TUFF_OK);
    take(loader, NULL, &batch); /* too far for the number of its first sample to be representable */
    assert_true(batch.index == INT64_MAX / 3 && batch.count == 3);
    assert_int_equal(tuff_loader_seek(loader, (tuff_loader_position){.epoch = 1}), TUFF_E_USAGE);
    assert_int_equal(tuff_loader_destroy(loader), TUFF_OK);
}

/* Records of two fields and an i16, which tuff has no dtype for and the stride skips. */
static void reads_records(void **state)
{
    enum { RECORDS = 29, HEADER = 5, STRIDE = 11 };
    unsigned char file[HEADER + RECORDS * STRIDE];
    (void)state;
    for (size_t i = 0; i < sizeof file; i++)
        file[i] = (unsigned char)(i * 31 + 7);
    scratch_write("records", file, sizeof file);
    const tuff_field both[] = {{.name = "word", .dtype = TUFF_U32, .shape = {.rank = 0}},
                               {.name = "bytes", .dtype = TUFF_U8, .shape = {.rank = 1, .extent = {5}}}};
    tuff_loader_options options = {.fields = both,
                                   .field_count = 2,
                                   .batch_size = 4,
                                   .shuffle = true,
                                   .seed = 3,
                                   .workers = 3,
                                   .path = scratch_path("records"),
                                   .header_size = HEADER,
                                   .record_stride = STRIDE};
    tuff_loader *loader = make(NULL, &options);
    assert_int_equal(tuff_loader_sample_count(loader), RECORDS);
    for (int64_t number = 0; number < 16; number++) {
        tuff_batch batch;
        take(loader, NULL, &batch);
        for (int64_t i = 0; i < 4; i++) {
            const int64_t at = HEADER + STRIDE * tuff_shuffled_index(3, batch.epoch, batch.index * 4 + i, RECORDS);
            assert_memory_equal((const char *)batch.data[0] + 4 * i, file + at, 4);
            assert_memory_equal((const char *)batch.data[1] + 5 * i, file + at + 4, 5);
        }
    }
    assert_int_equal(tuff_loader_destroy(loader), TUFF_OK);
    /* Overlapping windows, one byte apart. */
    options.record_stride = 1;
    loader = make(NULL, &options);
    assert_int_equal(tuff_loader_sample_count(loader), RECORDS * STRIDE - 9 + 1);
    assert_int_equal(tuff_loader_destroy(loader), TUFF_OK);
}

static void goes_on_where_it_was(void **state)
{
    tuff_loader_options options = ragged(false);
    char text[160];
    (void)state;
    options.workers = 3;
    tuff_loader *first = make(NULL, &options);
    options.workers = 2;
    options.ring = 3;
    tuff_loader *second = make(NULL, &options);
    for (int64_t stop = 0; stop < 20; stop++) {
        tuff_batch batch;
        assert_int_equal(tuff_loader_save(first, text, sizeof text), TUFF_OK);
        assert_int_equal(tuff_loader_restore(second, text), TUFF_OK);
        take(second, NULL, &batch);
        check_batch(&batch, stop);
        take(second, NULL, &batch);
        check_batch(&batch, stop + 1);
        take(first, NULL, &batch);
        check_batch(&batch, stop);
    }
    tuff_loader_position position;
    assert_int_equal(tuff_loader_tell(first, &position), TUFF_OK);
    assert_int_equal(position.epoch, 3);
    assert_int_equal(position.batch, 2);
    /* Texts that are damaged, or belong to another loader. */
    const char *const wrong[] = {"",
                                 "samples",
                                 "samples 67 batch 13 last 1 shuffle 1 seed 11 epoch 3 index 2 ",
                                 "samples 67 batch 13 last 1 shuffle 1 seed 11 epoch 3 index 6",
                                 "samples 67 batch 13 last 1 shuffle 1 seed 11 epoch -3 index 2",
                                 "samples 68 batch 13 last 1 shuffle 1 seed 11 epoch 3 index 2",
                                 "samples 67 batch 12 last 1 shuffle 1 seed 11 epoch 3 index 2",
                                 "samples 67 batch 13 last 0 shuffle 1 seed 11 epoch 3 index 2",
                                 "samples 67 batch 13 last 1 shuffle 0 seed 11 epoch 3 index 2",
                                 "samples 67 batch 13 last 1 shuffle 1 seed 12 epoch 3 index 2",
                                 "samples 67 batch 13 last 1 shuffle 1 seed 11 epoch 99999999999999999999 index 2",
                                 "samples 67 batch 13 last 1 shuffle 1 seed 11 epoch 18446744073709551619 index 2"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(tuff_loader_restore(first, wrong[i]), TUFF_E_FORMAT);
    tuff_batch batch;
    take(first, NULL, &batch);
    check_batch(&batch, 20);
    assert_int_equal(tuff_loader_save(first, text, 20), TUFF_E_LIMIT);
    assert_string_equal(text, "");
    assert_int_equal(tuff_loader_destroy(first), TUFF_OK);
    assert_int_equal(tuff_loader_destroy(second), TUFF_OK);
}

/* sums[i] = number[i] + the sum of padded rows + 1000 · lengths[i]; total: their sum plus that of `joined`, accumulated
   in an array. */
static tuff_plan *summing_plan(tuff_device *device, tuff_array *total)
{
    tuff_graph *graph = tuff_graph_create(device);
    const int inner[] = {1, 2}, all[] = {0, 1}, one = 0;
    assert_non_null(graph);
    tuff_tensor *number = tuff_input(graph, "number", TUFF_I32, TUFF_SHAPE(BATCH));
    tuff_tensor *padded = tuff_input(graph, "padded", TUFF_I32, TUFF_SHAPE(BATCH, ROWS_MAX, 2));
    tuff_tensor *lengths = tuff_input(graph, "lengths", TUFF_I32, TUFF_SHAPE(BATCH));
    tuff_tensor *joined = tuff_input(graph, "joined", TUFF_I32, TUFF_SHAPE(ROOM, 2));
    tuff_tensor *rows = tuff_mul(lengths, tuff_constant(graph, TUFF_I32, 1000));
    tuff_tensor *sums = tuff_add(tuff_add(number, tuff_sum(padded, inner, 2, false)), rows);
    tuff_tensor *whole = tuff_add(tuff_sum(sums, &one, 1, false), tuff_sum(joined, all, 2, false));
    tuff_assign(graph, total, tuff_add(tuff_array_tensor(graph, total), whole));
    tuff_output(graph, "sums", sums);
    tuff_plan *plan = tuff_compile(graph, NULL);
    if (!plan)
        fail_msg("%s", tuff_error());
    tuff_graph_destroy(graph);
    return plan;
}

static int32_t expected_sum(int64_t number, int64_t *joined)
{
    const int64_t epoch = number / 6, index = number % 6;
    int64_t sum = 0;
    *joined = 0;
    for (int64_t i = 0; i < BATCH; i++) {
        const bool is_there = index * BATCH + i < SAMPLES;
        const int64_t sample = is_there ? tuff_shuffled_index(11, epoch, index * BATCH + i, SAMPLES) : 0;
        const int64_t rows = is_there ? rows_of(sample) : 0;
        sum += sample + 1000 * rows;
        for (int64_t j = 0; j < 2 * ROWS_MAX; j++)
            sum += j < 2 * rows ? element_of(sample, j / 2, j % 2) : -7;
        for (int64_t j = 0; j < 2 * rows; j++)
            *joined += element_of(sample, j / 2, j % 2);
    }
    return (int32_t)sum;
}

/* Keeps a device busy for a while. */
static tuff_plan *slow_plan(tuff_device *device)
{
    tuff_graph *graph = tuff_graph_create(device);
    const int both[] = {0, 1};
    assert_non_null(graph);
    tuff_tensor *x = tuff_random(graph, TUFF_SHAPE(384, 384));
    tuff_output(graph, "sum", tuff_sum(tuff_matmul(tuff_matmul(x, x), x), both, 2, false));
    tuff_plan *plan = tuff_compile(graph, NULL);
    if (!plan)
        fail_msg("%s", tuff_error());
    tuff_graph_destroy(graph);
    return plan;
}

enum { STEPS = 30 };

/* Many slow steps in a row, none of whose results is read: each batch must reach its own step, with no allocation or
   read in between. */
static void feed(tuff_device *device, tuff_plan *plan, tuff_plan *slow, tuff_upload upload)
{
    enum { SIZE = BATCH * 4 * (1 + 1 + 2 * ROWS_MAX) + ROOM * 2 * 4 };
    tuff_loader_options options = ragged(false);
    tuff_device_counters before, after;
    tuff_loader_counters counters;
    options.workers = 2;
    options.upload = upload;
    tuff_loader *loader = make(device, &options);
    for (int64_t step = 0; step < STEPS; step++) {
        if (step == 3) {
            assert_int_equal(tuff_device_counters_get(device, &before), TUFF_OK);
            failing_memory_begin(0, false);
        }
        take(loader, plan, NULL);
        if (tuff__device_is_reference(device) && step >= 3)
            continue;
        if (!tuff__device_is_reference(device))
            assert_int_equal(tuff_plan_run(slow), TUFF_OK);
        assert_int_equal(tuff_plan_run(plan), TUFF_OK);
    }
    const int64_t allocations = failing_memory_requests();
    failing_memory_end();
    assert_int_equal(tuff_device_counters_get(device, &after), TUFF_OK);
    assert_int_equal(after.reads, before.reads);
    assert_int_equal(allocations, 0);
    assert_int_equal(tuff_loader_counters_get(loader, &counters), TUFF_OK);
    assert_int_equal(counters.batches, STEPS);
    assert_int_equal(counters.uploaded, STEPS * SIZE);
    assert_in_range(counters.uploaded_ahead,
                    upload == TUFF_UPLOAD_AHEAD && tuff__device_has_upload_queue(device) ? STEPS * SIZE : 0,
                    upload == TUFF_UPLOAD_IN_ORDER ? 0 : STEPS * (SIZE + 512));
    assert_int_equal(tuff_loader_destroy(loader), TUFF_OK);
}

static void check_steps(tuff_device *device)
{
    tuff_array *total = tuff_array_create(device, TUFF_I32, TUFF_SCALAR);
    tuff_plan *plan = summing_plan(device, total), *slow = slow_plan(device);
    for (int upload = TUFF_UPLOAD_IN_ORDER; upload <= TUFF_UPLOAD_AHEAD; upload++) {
        int32_t sum = 0, read = 0;
        assert_int_equal(tuff_array_write(total, &sum, sizeof sum), TUFF_OK);
        feed(device, plan, slow, (tuff_upload)upload);
        for (int64_t step = 0; step < (tuff__device_is_reference(device) ? 3 : STEPS); step++) {
            int64_t joined;
            sum += expected_sum(step, &joined);
            sum += (int32_t)joined;
        }
        assert_int_equal(tuff_array_read(total, &read, sizeof read), TUFF_OK);
        assert_int_equal(read, sum);
    }
    tuff_plan_destroy(slow);
    tuff_plan_destroy(plan);
    tuff_array_destroy(total);
}

static void feeds_plans(void **state)
{
    (void)state;
    for_drawn_devices(check_steps);
}

/* If a batch does not match a plan, it stays available for another plan. */
static void check_misfits(tuff_device *device)
{
    tuff_loader_options options = ragged(false);
    tuff_array *total = tuff_array_create(device, TUFF_I32, TUFF_SCALAR);
    tuff_plan *plan = summing_plan(device, total);
    tuff_field other[3];
    tuff_batch batch;
    memcpy(other, fields, sizeof fields);
    options.fields = other;
    other[0].name = "nobody";
    tuff_loader *loader = make(device, &options);
    assert_int_equal(tuff_loader_next(loader, plan, NULL), TUFF_E_USAGE);
    assert_non_null(strstr(tuff_error(), "nobody"));
    take(loader, NULL, &batch);
    check_batch(&batch, 0);
    assert_int_equal(tuff_loader_destroy(loader), TUFF_OK);
    other[0].name = "number";
    other[2].rows = ROOM + 1;
    loader = make(device, &options);
    assert_int_equal(tuff_loader_next(loader, plan, NULL), TUFF_E_SHAPE);
    assert_int_equal(tuff_loader_destroy(loader), TUFF_OK);
    other[2].rows = ROOM;
    other[0].dtype = TUFF_U32;
    loader = make(device, &options);
    assert_int_equal(tuff_loader_next(loader, plan, NULL), TUFF_E_DTYPE);
    assert_int_equal(tuff_loader_destroy(loader), TUFF_OK);
    loader = make(NULL, &options);
    assert_int_equal(tuff_loader_next(loader, plan, NULL), TUFF_E_USAGE);
    assert_int_equal(tuff_loader_destroy(loader), TUFF_OK);
    tuff_plan_destroy(plan);
    tuff_array_destroy(total);
}

static void refuses_other_plans(void **state)
{
    (void)state;
    for_each_api(check_misfits);
}

/* The same numbers on every device, all in range, each about equally often. */
static int32_t drawn[3][1000];
static bool has_drawn;

static void check_drawing(tuff_device *device)
{
    int32_t read[3][1000];
    static const int64_t limits[] = {1, 7, INT32_MAX};
    tuff_graph *graph = tuff_graph_create(device);
    tuff_graph_seed(graph, 99);
    for (int i = 0; i < 3; i++)
        tuff_output(graph, (const char *[]){"a", "b", "c"}[i], tuff_random_index(graph, TUFF_SHAPE(1000), limits[i]));
    tuff_plan *plan = tuff_compile(graph, NULL);
    if (!plan)
        fail_msg("%s", tuff_error());
    assert_int_equal(tuff_plan_run(plan), TUFF_OK);
    assert_int_equal(tuff_plan_run(plan), TUFF_OK);
    int counts[7] = {0}, upper = 0;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tuff_plan_read(plan, (const char *[]){"a", "b", "c"}[i], read[i], sizeof read[i]), TUFF_OK);
        for (int j = 0; j < 1000; j++)
            assert_in_range(read[i][j], 0, limits[i] - 1);
    }
    for (int j = 0; j < 1000; j++) {
        counts[read[1][j]]++;
        upper += read[2][j] > INT32_MAX / 2;
    }
    for (int i = 0; i < 7; i++)
        assert_in_range(counts[i], 90, 200);
    assert_in_range(upper, 430, 570);
    if (has_drawn)
        assert_memory_equal(read, drawn, sizeof drawn);
    memcpy(drawn, read, sizeof drawn);
    has_drawn = true;
    tuff_plan_destroy(plan);
    assert_int_equal(tuff_graph_status(graph), TUFF_OK);
    (void)tuff_random_index(graph, TUFF_SHAPE(3), 0);
    assert_int_equal(tuff_graph_status(graph), TUFF_E_USAGE);
    tuff_graph_destroy(graph);
}

static void draws_places(void **state)
{
    (void)state;
    for_drawn_devices(check_drawing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permutes),
        cmocka_unit_test(makes_the_same_batches),
        cmocka_unit_test(leaves_the_rest_out),
        cmocka_unit_test(goes_on_without_end),
        cmocka_unit_test_setup_teardown(reads_records, scratch_folder_make, scratch_folder_remove),
        cmocka_unit_test(goes_on_where_it_was),
        cmocka_unit_test(feeds_plans),
        cmocka_unit_test(refuses_other_plans),
        cmocka_unit_test(draws_places),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
