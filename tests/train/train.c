/* Parameters, optimizers and checkpoints on every device found: against plain C loops in double, and bit for bit if a
   run continues from a checkpoint. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file/file.h"
#include "each_device.h"
#include "train/state.h"
#include "tuff/io.h"

/* Sizes that are no multiples of anything, a vector before a matrix, and an empty one. */
static const tuff_parameter_spec specs[] = {
    {"bias", {.rank = 1, .extent = {7}}},          {"weight", {.rank = 2, .extent = {7, 5}}},
    {"empty", {.rank = 2, .extent = {0, 3}}},      {"scale", {.rank = 0}},
    {"kernel", {.rank = 3, .extent = {3, 5, 70}}},
};
enum { SPEC_COUNT = sizeof specs / sizeof *specs, ELEMENTS_MAX = 1050 };

static double value_at(int index, int64_t element, int round)
{
    return sin(1.0 + index * 3.7 + (double)element * 0.61 + round * 1.3);
}

static void read_floats(tuff_array *array, float *out)
{
    assert_int_equal(tuff_array_read(array, out, (size_t)tuff_array_size(array)), TUFF_OK);
}

static void write_weights(tuff_parameters *parameters)
{
    float values[ELEMENTS_MAX];
    for (int i = 0; i < SPEC_COUNT; i++) {
        const int64_t count = tuff_shape_count(specs[i].shape);
        for (int64_t j = 0; j < count; j++)
            values[j] = (float)value_at(i, j, 0);
        tuff_array *array = tuff_parameters_find(parameters, specs[i].name);
        assert_int_equal(tuff_array_write(array, values, (size_t)count * sizeof *values), TUFF_OK);
    }
}

static tuff_parameters *make_parameters(tuff_device *device)
{
    tuff_parameters *parameters = tuff_parameters_create(device, specs, SPEC_COUNT);
    assert_non_null(parameters);
    write_weights(parameters);
    return parameters;
}

static void check_places(tuff_device *device)
{
    tuff_parameters *parameters = make_parameters(device);
    assert_int_equal(tuff_parameters_count(parameters), SPEC_COUNT);
    assert_int_equal(parameters->slab_count, 1);
    assert_int_equal(parameters->slabs[0].total % SLAB_CHUNK, 0);
    assert_int_equal(parameters->region_count, 2);
    for (int i = 0; i < SPEC_COUNT; i++) {
        const char *name;
        float values[ELEMENTS_MAX];
        tuff_array *array = tuff_parameters_at(parameters, i, &name);
        assert_string_equal(name, specs[i].name);
        assert_ptr_equal(array, tuff_parameters_find(parameters, name));
        assert_true(tuff_shape_equal(tuff_array_shape(array), specs[i].shape));
        assert_int_equal(parameters->items[i].offset % SLAB_ALIGNMENT, 0);
        assert_int_equal(parameters->items[i].offset < parameters->regions[0].end || parameters->items[i].count == 0,
                         specs[i].shape.rank >= 2);
        read_floats(array, values);
        for (int64_t j = 0; j < tuff_shape_count(specs[i].shape); j++)
            assert_float_equal(values[j], value_at(i, j, 0), 1e-7);
    }
    assert_null(tuff_parameters_at(parameters, SPEC_COUNT, NULL));
    assert_null(tuff_parameters_at(parameters, -1, NULL));
    assert_null(tuff_parameters_find(parameters, "nothing"));
    tuff_parameters_destroy(parameters);
}

static void check_refusals(tuff_device *device)
{
    const tuff_parameter_spec twice[] = {{"a", {.rank = 0}}, {"a", {.rank = 0}}};
    const tuff_parameter_spec reserved = {"optimizer.m.a", {.rank = 0}}, nameless = {"", {.rank = 0}};
    const tuff_parameter_spec negative = {"a", {.rank = 1, .extent = {-1}}}, deep = {"a", {.rank = 9}};
    const tuff_parameter_spec huge = {"a", {.rank = 2, .extent = {INT32_MAX, 2}}};
    assert_null(tuff_parameters_create(device, twice, 2));
    assert_non_null(strstr(tuff_error(), "\"a\" is given twice"));
    assert_null(tuff_parameters_create(device, &reserved, 1));
    assert_null(tuff_parameters_create(device, &nameless, 1));
    for (int i = 0; i < 3; i++) { /* names that a checkpoint cannot hold */
        static const char *const names[] = {"__metadata__", "weight\xff", "\xc0\xaf"};
        const tuff_parameter_spec unsaved = {names[i], {.rank = 0}};
        assert_null(tuff_parameters_create(device, &unsaved, 1));
        assert_int_equal(tuff_last_status(), TUFF_E_USAGE);
    }
    assert_null(tuff_parameters_create(device, &negative, 1));
    assert_null(tuff_parameters_create(device, &deep, 1));
    assert_null(tuff_parameters_create(device, &huge, 1));
    assert_int_equal(tuff_last_status(), TUFF_E_LIMIT);
    assert_null(tuff_parameters_create(device, NULL, 1));
    assert_null(tuff_parameters_create(NULL, twice, 1));
    tuff_parameters *parameters = make_parameters(device);
    const tuff_optimizer_options wrong[] = {{.learning_rate = -1},
                                            {.beta1 = 1},
                                            {.epsilon = NAN},
                                            {.epsilon = 1e-50}, /* 0 as an f32 */
                                            {.epsilon = 1e-40}, /* denormal: 0 on some devices */
                                            {.momentum = 1},
                                            {.weight_decay = -1},
                                            {.clip_norm = INFINITY},
                                            {.warmup_steps = -1},
                                            {.final_fraction = 2},
                                            {.kind = TUFF_OPTIMIZER_COUNT},
                                            {.warmup_steps = 5, .total_steps = 5}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_null(tuff_optimizer_create(parameters, &wrong[i]));
    assert_null(tuff_optimizer_create(NULL, NULL));
    tuff_parameters_destroy(parameters);
}

/* A model whose gradients are its inputs: loss = sum(w · g). */
typedef struct bench {
    tuff_parameters *parameters;
    tuff_optimizer *optimizer;
    tuff_plan *plan;
} bench;

static bench make_bench(tuff_device *device, const tuff_optimizer_options *options)
{
    bench self = {.parameters = make_parameters(device)};
    self.optimizer = tuff_optimizer_create(self.parameters, options);
    tuff_graph *graph = tuff_graph_create(device);
    const int axes[] = {0, 1, 2};
    tuff_optimizer_tensors made;
    tuff_tensor *loss = tuff_constant(graph, TUFF_F32, 0);
    for (int i = 0; i < SPEC_COUNT; i++) {
        if (tuff_shape_count(specs[i].shape) == 0)
            continue;
        tuff_tensor *weight = tuff_array_tensor(graph, tuff_parameters_at(self.parameters, i, NULL));
        tuff_tensor *gradient = tuff_input(graph, specs[i].name, TUFF_F32, specs[i].shape);
        loss = tuff_add(loss, tuff_sum(tuff_mul(weight, gradient), axes, specs[i].shape.rank, false));
    }
    assert_int_equal(tuff_optimizer_apply(self.optimizer, loss, &made), TUFF_OK);
    tuff_output(graph, "norm", made.gradient_norm);
    tuff_output(graph, "rate", made.learning_rate);
    self.plan = tuff_compile(graph, NULL);
    if (!self.plan)
        fail_msg("%s", tuff_error());
    tuff_graph_destroy(graph);
    return self;
}

static void drop_bench(bench *self)
{
    tuff_plan_destroy(self->plan);
    tuff_optimizer_destroy(self->optimizer);
    tuff_parameters_destroy(self->parameters);
}

static void run_bench(bench *self, int step)
{
    float values[ELEMENTS_MAX];
    for (int i = 0; i < SPEC_COUNT; i++) {
        const int64_t count = tuff_shape_count(specs[i].shape);
        for (int64_t j = 0; j < count; j++)
            values[j] = (float)value_at(i, j, step + 1);
        if (count > 0)
            assert_int_equal(tuff_plan_write(self->plan, specs[i].name, values, (size_t)count * sizeof *values),
                             TUFF_OK);
    }
    assert_int_equal(tuff_plan_run(self->plan), TUFF_OK);
}

/* The same in double, one element at a time. */
typedef struct plain_state {
    double w[SPEC_COUNT][ELEMENTS_MAX], m[SPEC_COUNT][ELEMENTS_MAX], v[SPEC_COUNT][ELEMENTS_MAX];
} plain_state;

static double plain_rate(const tuff_optimizer_options *o, int step)
{
    if (step < o->warmup_steps)
        return o->learning_rate * (step + 1) / (double)o->warmup_steps;
    if (o->total_steps == 0)
        return o->learning_rate;
    const double part = fmin(1, (double)(step - o->warmup_steps) / (double)(o->total_steps - o->warmup_steps));
    return o->learning_rate * (o->final_fraction + (1 - o->final_fraction) / 2 * (1 + cos(3.141592653589793 * part)));
}

static double plain_norm(int step)
{
    double sum = 0;
    for (int i = 0; i < SPEC_COUNT; i++)
        for (int64_t j = 0; j < tuff_shape_count(specs[i].shape); j++)
            sum += value_at(i, j, step + 1) * value_at(i, j, step + 1);
    return sqrt(sum);
}

static double plain_element(const tuff_optimizer_options *o, double w, double g, double *m, double *v, double decay,
                            int step)
{
    const double rate = plain_rate(o, step);
    if (o->kind == TUFF_SGD) {
        g += decay * w;
        *m = o->momentum * *m + g;
        return w - rate * (o->nesterov ? g + o->momentum * *m : *m);
    }
    w -= rate * decay * w;
    *m = o->beta1 * *m + (1 - o->beta1) * g;
    *v = o->beta2 * *v + (1 - o->beta2) * g * g;
    const double first = *m / (1 - pow(o->beta1, step + 1)), second = *v / (1 - pow(o->beta2, step + 1));
    return w - rate * first / (sqrt(second) + o->epsilon);
}

static void plain_step(plain_state *self, const tuff_optimizer_options *o, int step)
{
    const double scale = o->clip_norm > 0 ? fmin(1, o->clip_norm / (plain_norm(step) + 1e-6)) : 1;
    for (int i = 0; i < SPEC_COUNT; i++) {
        const double decay = o->decay_all || specs[i].shape.rank >= 2 ? o->weight_decay : 0;
        for (int64_t j = 0; j < tuff_shape_count(specs[i].shape); j++)
            self->w[i][j] = plain_element(o, self->w[i][j], scale * value_at(i, j, step + 1), &self->m[i][j],
                                          &self->v[i][j], decay, step);
    }
}

static void compare_weights(const bench *self, const plain_state *plain)
{
    float values[ELEMENTS_MAX];
    for (int i = 0; i < SPEC_COUNT; i++) {
        read_floats(tuff_parameters_at(self->parameters, i, NULL), values);
        for (int64_t j = 0; j < tuff_shape_count(specs[i].shape); j++)
            if (!(fabs((double)values[j] - plain->w[i][j]) <= 2e-6 * (fabs(plain->w[i][j]) + 0.5)))
                fail_msg("%s[%lld] is %.9g, not %.9g", specs[i].name, (long long)j, (double)values[j], plain->w[i][j]);
    }
}

static void check_rule(tuff_device *device, const tuff_optimizer_options *options, int steps)
{
    plain_state *plain = calloc(1, sizeof *plain);
    bench self = make_bench(device, options);
    float norm, rate;
    int32_t counter;
    assert_non_null(plain);
    for (int i = 0; i < SPEC_COUNT; i++)
        for (int64_t j = 0; j < tuff_shape_count(specs[i].shape); j++)
            plain->w[i][j] = value_at(i, j, 0);
    for (int step = 0; step < steps; step++) {
        run_bench(&self, step);
        plain_step(plain, options, step);
        assert_int_equal(tuff_plan_read(self.plan, "norm", &norm, sizeof norm), TUFF_OK);
        assert_int_equal(tuff_plan_read(self.plan, "rate", &rate, sizeof rate), TUFF_OK);
        assert_true(fabs((double)norm - plain_norm(step)) <= 1e-5 * plain_norm(step));
        assert_true(fabs((double)rate - plain_rate(options, step)) <= 2e-6 * options->learning_rate);
    }
    compare_weights(&self, plain);
    assert_int_equal(tuff_array_read(tuff_optimizer_counter(self.optimizer), &counter, sizeof counter), TUFF_OK);
    assert_int_equal(counter, steps);
    drop_bench(&self);
    free(plain);
}

static void check_rules(tuff_device *device)
{
    const tuff_optimizer_options rules[] = {
        {.kind = TUFF_ADAMW,
         .learning_rate = 0.01,
         .beta1 = 0.9,
         .beta2 = 0.95,
         .epsilon = 1e-8,
         .weight_decay = 0.1,
         .clip_norm = 1,
         .warmup_steps = 3,
         .total_steps = 8,
         .final_fraction = 0.1},
        {.kind = TUFF_ADAMW,
         .learning_rate = 0.01,
         .beta1 = 0.9,
         .beta2 = 0.999,
         .epsilon = 1e-3,
         .weight_decay = 0.1,
         .decay_all = true},
        {.kind = TUFF_ADAMW,
         .learning_rate = 0.01,
         .beta1 = 0.5,
         .beta2 = 0.9,
         .epsilon = 1e-8,
         .clip_norm = 1000,
         .warmup_steps = 2},
        {.kind = TUFF_SGD, .learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01, .clip_norm = 2},
        {.kind = TUFF_SGD, .learning_rate = 0.1, .momentum = 0.9, .nesterov = true, .total_steps = 6},
        {.kind = TUFF_SGD, .learning_rate = 0.1, .weight_decay = 0.01},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        check_rule(device, &rules[i], 10);
}

static const tuff_optimizer_options defaults = {
    .learning_rate = 0.01, .weight_decay = 0.1, .clip_norm = 1, .warmup_steps = 2, .total_steps = 12};

/* Reads the whole state of a bench on its device: parameters, moments, counters and so on. */
static char *all_bits(const bench *self, size_t *size)
{
    state_list list;
    char *bits = NULL;
    *size = 0;
    assert_int_equal(tuff__list_state(self->parameters, self->optimizer, &list), TUFF_OK);
    assert_int_equal(tuff__state_read(&list), TUFF_OK);
    for (int i = 0; i < list.array_count; i++) {
        const size_t more = (size_t)tuff_array_size(list.arrays[i].array);
        bits = realloc(bits, *size + more);
        assert_non_null(bits);
        memcpy(bits + *size, list.arrays[i].host, more);
        *size += more;
    }
    tuff__state_free(&list);
    return bits;
}

static void assert_same_bits(const bench *a, const bench *b, bool same)
{
    size_t size_a, size_b;
    char *bits_a = all_bits(a, &size_a), *bits_b = all_bits(b, &size_b);
    assert_int_equal(size_a, size_b);
    assert_int_equal(memcmp(bits_a, bits_b, size_a) == 0, same);
    free(bits_a);
    free(bits_b);
}

#define CHECKPOINT "train-test.safetensors"

static tuff_status save(const bench *self)
{
    const char *const keys[] = {"note"}, *const texts[] = {"half way"};
    return tuff_checkpoint_save(CHECKPOINT, self->parameters, self->optimizer, keys, texts, 1);
}

static void check_resume(tuff_device *device)
{
    bench whole = make_bench(device, &defaults), half = make_bench(device, &defaults),
          rest = make_bench(device, &defaults);
    for (int step = 0; step < 10; step++)
        run_bench(&whole, step);
    for (int step = 0; step < 5; step++)
        run_bench(&half, step);
    assert_int_equal(save(&half), TUFF_OK);
    assert_int_equal(tuff_checkpoint_load(CHECKPOINT, rest.parameters, rest.optimizer), TUFF_OK);
    assert_same_bits(&half, &rest, true);
    for (int step = 5; step < 10; step++)
        run_bench(&rest, step);
    assert_same_bits(&whole, &rest, true);
    assert_same_bits(&whole, &half, false);
    drop_bench(&whole);
    drop_bench(&half);
    drop_bench(&rest);
    remove(CHECKPOINT);
}

static void check_metadata(const char *path)
{
    tuff_file *file = tuff_file_open(path);
    tuff_file_tensor tensor;
    assert_non_null(file);
    assert_string_equal(tuff_file_metadata(file, "note"), "half way");
    assert_int_equal(tuff_file_count(file), 3 * SPEC_COUNT + 1);
    assert_int_equal(tuff_file_find(file, "optimizer.v.kernel", &tensor), TUFF_OK);
    assert_true(tuff_shape_equal(tensor.shape, specs[4].shape));
    tuff_file_close(file);
}

/* Loads the checkpoint into objects that do not match it: each is refused and changes nothing. */
static void check_strangers(tuff_device *device, const bench *saved)
{
    tuff_parameter_spec other[SPEC_COUNT];
    bench changed = make_bench(device, &defaults), untouched = make_bench(device, &defaults);
    memcpy(other, specs, sizeof other);
    other[1].shape.extent[0] = 8;
    tuff_parameters *wider = tuff_parameters_create(device, other, SPEC_COUNT);
    assert_int_equal(tuff_checkpoint_load(CHECKPOINT, wider, NULL), TUFF_E_SHAPE);
    assert_non_null(strstr(tuff_error(), "\"weight\" is [7,5], but [8,5] in the model"));
    tuff_parameters *fewer = tuff_parameters_create(device, specs, SPEC_COUNT - 1);
    assert_int_equal(tuff_checkpoint_load(CHECKPOINT, fewer, NULL), TUFF_E_FORMAT);
    assert_non_null(strstr(tuff_error(), "kernel"));
    other[1] = (tuff_parameter_spec){"another", specs[1].shape};
    tuff_parameters *renamed = tuff_parameters_create(device, other, SPEC_COUNT);
    assert_int_equal(tuff_checkpoint_load(CHECKPOINT, renamed, NULL), TUFF_E_FORMAT);
    tuff_optimizer *sgd = tuff_optimizer_create(changed.parameters, &(tuff_optimizer_options){.kind = TUFF_SGD});
    assert_int_equal(tuff_checkpoint_load(CHECKPOINT, changed.parameters, sgd), TUFF_E_FORMAT);
    assert_int_equal(tuff_checkpoint_load(CHECKPOINT, changed.parameters, saved->optimizer), TUFF_E_USAGE);
    assert_same_bits(&changed, &untouched, true);
    tuff_optimizer_destroy(sgd);
    tuff_parameters_destroy(wider);
    tuff_parameters_destroy(fewer);
    tuff_parameters_destroy(renamed);
    drop_bench(&changed);
    drop_bench(&untouched);
}

static void rewrite(const char *path, const char *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* A truncated file, and one with a flipped bit in a weight. */
static void check_damage(tuff_device *device)
{
    void *data;
    size_t size;
    bench changed = make_bench(device, &defaults), untouched = make_bench(device, &defaults);
    assert_int_equal(tuff__file_read(CHECKPOINT, 1 << 24, &data, &size), TUFF_OK);
    for (size_t cut = 0; cut < size; cut += 1 + size / 50) {
        rewrite("train-test.damaged", data, cut);
        assert_int_equal(tuff_checkpoint_load("train-test.damaged", changed.parameters, changed.optimizer),
                         TUFF_E_FORMAT);
    }
    ((char *)data)[size - 100] ^= 1;
    rewrite("train-test.damaged", data, size);
    assert_int_equal(tuff_checkpoint_load("train-test.damaged", changed.parameters, changed.optimizer), TUFF_E_FORMAT);
    assert_non_null(strstr(tuff_error(), "damaged"));
    assert_int_equal(tuff_checkpoint_load("no such file", changed.parameters, changed.optimizer), TUFF_E_IO);
    assert_same_bits(&changed, &untouched, true);
    tuff__free(data);
    remove("train-test.damaged");
    drop_bench(&changed);
    drop_bench(&untouched);
}

static ssize_t write_to_full_disk(int fd, const void *data, size_t size)
{
    (void)fd;
    (void)data;
    (void)size;
    errno = ENOSPC;
    return -1;
}

static void check_full_disk(bench *self)
{
    const file_operations real = tuff__file;
    size_t before_size, after_size;
    void *before, *after;
    assert_int_equal(tuff__file_read(CHECKPOINT, 1 << 24, &before, &before_size), TUFF_OK);
    run_bench(self, 3);
    tuff__file.write = write_to_full_disk;
    const tuff_status status = save(self);
    tuff__file = real;
    assert_int_equal(status, TUFF_E_IO);
    assert_int_equal(tuff__file_read(CHECKPOINT, 1 << 24, &after, &after_size), TUFF_OK);
    assert_int_equal(before_size, after_size);
    assert_memory_equal(before, after, after_size);
    tuff__free(before);
    tuff__free(after);
}

static void check_checkpoints(tuff_device *device)
{
    bench self = make_bench(device, &defaults);
    for (int step = 0; step < 3; step++)
        run_bench(&self, step);
    assert_int_equal(save(&self), TUFF_OK);
    check_metadata(CHECKPOINT);
    check_strangers(device, &self);
    check_damage(device);
    check_full_disk(&self);
    const char *const keys[] = {"tuff.format"}, *const texts[] = {"mine"};
    assert_int_equal(tuff_checkpoint_save(CHECKPOINT, self.parameters, NULL, keys, texts, 1), TUFF_E_USAGE);
    drop_bench(&self);
    remove(CHECKPOINT);
    remove(CHECKPOINT ".prev");
}

/* Training transfers nothing to the host except for the caller's reads; another plan sees the new weights. */
static void check_device_side(tuff_device *device)
{
    bench self = make_bench(device, &defaults);
    tuff_graph *graph = tuff_graph_create(device);
    float first, now;
    tuff_device_counters before, after;
    tuff_output(graph, "scale", tuff_neg(tuff_array_tensor(graph, tuff_parameters_find(self.parameters, "scale"))));
    tuff_plan *plan = tuff_compile(graph, NULL);
    assert_non_null(plan);
    assert_int_equal(tuff_plan_run(plan), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "scale", &first, sizeof first), TUFF_OK);
    assert_int_equal(tuff_device_counters_get(device, &before), TUFF_OK);
    for (int step = 0; step < 4; step++)
        run_bench(&self, step);
    assert_int_equal(tuff_device_counters_get(device, &after), TUFF_OK);
    assert_int_equal(after.reads, before.reads);
    assert_int_equal(tuff_plan_run(plan), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "scale", &now, sizeof now), TUFF_OK);
    assert_true(first != now);
    float direct;
    read_floats(tuff_parameters_find(self.parameters, "scale"), &direct);
    assert_true(now == -direct);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    drop_bench(&self);
}

static void parameters_have_places_in_a_slab(void **state)
{
    (void)state;
    for_drawn_devices(check_places);
}

static void wrong_parameters_and_options_are_refused(void **state)
{
    (void)state;
    for_drawn_devices(check_refusals);
}

static void optimizers_follow_their_rules(void **state)
{
    (void)state;
    for_drawn_devices(check_rules);
}

static void a_resumed_run_goes_on_bit_for_bit(void **state)
{
    (void)state;
    for_drawn_devices(check_resume);
}

static void checkpoints_hold_all_or_are_refused(void **state)
{
    (void)state;
    for_drawn_devices(check_checkpoints);
}

static void training_stays_on_the_device(void **state)
{
    (void)state;
    for_drawn_devices(check_device_side);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_have_places_in_a_slab),
        cmocka_unit_test(wrong_parameters_and_options_are_refused),
        cmocka_unit_test(optimizers_follow_their_rules),
        cmocka_unit_test(a_resumed_run_goes_on_bit_for_bit),
        cmocka_unit_test(checkpoints_hold_all_or_are_refused),
        cmocka_unit_test(training_stays_on_the_device),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
