/* Random values for graphs from files must be valid for what the graph does with them, which the results show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scratch_folder.h"
#include "tools/model/graph_data.h"

enum { COUNT = 400 };

typedef struct loaded {
    tuff_device *device;
    tuff_graph *graph;
    tuff_plan *plan;
} loaded;

/* Saves, loads, compiles, fills and runs. */
static loaded run_filled(tuff_device *device, const tuff_graph *graph)
{
    loaded self = {.device = device};
    if (tuff_graph_save(graph, scratch_path("graph"), NULL) != TUFF_OK)
        fail_msg("%s", tuff_error());
    self.graph = tuff_graph_load(device, scratch_path("graph"), NULL);
    self.plan = self.graph ? tuff_compile(self.graph, NULL) : NULL;
    if (!self.plan || graph_data_write(self.graph, 1, self.plan) != TUFF_OK || tuff_plan_run(self.plan) != TUFF_OK)
        fail_msg("%s", tuff_error());
    return self;
}

static void destroy(loaded *self)
{
    tuff_plan_destroy(self->plan);
    tuff_graph_destroy(self->graph);
    tuff_device_close(self->device);
}

static void read_i32(const loaded *self, const char *name, int32_t *values)
{
    if (tuff_plan_read(self->plan, name, values, COUNT * sizeof *values) != TUFF_OK)
        fail_msg("%s", tuff_error());
}

/* Checks that all values are in the range, and that both ends occur. */
static void expect_range(const loaded *self, const char *name, int32_t low, int32_t high)
{
    int32_t values[COUNT], least = INT32_MAX, most = INT32_MIN;
    read_i32(self, name, values);
    for (int i = 0; i < COUNT; i++) {
        least = values[i] < least ? values[i] : least;
        most = values[i] > most ? values[i] : most;
    }
    if (least != low || most != high)
        fail_msg("%s: %d to %d, not %d to %d", name, least, most, low, high);
}

static tuff_tensor *table_of(tuff_graph *graph, int64_t rows)
{
    return tuff_cast(tuff_iota(graph, TUFF_SHAPE(rows, 2), 0), TUFF_F32);
}

static tuff_tensor *integers(tuff_graph *graph, const char *name, tuff_dtype dtype)
{
    return tuff_input(graph, name, dtype, TUFF_SHAPE(COUNT));
}

/* Outputs an element of each row that was looked up: 0 or more, and NaN for an invalid index. */
static void look_up(tuff_graph *graph, const char *output, tuff_tensor *indices, int64_t rows)
{
    tuff_tensor *found = tuff_embedding(table_of(graph, rows), indices);
    tuff_output(graph, output, tuff_cast(tuff_reduce_max(found, (int[]){1}, 1, false), TUFF_I32));
}

static void indices_lie_within_extents(void **state)
{
    (void)state;
    tuff_device *device = tuff_device_open("reference");
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *windows = tuff_input(graph, "windows", TUFF_I32, TUFF_SHAPE(2, COUNT));
    tuff_tensor *slice = tuff_slice(windows, (int64_t[]){1, 0}, (int64_t[]){2, COUNT}, NULL);
    look_up(graph, "sliced", tuff_reshape(slice, TUFF_SHAPE(COUNT)), 9);
    tuff_tensor *both = integers(graph, "both", TUFF_I32); /* the smaller extent is the limit */
    look_up(graph, "nine", both, 9);
    look_up(graph, "five", both, 5);
    tuff_tensor *labels = integers(graph, "labels", TUFF_I32);
    tuff_output(graph, "labels", tuff_add(labels, tuff_constant(graph, TUFF_I32, 0)));
    tuff_output(graph, "hot", tuff_one_hot(labels, 6));
    tuff_tensor *computed = integers(graph, "computed", TUFF_I32);
    look_up(graph, "computed", tuff_add(computed, tuff_constant(graph, TUFF_I32, 3)), 4);
    loaded self = run_filled(device, graph);
    expect_range(&self, "sliced", 0, 8);
    expect_range(&self, "nine", 0, 4);
    expect_range(&self, "five", 0, 4);
    expect_range(&self, "labels", 0, 5);
    expect_range(&self, "computed", 3, 3);
    tuff_graph_destroy(graph);
    destroy(&self);
}

static void other_integers_are_what_their_dtype_holds(void **state)
{
    (void)state;
    static const struct {
        tuff_dtype dtype;
        const char *name;
    } inputs[] = {{TUFF_I32, "i32"}, {TUFF_U32, "u32"}, {TUFF_I8, "i8"}, {TUFF_U8, "u8"}, {TUFF_BOOL, "bool"}};
    tuff_device *device = tuff_device_open("reference");
    tuff_graph *graph = tuff_graph_create(device);
    for (int i = 0; i < 5; i++)
        tuff_output(graph, inputs[i].name,
                    tuff_add(tuff_cast(integers(graph, inputs[i].name, inputs[i].dtype), TUFF_I32),
                             tuff_constant(graph, TUFF_I32, 0)));
    tuff_array *counter = tuff_array_create(device, TUFF_I32, TUFF_SHAPE(COUNT));
    tuff_tensor *before = tuff_array_tensor(graph, counter);
    tuff_assign(graph, counter, tuff_add(before, tuff_constant(graph, TUFF_I32, 1)));
    tuff_output(graph, "counter", tuff_mul(before, tuff_constant(graph, TUFF_I32, 2)));
    loaded self = run_filled(device, graph);
    int32_t values[COUNT];
    for (int i = 0; i < 5; i++) {
        read_i32(&self, inputs[i].name, values);
        for (int k = 0; k < COUNT; k++)
            assert_true(values[k] >= 0 && values[k] < (i == 4 ? 2 : 256) && (i == 3 || values[k] < 128));
    }
    expect_range(&self, "bool", 0, 1);
    expect_range(&self, "counter", 0, 0);
    tuff_array_destroy(counter);
    tuff_graph_destroy(graph);
    destroy(&self);
}

/* As in RMSprop: a moment of which the root is taken as a divisor, and weights of either sign. */
static void roots_are_taken_of_what_has_one(void **state)
{
    (void)state;
    tuff_device *device = tuff_device_open("reference");
    tuff_graph *graph = tuff_graph_create(device);
    tuff_array *moment = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(COUNT)),
               *weights = tuff_array_create(device, TUFF_BF16, TUFF_SHAPE(COUNT));
    tuff_tensor *w = tuff_cast(tuff_array_tensor(graph, weights), TUFF_F32), *v = tuff_array_tensor(graph, moment);
    tuff_tensor *next = tuff_add(tuff_mul(v, tuff_constant(graph, TUFF_F32, 0.9)), tuff_mul(w, w));
    tuff_assign(graph, moment, next);
    tuff_tensor *root = tuff_sqrt(tuff_add(v, tuff_constant(graph, TUFF_F32, 0)));
    tuff_output(graph, "finite", tuff_cast(tuff_less(root, tuff_constant(graph, TUFF_F32, 1)), TUFF_I32));
    tuff_output(graph, "sign", tuff_cast(tuff_less(w, tuff_constant(graph, TUFF_F32, 0)), TUFF_I32));
    loaded self = run_filled(device, graph);
    expect_range(&self, "finite", 1, 1);
    expect_range(&self, "sign", 0, 1);
    tuff_array_destroy(moment);
    tuff_array_destroy(weights);
    tuff_graph_destroy(graph);
    destroy(&self);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, scratch_folder_make, scratch_folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(indices_lie_within_extents),
        IN_FOLDER(other_integers_are_what_their_dtype_holds),
        IN_FOLDER(roots_are_taken_of_what_has_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
