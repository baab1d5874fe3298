/* Matmuls whose last blocks are shared by groups (stream-k): against sums in double, in whole programs, in dispatches
   that are split, and whether the defaults share blocks where they should. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compile/schedule/cost.h"
#include "configured_plan.h"
#include "device/state.h"
#include "each_device.h"
#include "gpu_description.h"
#include "matmul_cases.h"
#include "small_plans.h"
#include "tuff.h"

/* Blocks of 32 x 32, of which all groups of a wave share the last ones. */
#define SHARED_BLOCKS                                                                 \
    "task.family=2;matmul_local.block_rows=32;matmul_local.block_columns=32;"         \
    "matmul_local.thread_rows=4;matmul_local.thread_columns=4;matmul_local.step_k=8;" \
    "matmul_local.buffers=2;matmul_local.sharers="

/* On three units. */
static void check_known(tuff_device *device)
{
    static const kernel_choice one = {.body = "matmul_local", .sums = "matmul_join", .config = SHARED_BLOCKS "1"},
                               four = {.body = "matmul_local", .sums = "matmul_join", .config = SHARED_BLOCKS "4"};
    static const struct {
        shape_case shape;
        const kernel_choice *choice;
    } known[] = {
        {{65, 33, 531, 1, PLAIN, TUFF_F32}, &four},            /* six blocks, each shared by two or three groups */
        {{32, 224, 512, 1, Y_TRANSPOSED, TUFF_F32}, &one},     /* a shared block after six whole ones */
        {{33, 97, 769, 1, X_TRANSPOSED, TUFF_F16}, &one},      /* two of eight, three groups */
        {{40, 30, 300, 5, MIDDLE, TUFF_F32}, &four},           /* groups go on in the next batch */
        {{9, 11, 2053, 1, BOTH_TRANSPOSED, TUFF_BF16}, &four}, /* one block, which overhangs both edges */
    };
    for (int i = 0; i < (int)(sizeof known / sizeof known[0]); i++)
        if (is_drawn_for_device(device, i))
            try_case(device, device->info.name, &known[i].shape, i % 2 == 0, i % 3 == 0, NULL, known[i].choice);
}

/* Returns an extent of one or a few blocks: any, or one that ends at the edge of a block or beside it. */
static int64_t random_extent(int64_t block)
{
    if (random_below(4) == 0)
        return 1 + random_below(3 * block);
    return block * (1 + random_below(3)) + random_below(3) - 1;
}

/* A product in blocks of 32 x 32 or 16 x 64, the last of which 1 to 4 groups for each unit share. */
static void draw_case(int number, shape_case *one, char *config, size_t size)
{
    static const tuff_dtype dtypes[] = {TUFF_F32, TUFF_F32, TUFF_F16, TUFF_BF16};
    const bool square = random_below(2) == 0;
    const int rows = square ? 32 : 16, columns = square ? 32 : 64;
    const form layout = (form)(number % (MIDDLE + 1));
    *one = (shape_case){.rows = random_extent(rows),
                        .columns = random_extent(columns),
                        .inner = 260 + random_below(900),
                        .batches = layout >= BATCHED ? 2 + random_below(3) : 1,
                        .form = layout,
                        .dtype = dtypes[random_below(4)]};
    (void)snprintf(config, size,
                   "task.family=2;matmul_local.block_rows=%d;matmul_local.block_columns=%d;"
                   "matmul_local.thread_rows=%d;matmul_local.thread_columns=4;matmul_local.step_k=%d;"
                   "matmul_local.buffers=%d;matmul_local.sharers=%d",
                   rows, columns, square ? 4 : 2, 8 << random_below(2), 1 + (int)random_below(2),
                   1 + (int)random_below(4));
}

static void check_drawn(tuff_device *device)
{
    enum { DRAWN = 24 };
    for (int i = 0; i < DRAWN; i++) {
        char config[320];
        shape_case one;
        begin_sequence(test_seed() + (uint64_t)i);
        draw_case(i, &one, config, sizeof config);
        const kernel_choice choice = {.config = config};
        if (is_drawn_for_device(device, i) && (is_thorough() || drawn_turn("shared", i, 2) == 0))
            try_case(device, device->info.name, &one, i % 2 == 0, i % 3 == 0, NULL, &choice);
    }
}

static void check_sums(tuff_device *device)
{
    const uint32_t units = device->info.compute_units;
    device->info.compute_units = 3;
    check_known(device);
    check_drawn(device);
    device->info.compute_units = units;
}

/* Every sum gets all of its terms, once. */
static void blocks_shared_by_groups_are_right(void **state)
{
    (void)state;
    for_each_driver(check_sums);
}

/* What lowering makes of a product. */
typedef enum outcome { WHOLE, SHARED, SPLIT } outcome;

static outcome find_outcome(tuff_device *device, const shape_case *one, const tuff_compile_options *options)
{
    tuff_graph *graph = tuff_graph_create(device);
    build_case(one, graph);
    tuff_plan *plan = lower_configured(graph, options, TASK_MATMUL, NULL);
    if (!plan)
        fail_msg("%s", tuff_error());
    const bool shared = has_kernel(plan, "matmul_join"), split = has_kernel(plan, "column_local");
    assert_false(shared && split);
    destroy_plan(plan, graph);
    return shared ? SHARED : split ? SPLIT : WHOLE;
}

/* On a GPU with 32 units, in blocks of 128 x 128. */
static void check_outcomes(tuff_device *device)
{
    static const struct {
        shape_case shape;
        outcome expected;
    } known[] = {
        {{4096, 4096, 4096, 1, PLAIN, TUFF_F32}, WHOLE},   /* 32 waves */
        {{512, 1024, 4096, 1, PLAIN, TUFF_F32}, WHOLE},    /* one wave */
        {{640, 896, 4096, 1, PLAIN, TUFF_F32}, SHARED},    /* 35 blocks */
        {{640, 896, 4099, 1, PLAIN, TUFF_F32}, SHARED},    /* the same, and no number of parts divides the terms */
        {{640, 896, 64, 1, PLAIN, TUFF_F32}, WHOLE},       /* the same, but few terms */
        {{128, 128, 3000, 38, BATCHED, TUFF_F32}, SHARED}, /* 38 blocks */
        {{37, 200, 16500, 1, X_TRANSPOSED, TUFF_F32}, SPLIT},
    };
    static const tuff_tune_options deterministic = {.deterministic = true};
    static const tuff_compile_options others[] = {
        {.tuning = &deterministic}, {.family = TUFF_FAMILY_REGISTER}, {.matmul_precision = TUFF_PRECISION_F16}};
    const tuff_device_info info = device->info;
    const tuff_compile_options local = {.family = TUFF_FAMILY_LOCAL}, plain = {.fuse = TUFF_FUSE_ALL};
    assert_int_not_equal(find_outcome(device, &known[2].shape, &local), SHARED); /* a CPU */
    describe_as_gpu(device);
    for (int i = 0; i < (int)(sizeof known / sizeof known[0]); i++) {
        const outcome got = find_outcome(device, &known[i].shape, &plain);
        if (got != known[i].expected)
            fail_msg("%s: product %d: %d, not %d", info.name, i, (int)got, (int)known[i].expected);
        for (int k = 0; k < 3; k++)
            assert_int_not_equal(find_outcome(device, &known[i].shape, &others[k]), SHARED);
    }
    device->info = info;
}

/* Groups share blocks where the last wave would leave most of the device idle, and where no number of parts divides a
   product evenly; never in deterministic mode. */
static void blocks_are_shared_if_waves_are_uneven(void **state)
{
    (void)state;
    for_each_driver(check_outcomes);
}

enum { ROWS = 70, WIDTH = 330, COUNT = WIDTH * WIDTH };

static float numbers[COUNT], wanted[COUNT], got[COUNT], again[COUNT];

/* The gradient of a small network, with operands that are computed as they are loaded, and fused epilogues. It is
   assigned to an array. */
static tuff_plan *compile_program(tuff_device *device, tuff_array *w, tuff_array *result, const char *settings)
{
    const int swap[] = {1, 0};
    tune_config config;
    assert_int_equal(tuff__config_parse(settings, &config), TUFF_OK);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, WIDTH)), *weight = tuff_array_tensor(graph, w);
    tuff_tensor *hidden = tuff_gelu_tanh(tuff_matmul(x, weight)), *gradient = NULL;
    tuff_tensor *y = tuff_add(x, tuff_matmul(tuff_exp(hidden), tuff_permute(weight, swap)));
    tuff_tensor *loss = tuff_mean(tuff_mul(y, y), (int[]){0, 1}, 2, false);
    assert_int_equal(tuff_gradients(loss, &weight, 1, &gradient), TUFF_OK);
    tuff_assign(graph, result, gradient);
    tuff_plan *plan = compile_configured(graph, &(tuff_compile_options){0}, TASK_MATMUL, &config);
    if (!plan)
        fail_msg("%s", tuff_error());
    tuff_graph_destroy(graph);
    return plan;
}

/* Runs the program twice: both runs give the same bits. */
static void run_program(tuff_device *device, const char *settings, bool shares, float *out)
{
    tuff_array *w = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(WIDTH, WIDTH)),
               *result = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(WIDTH, WIDTH));
    assert_true(w && result);
    assert_int_equal(tuff_array_write(w, numbers, sizeof numbers), TUFF_OK);
    tuff_plan *plan = compile_program(device, w, result, settings);
    assert_int_equal(has_kernel(plan, "matmul_join"), shares);
    assert_int_equal(tuff_plan_write(plan, "x", numbers, ROWS * WIDTH * sizeof(float)), TUFF_OK);
    for (int run = 0; run < 2; run++) {
        run_plan(plan);
        assert_int_equal(tuff_array_read(result, run == 0 ? out : again, sizeof again), TUFF_OK);
    }
    assert_memory_equal(out, again, sizeof again);
    tuff_plan_destroy(plan);
    tuff_array_destroy(w);
    tuff_array_destroy(result);
}

static void check_program(tuff_device *device)
{
    const uint32_t units = device->info.compute_units;
    float largest = 0, error = 0;
    for (int i = 0; i < COUNT; i++)
        numbers[i] = (float)(i * 37 % 101) / 101 - 0.5f;
    device->info.compute_units = 5;
    run_program(device, "", false, wanted);
    run_program(device, SHARED_BLOCKS "4", true, got);
    device->info.compute_units = units;
    for (int i = 0; i < COUNT; i++) {
        largest = fmaxf(largest, fabsf(wanted[i]));
        error = fmaxf(error, fabsf(got[i] - wanted[i]));
    }
    assert_true(largest > 0 && error <= 1e-5f * largest);
}

static void programs_with_shared_blocks_are_right(void **state)
{
    (void)state;
    for_each_driver(check_program);
}

/* Whole waves are not shared, and a group never gets a whole tile of the rest; nor is there sharing of few terms. */
static void only_the_last_wave_is_shared(void **state)
{
    (void)state;
    for (int64_t wave = 1; wave < 40; wave++)
        for (int64_t tiles = 1; tiles < 100; tiles++) {
            const tile_shares many = tuff__share_tiles(tiles, 8192, wave), few = tuff__share_tiles(tiles, 100, wave);
            assert_int_equal(many.whole, tiles - tiles % wave);
            assert_int_equal(many.sharers, tiles % wave == 0 ? 0 : wave);
            assert_true(few.sharers == 0 && few.whole == tiles);
        }
    /* As many as there are whole shares of terms, as parts of a tile may be, and none beyond 32 bits. */
    assert_int_equal(tuff__share_tiles(1, 8192, 200).sharers, 64);
    assert_int_equal(tuff__share_tiles(1, 512, 30).sharers, 4);
    assert_int_equal(tuff__share_tiles(3, INT32_MAX / 2, 4).sharers, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_the_last_wave_is_shared),
                                       cmocka_unit_test(blocks_shared_by_groups_are_right),
                                       cmocka_unit_test(blocks_are_shared_if_waves_are_uneven),
                                       cmocka_unit_test(programs_with_shared_blocks_are_right)};
    return cmocka_run_group_tests_name("stream_k", tests, NULL, NULL);
}
