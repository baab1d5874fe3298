/* The guarantees of assign on every device: reads see the elements from the start of a run, whether the assignment is
   in place or not. All numbers are small enough for exact arithmetic on every device, so that results are compared bit
   for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "device/state.h"
#include "each_device.h"
#include "exec/plan.h"
#include "ops/ops.h"
#include "small_plans.h"

/* Two arrays are swapped in one run; outputs see the elements from its start. */
static void swap(tuff_device *device)
{
    const float one[] = {1, 2, 3, 4, 5}, two[] = {-1, -2, -3, -4, -5};
    tuff_array *a = make_array(device, TUFF_F32, 5, one), *b = make_array(device, TUFF_F32, 5, two);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_assign(graph, a, tuff_array_tensor(graph, b));
    tuff_assign(graph, b, tuff_array_tensor(graph, a));
    tuff_output(graph, "a", tuff_array_tensor(graph, a));
    tuff_plan *plan = compile_plan(graph);
    for (int i = 0; i < 3; i++) {
        run_plan(plan);
        expect_output(plan, "a", i % 2 ? two : one, sizeof one);
        expect_array(a, i % 2 ? one : two);
        expect_array(b, i % 2 ? two : one);
    }
    destroy_plan(plan, graph);
    tuff_array_destroy(a);
    tuff_array_destroy(b);
}

static void arrays_swap_in_one_run(void **state)
{
    (void)state;
    for_drawn_devices(swap);
}

/* w := w - g is done in place if possible; all other reads of w see the old elements. */
static void update(tuff_device *device)
{
    const float start[] = {8, 7, 6, 5, 4, 3}, gradient[] = {1, 1, 2, 2, 3, 3};
    tuff_array *w = make_array(device, TUFF_F32, 6, start);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *old = tuff_array_tensor(graph, w), *g = tuff_input(graph, "g", TUFF_F32, TUFF_SHAPE(6));
    tuff_output(graph, "sum", tuff_sum(tuff_mul(old, old), (int[]){0}, 1, false));
    tuff_output(graph, "new", tuff_assign(graph, w, tuff_sub(old, g)));
    tuff_output(graph, "back", reversed(old));
    tuff_plan *plan = compile_plan(graph);
    assert_int_equal(tuff_plan_write(plan, "g", gradient, sizeof gradient), TUFF_OK);
    float expected[6], back[6];
    memcpy(expected, start, sizeof expected);
    for (int i = 0; i < 3; i++) {
        float sum = 0;
        for (int k = 0; k < 6; k++) {
            sum += expected[k] * expected[k];
            back[5 - k] = expected[k];
            expected[k] -= gradient[k];
        }
        run_plan(plan);
        expect_output(plan, "sum", &sum, sizeof sum);
        expect_output(plan, "back", back, sizeof back);
        expect_output(plan, "new", expected, sizeof expected);
        expect_array(w, expected);
    }
    destroy_plan(plan, graph);
    tuff_array_destroy(w);
}

static void an_update_leaves_other_readers_the_old_elements(void **state)
{
    (void)state;
    for_drawn_devices(update);
}

/* Each new element depends on all old ones: nothing may be written before everything is read. */
static void turn(tuff_device *device)
{
    const float start[] = {1, 2, 3, 4, 5, 6, 7}, turned[] = {7, 6, 5, 4, 3, 2, 1};
    const float total[] = {29, 30, 31, 32, 33, 34, 35};
    tuff_array *a = make_array(device, TUFF_F32, 7, start), *b = make_array(device, TUFF_F32, 7, start);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_array_tensor(graph, b);
    tuff_assign(graph, a, reversed(tuff_array_tensor(graph, a)));
    tuff_assign(graph, b, tuff_add(x, tuff_sum(x, (int[]){0}, 1, true)));
    tuff_plan *plan = compile_plan(graph);
    run_plan(plan);
    expect_array(a, turned);
    expect_array(b, total);
    destroy_plan(plan, graph);
    tuff_array_destroy(a);
    tuff_array_destroy(b);
}

static void an_array_can_be_turned_round(void **state)
{
    (void)state;
    for_drawn_devices(turn);
}

enum { ELEMENTS = 1500 };

static tuff_array *count_from(tuff_device *device, int64_t first, float *values)
{
    for (int i = 0; i < ELEMENTS; i++)
        values[i] = (float)(first + i);
    return make_array(device, TUFF_F32, ELEMENTS, values);
}

/* The kernel that assigns in place also computes an output from the old elements. */
static void change(tuff_device *device)
{
    static float old[ELEMENTS], x[ELEMENTS], wanted[ELEMENTS], changed[ELEMENTS];
    tuff_array *a = count_from(device, 3, old);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *input = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ELEMENTS)), *before = tuff_array_tensor(graph, a);
    tuff_tensor *new = tuff_mul(input, tuff_constant(graph, TUFF_F32, 2));
    tuff_assign(graph, a, new);
    tuff_output(graph, "change", tuff_sub(new, before));
    tuff_tensor *kept = tuff_slice(before, (int64_t[]){1}, (int64_t[]){ELEMENTS}, NULL);
    tuff_output(graph, "padded", tuff_pad(kept, (int64_t[]){1}, (int64_t[]){0}, 0));
    tuff_plan *plan = compile_plan(graph);
    for (int run = 0; run < 2; run++) {
        for (int i = 0; i < ELEMENTS; i++) {
            x[i] = (float)(i * (run + 2));
            wanted[i] = 2 * x[i] - old[i];
            changed[i] = i == 0 ? 0 : old[i];
        }
        assert_int_equal(tuff_plan_write(plan, "x", x, sizeof x), TUFF_OK);
        run_plan(plan);
        expect_output(plan, "change", wanted, sizeof wanted);
        expect_output(plan, "padded", changed, sizeof changed);
        for (int i = 0; i < ELEMENTS; i++)
            old[i] = 2 * x[i];
        expect_array(a, old);
    }
    destroy_plan(plan, graph);
    tuff_array_destroy(a);
}

/* Each array becomes the sum of the other and x: both must be read before either is written. */
static void cross(tuff_device *device)
{
    static float a_values[ELEMENTS], b_values[ELEMENTS], x[ELEMENTS];
    tuff_array *a = count_from(device, 1, a_values), *b = count_from(device, -700, b_values);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *input = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ELEMENTS));
    tuff_assign(graph, a, tuff_add(tuff_array_tensor(graph, b), input));
    tuff_assign(graph, b, tuff_add(tuff_array_tensor(graph, a), input));
    tuff_plan *plan = compile_plan(graph);
    for (int i = 0; i < ELEMENTS; i++)
        x[i] = (float)(3 * i);
    assert_int_equal(tuff_plan_write(plan, "x", x, sizeof x), TUFF_OK);
    run_plan(plan);
    for (int i = 0; i < ELEMENTS; i++) {
        const float old = a_values[i];
        a_values[i] = b_values[i] + x[i];
        b_values[i] = old + x[i];
    }
    expect_array(a, a_values);
    expect_array(b, b_values);
    destroy_plan(plan, graph);
    tuff_array_destroy(a);
    tuff_array_destroy(b);
}

static void old_elements_are_read_before_new_ones_are_stored(void **state)
{
    (void)state;
    for_drawn_devices(change);
    for_drawn_devices(cross);
}

/* Checks the alignment that kernels in local memory assume if their operands lie in the plan's own memory: operands
   that a task computes begin at a multiple of eight elements. */
static void expect_aligned_operands(const tuff_plan *plan)
{
    const launch_list *list = &plan->executable.launches;
    int products = 0;
    for (int i = 0; i < list->launch_count; i++) {
        const launch *kernel = &list->launches[i];
        if (strncmp(kernel->body, "matmul_", 7) != 0)
            continue;
        products++;
        for (int k = 0; k < 2 && kernel->aligned; k++) {
            const chain_buffer *used = &kernel->chain.buffers[kernel->chain.operand_buffers[k]];
            assert_int_equal(list->buffers[used->id].offset % (8 * tuff_dtype_size(used->dtype)), 0);
        }
    }
    assert_true(products > 0 || list->launch_count == 0);
}

/* A factor that is assigned to an array at an odd offset, so that its vectors are not aligned. */
static void multiply_by(tuff_device *device, const tuff_compile_options *options)
{
    enum { WIDTH = 8, COUNT = WIDTH * WIDTH };
    float x[COUNT], y[COUNT], wanted[COUNT] = {0}, all[COUNT + 1] = {0};
    tuff_array *slab = make_array(device, TUFF_F32, COUNT + 1, all);
    tuff_array *odd = tuff_array_view(slab, 1, TUFF_SHAPE(WIDTH, WIDTH));
    tuff_graph *graph = tuff_graph_create(device);
    const tuff_shape shape = TUFF_SHAPE(WIDTH, WIDTH);
    tuff_tensor *a = tuff_input(graph, "a", TUFF_F32, shape), *b = tuff_input(graph, "b", TUFF_F32, shape);
    tuff_tensor *new = tuff_assign(graph, odd, tuff_mul(b, tuff_constant(graph, TUFF_F32, 2)));
    tuff_output(graph, "product", tuff_matmul(a, new));
    tuff_plan *plan = tuff_compile(graph, options);
    if (!plan)
        fail_msg("%s", tuff_error());
    expect_aligned_operands(plan);
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)(i % 7 - 3);
        y[i] = (float)(i % 11 - 5);
        all[i + 1] = 2 * y[i];
    }
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < WIDTH; k++)
            wanted[i] += x[i / WIDTH * WIDTH + k] * 2 * y[k * WIDTH + i % WIDTH];
    assert_int_equal(tuff_plan_write(plan, "a", x, sizeof x), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "b", y, sizeof y), TUFF_OK);
    run_plan(plan);
    expect_output(plan, "product", wanted, sizeof wanted);
    expect_array(slab, all);
    destroy_plan(plan, graph);
    tuff_array_destroy(odd);
    tuff_array_destroy(slab);
}

/* With the device's default kernels, with those in local memory and, on drivers, with those for a GPU. */
static void multiply(tuff_device *device)
{
    const tuff_device_info info = device->info;
    multiply_by(device, NULL);
    multiply_by(device, &(tuff_compile_options){.family = TUFF_FAMILY_LOCAL});
    if (!tuff__device_is_reference(device)) {
        device->info.device_class = TUFF_DEVICE_GPU_DISCRETE;
        device->info.local_is_global = false;
        multiply_by(device, NULL);
        device->info = info;
    }
}

static void factors_may_be_assigned_anywhere(void **state)
{
    (void)state;
    for_drawn_devices(multiply);
}

static void refuse_overlap(tuff_device *device)
{
    tuff_array *slab = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(8));
    tuff_array *low = tuff_array_view(slab, 0, TUFF_SHAPE(5)), *high = tuff_array_view(slab, 4, TUFF_SHAPE(4));
    tuff_array *pairs[][2] = {{slab, slab}, {slab, high}, {low, high}, {high, low}};
    for (int i = 0; i < 4; i++) {
        tuff_graph *graph = tuff_graph_create(device);
        for (int k = 0; k < 2; k++)
            tuff_assign(graph, pairs[i][k], tuff_neg(tuff_array_tensor(graph, pairs[i][k])));
        assert_int_equal(tuff_graph_status(graph), TUFF_E_USAGE);
        assert_non_null(strstr(tuff_graph_error(graph), "overlaps"));
        assert_null(tuff_compile(graph, NULL));
        assert_non_null(strstr(tuff_error(), "overlaps"));
        tuff_graph_destroy(graph);
    }
    tuff_array_destroy(low);
    tuff_array_destroy(high);
    tuff_array_destroy(slab);
}

static void overlapping_assigns_are_an_error(void **state)
{
    (void)state;
    for_drawn_devices(refuse_overlap);
}

/* An array without elements shares none, wherever in another one it lies. */
static void assign_around(tuff_device *device)
{
    const float before[] = {1, 2, 3, 4}, after[] = {-1, -2, -3, -4};
    tuff_array *whole = make_array(device, TUFF_F32, 4, before), *empty = tuff_array_view(whole, 2, TUFF_SHAPE(0));
    tuff_graph *graph = tuff_graph_create(device);
    tuff_assign(graph, whole, tuff_neg(tuff_array_tensor(graph, whole)));
    tuff_assign(graph, empty, tuff_neg(tuff_array_tensor(graph, empty)));
    tuff_plan *plan = compile_plan(graph);
    run_plan(plan);
    expect_array(whole, after);
    destroy_plan(plan, graph);
    tuff_array_destroy(empty);
    tuff_array_destroy(whole);
}

static void empty_arrays_overlap_with_none(void **state)
{
    (void)state;
    for_drawn_devices(assign_around);
}

/* Two parts of a slab are assigned from each other, while the whole slab is read. */
static void use_views(tuff_device *device)
{
    const float start[] = {1, 2, 3, 4, 5, 6, 7}, after[] = {5, 6, 7, 4, 2, 4, 6}, twice[] = {2, 4, 6, 8, 10, 12, 14};
    tuff_array *slab = make_array(device, TUFF_F32, 7, start);
    tuff_array *low = tuff_array_view(slab, 0, TUFF_SHAPE(3)), *high = tuff_array_view(slab, 4, TUFF_SHAPE(3));
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *whole = tuff_array_tensor(graph, slab), *first = tuff_array_tensor(graph, low);
    tuff_assign(graph, low, tuff_array_tensor(graph, high));
    tuff_assign(graph, high, tuff_add(first, first));
    tuff_output(graph, "twice", tuff_add(whole, whole));
    tuff_plan *plan = compile_plan(graph);
    run_plan(plan);
    expect_output(plan, "twice", twice, sizeof twice);
    expect_array(low, after);
    expect_array(high, after + 4);
    destroy_plan(plan, graph);
    tuff_array_destroy(slab); /* the views keep the storage alive */
    expect_array(high, after + 4);
    tuff_array_destroy(low);
    tuff_array_destroy(high);
}

static void views_of_one_slab_are_assigned_apart(void **state)
{
    (void)state;
    for_drawn_devices(use_views);
}

/* A part of a slab is assigned the elements one before or one after it, so that many work-items read what others
   write. */
static void shift(tuff_device *device, int64_t from, int64_t to)
{
    enum { MANY = 1500 };
    static float start[MANY + 1], after[MANY + 1];
    tuff_array *slab = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(MANY + 1));
    tuff_array *source = tuff_array_view(slab, from, TUFF_SHAPE(MANY));
    tuff_array *changed = tuff_array_view(slab, to, TUFF_SHAPE(MANY));
    tuff_graph *graph = tuff_graph_create(device);
    for (int i = 0; i <= MANY; i++)
        start[i] = (float)(i * 7 % 1009);
    assert_int_equal(tuff_array_write(slab, start, sizeof start), TUFF_OK);
    tuff_assign(graph, changed, tuff_add(tuff_array_tensor(graph, source), tuff_constant(graph, TUFF_F32, 1)));
    tuff_plan *plan = compile_plan(graph);
    run_plan(plan);
    assert_int_equal(tuff_array_read(slab, after, sizeof after), TUFF_OK);
    for (int i = 0; i < MANY; i++)
        assert_true(after[to + i] == start[from + i] + 1);
    destroy_plan(plan, graph);
    tuff_array_destroy(source);
    tuff_array_destroy(changed);
    tuff_array_destroy(slab);
}

static void shift_both_ways(tuff_device *device)
{
    shift(device, 0, 1);
    shift(device, 1, 0);
}

static void a_part_may_become_its_neighbour(void **state)
{
    (void)state;
    for_drawn_devices(shift_both_ways);
}

/* One value is an output twice, and is assigned to two arrays. */
static void share_value(tuff_device *device)
{
    const float zeros[4] = {0}, x[] = {1, -2, 3, -4}, twice[] = {2, -4, 6, -8};
    tuff_array *a = make_array(device, TUFF_F32, 4, zeros), *b = make_array(device, TUFF_F32, 4, zeros);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *input = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(4)), *value = tuff_add(input, input);
    tuff_output(graph, "value", value);
    tuff_output(graph, "assigned", tuff_assign(graph, a, value));
    tuff_assign(graph, b, value);
    tuff_output(graph, "old", tuff_array_tensor(graph, a));
    tuff_output(graph, "x again", input);
    tuff_plan *plan = compile_plan(graph);
    assert_int_equal(tuff_plan_write(plan, "x", x, sizeof x), TUFF_OK);
    for (int i = 0; i < 2; i++) {
        run_plan(plan);
        expect_output(plan, "value", twice, sizeof twice);
        expect_output(plan, "assigned", twice, sizeof twice);
        expect_output(plan, "old", i == 0 ? zeros : twice, sizeof zeros);
        expect_output(plan, "x again", x, sizeof x);
        expect_array(a, twice);
        expect_array(b, twice);
    }
    destroy_plan(plan, graph);
    tuff_array_destroy(a);
    tuff_array_destroy(b);
}

static void a_value_may_be_output_and_assigned(void **state)
{
    (void)state;
    for_drawn_devices(share_value);
}

/* Adds one to the elements from start on, in the middle of arrays of 12 narrow elements; inverts bools. */
static tuff_graph *raise_narrow(tuff_device *device, tuff_array *const *arrays, tuff_array **parts, int64_t start,
                                int64_t count)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *one = tuff_constant(graph, TUFF_F32, 1);
    for (int i = 0; i < 4; i++) {
        parts[i] = tuff_array_view(arrays[i], start, TUFF_SHAPE(count));
        tuff_tensor *old = tuff_cast(tuff_array_tensor(graph, parts[i]), TUFF_F32);
        tuff_tensor *next = i == 3 ? tuff_sub(one, old) : tuff_add(old, one);
        tuff_assign(graph, parts[i], tuff_cast(next, tuff_array_dtype(arrays[i])));
    }
    return graph;
}

static void assign_narrow_part(tuff_device *device, int64_t start, int64_t count)
{
    static const tuff_dtype dtypes[] = {TUFF_F16, TUFF_BF16, TUFF_U8, TUFF_BOOL};
    const double values[] = {9, 8, 7, 6, 5, 4, 3, 2, 1, 2, 3, 4};
    tuff_array *arrays[4], *parts[4];
    unsigned char bytes[64];
    for (int i = 0; i < 4; i++) {
        tuff__from_double(dtypes[i], values, 12, bytes);
        arrays[i] = make_array(device, dtypes[i], 12, bytes);
    }
    tuff_graph *graph = raise_narrow(device, arrays, parts, start, count);
    tuff_plan *plan = compile_plan(graph);
    run_plan(plan);
    for (int i = 0; i < 4; i++) {
        double after[12];
        for (int k = 0; k < 12; k++)
            after[k] = k < start || k >= start + count ? values[k] : i == 3 ? 0 : values[k] + 1;
        tuff__from_double(dtypes[i], after, 12, bytes);
        expect_array(arrays[i], bytes);
    }
    destroy_plan(plan, graph);
    for (int i = 0; i < 4; i++) {
        tuff_array_destroy(parts[i]);
        tuff_array_destroy(arrays[i]);
    }
}

/* Parts that are whole words, that end within one, and that lie within one. */
static void assign_narrow(tuff_device *device)
{
    assign_narrow_part(device, 4, 4);
    assign_narrow_part(device, 1, 7);
    assign_narrow_part(device, 5, 1);
}

static void narrow_arrays_keep_their_neighbours(void **state)
{
    (void)state;
    for_drawn_devices(assign_narrow);
}

/* The result of tuff_assign equals what the array stores. */
static void assign_rounded(tuff_device *device, tuff_dtype dtype)
{
    const float one = 1, third = 1.0f / 3, rounded = (float)tuff__round_to(dtype, (double)third);
    tuff_array *arrays[2];
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_cast(tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(1)), dtype);
    tuff_tensor *constant = tuff_constant(graph, dtype, 1.0 / 3);
    tuff_tensor *values[] = {tuff_mul(x, constant), tuff_reshape(constant, TUFF_SHAPE(1))};
    static const char *const names[] = {"computed", "constant"};
    for (int i = 0; i < 2; i++) {
        arrays[i] = tuff_array_create(device, dtype, TUFF_SHAPE(1));
        tuff_output(graph, names[i], tuff_cast(tuff_assign(graph, arrays[i], values[i]), TUFF_F32));
    }
    tuff_output(graph, "before", tuff_cast(values[0], TUFF_F32));
    tuff_plan *plan = compile_plan(graph);
    assert_int_equal(tuff_plan_write(plan, "x", &one, sizeof one), TUFF_OK);
    run_plan(plan);
    char bytes[2];
    tuff__from_double(dtype, &(double){(double)rounded}, 1, bytes);
    for (int i = 0; i < 2; i++) {
        expect_output(plan, names[i], &rounded, sizeof rounded);
        expect_array(arrays[i], bytes);
    }
    expect_output(plan, "before", &third, sizeof third);
    destroy_plan(plan, graph);
    for (int i = 0; i < 2; i++)
        tuff_array_destroy(arrays[i]);
}

static void assign_narrow_floats(tuff_device *device)
{
    assign_rounded(device, TUFF_F16);
    assign_rounded(device, TUFF_BF16);
}

static void an_assigned_value_is_what_the_array_keeps(void **state)
{
    (void)state;
    for_drawn_devices(assign_narrow_floats);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_swap_in_one_run),
        cmocka_unit_test(an_update_leaves_other_readers_the_old_elements),
        cmocka_unit_test(an_array_can_be_turned_round),
        cmocka_unit_test(old_elements_are_read_before_new_ones_are_stored),
        cmocka_unit_test(factors_may_be_assigned_anywhere),
        cmocka_unit_test(overlapping_assigns_are_an_error),
        cmocka_unit_test(empty_arrays_overlap_with_none),
        cmocka_unit_test(views_of_one_slab_are_assigned_apart),
        cmocka_unit_test(a_part_may_become_its_neighbour),
        cmocka_unit_test(a_value_may_be_output_and_assigned),
        cmocka_unit_test(narrow_arrays_keep_their_neighbours),
        cmocka_unit_test(an_assigned_value_is_what_the_array_keeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
