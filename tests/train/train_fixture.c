/* A training whose gradients are inputs, in a graph and on the host: see train_fixture.h. */
#include "train_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "exec/plan.h"

static tuff_tensor *loss_of(const trainer *self, tuff_graph *graph)
{
    const int all = 0;
    tuff_tensor *loss = tuff_constant(graph, TUFF_F32, 0);
    for (int i = 0; i < self->count; i++) {
        const int64_t elements = tuff_shape_count(self->specs[i].shape);
        if (elements == 0)
            continue;
        tuff_tensor *weight = tuff_array_tensor(graph, tuff_parameters_at(self->parameters, i, NULL));
        tuff_tensor *gradient = tuff_input(graph, self->specs[i].name, TUFF_F32, self->specs[i].shape);
        tuff_tensor *product = tuff_reshape(tuff_mul(weight, gradient), TUFF_SHAPE(elements));
        loss = tuff_add(loss, tuff_sum(product, &all, 1, false));
    }
    return loss;
}

static tuff_plan *compile(tuff_graph *graph)
{
    tuff_plan *plan = tuff_compile(graph, NULL);
    if (!plan)
        fail_msg("%s", tuff_error());
    tuff_graph_destroy(graph);
    return plan;
}

static void add_outputs(tuff_graph *graph, const tuff_optimizer_tensors *made)
{
    tuff_output(graph, "loss", made->loss);
    tuff_output(graph, "norm", made->gradient_norm);
    tuff_output(graph, "rate", made->learning_rate);
    tuff_output(graph, "scale", made->loss_scale);
    tuff_output(graph, "skipped", made->skipped);
    tuff_output(graph, "in_row", made->skipped_in_row);
    if (made->tensor_norms) {
        tuff_output(graph, "tensor_norms", made->tensor_norms);
        tuff_output(graph, "group_norms", made->group_norms);
    }
}

static void make_plans(trainer *self, tuff_device *device)
{
    tuff_optimizer_tensors made;
    tuff_graph *graph = tuff_graph_create(device);
    if (self->optimizer->options.accumulate > 1) {
        assert_int_equal(tuff_optimizer_accumulate(self->optimizer, loss_of(self, graph)), TUFF_OK);
        self->plan = compile(graph);
        graph = tuff_graph_create(device);
        assert_int_equal(tuff_optimizer_update(self->optimizer, graph, &made), TUFF_OK);
        add_outputs(graph, &made);
        self->update = compile(graph);
        return;
    }
    assert_int_equal(tuff_optimizer_apply(self->optimizer, loss_of(self, graph), &made), TUFF_OK);
    add_outputs(graph, &made);
    self->plan = compile(graph);
}

trainer trainer_make(tuff_device *device, const tuff_parameter_spec *specs, int count, const trainer_options *options)
{
    trainer self = {.specs = specs, .count = count};
    self.parameters = options->slab_limit > 0 ? tuff__parameters_create(device, specs, count, options->patterns,
                                                                        options->pattern_count, options->slab_limit)
                                              : tuff_parameters_create_grouped(device, specs, count, options->patterns,
                                                                               options->pattern_count);
    self.optimizer = self.parameters ? tuff_optimizer_create(self.parameters, options->optimizer) : NULL;
    if (!self.optimizer)
        fail_msg("%s", tuff_error());
    trainer_write_weights(&self);
    make_plans(&self, device);
    return self;
}

void trainer_drop(trainer *self)
{
    tuff_plan_destroy(self->plan);
    tuff_plan_destroy(self->update);
    tuff_optimizer_destroy(self->optimizer);
    tuff_parameters_destroy(self->parameters);
}

double trainer_value(int index, int64_t element, int round)
{
    return sin(1.0 + index * 3.7 + (double)element * 0.61 + round * 1.3);
}

static float *values_of(const trainer *self, int index, int round, size_t *size)
{
    const int64_t count = tuff_shape_count(self->specs[index].shape);
    float *values = malloc((size_t)count * sizeof *values + 1);
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)trainer_value(index, i, round);
    *size = (size_t)count * sizeof *values;
    return values;
}

void trainer_write_weights(trainer *self)
{
    for (int i = 0; i < self->count; i++) {
        size_t size;
        float *values = values_of(self, i, 0, &size);
        assert_int_equal(tuff_array_write(tuff_parameters_at(self->parameters, i, NULL), values, size), TUFF_OK);
        free(values);
    }
}

void trainer_write_gradients(trainer *self, int round)
{
    for (int i = 0; i < self->count; i++) {
        size_t size;
        float *values = values_of(self, i, round + 1, &size);
        if (size > 0)
            assert_int_equal(tuff_plan_write(self->plan, self->specs[i].name, values, size), TUFF_OK);
        free(values);
    }
}

void trainer_step(trainer *self, int round)
{
    const int parts = self->update ? self->optimizer->options.accumulate : 1;
    for (int i = 0; i < parts; i++) {
        trainer_write_gradients(self, round * parts + i);
        assert_int_equal(tuff_plan_run(self->plan), TUFF_OK);
    }
    if (self->update)
        assert_int_equal(tuff_plan_run(self->update), TUFF_OK);
}

static tuff_plan *with_outputs(const trainer *self)
{
    return self->update ? self->update : self->plan;
}

float trainer_float(trainer *self, const char *name)
{
    float value;
    assert_int_equal(tuff_plan_read(with_outputs(self), name, &value, sizeof value), TUFF_OK);
    return value;
}

int32_t trainer_int(trainer *self, const char *name)
{
    int32_t value;
    assert_int_equal(tuff_plan_read(with_outputs(self), name, &value, sizeof value), TUFF_OK);
    return value;
}

char *trainer_bits(const trainer *self, bool settled, size_t *size)
{
    state_list list;
    char *bits = NULL;
    *size = 0;
    assert_int_equal(tuff__list_state(self->parameters, self->optimizer, &list), TUFF_OK);
    assert_int_equal(tuff__state_read(&list), TUFF_OK);
    for (int i = 0; i < list.array_count; i++) {
        tuff_array *array = list.arrays[i].array;
        if (settled && (array == self->optimizer->batches || array == self->optimizer->scale ||
                        array == self->optimizer->scale_counts))
            continue;
        const size_t more = (size_t)tuff_array_size(array);
        bits = realloc(bits, *size + more);
        assert_non_null(bits);
        memcpy(bits + *size, list.arrays[i].host, more);
        *size += more;
    }
    tuff__state_free(&list);
    return bits;
}

bool trainer_same_bits(const trainer *a, const trainer *b, bool settled)
{
    size_t size_a, size_b;
    char *bits_a = trainer_bits(a, settled, &size_a), *bits_b = trainer_bits(b, settled, &size_b);
    const bool same = size_a == size_b && memcmp(bits_a, bits_b, size_a) == 0;
    free(bits_a);
    free(bits_b);
    return same;
}

float *trainer_weights(const trainer *self, int index)
{
    tuff_array *array = tuff_parameters_at(self->parameters, index, NULL);
    float *values = malloc((size_t)tuff_array_size(array) + 1);
    assert_non_null(values);
    assert_int_equal(tuff_array_read(array, values, (size_t)tuff_array_size(array)), TUFF_OK);
    return values;
}

static bool writes_to(const launch_list *list, const launch *kernel, const tuff_array *array)
{
    if (!array)
        return false;
    if (kernel->kind == LAUNCH_COPY)
        return list->buffers[kernel->copy_to].storage == array->storage;
    for (int i = 0; i < kernel->chain.buffer_count; i++)
        if (kernel->chain.buffers[i].written && list->buffers[kernel->chain.buffers[i].id].storage == array->storage)
            return true;
    return false;
}

int trainer_count_writers(const tuff_plan *plan, tuff_array *const *arrays, int count)
{
    const launch_list *list = &plan->executable.launches;
    int found = 0;
    for (int i = 0; i < list->launch_count; i++) {
        bool writes = false;
        for (int k = 0; k < count; k++)
            writes |= writes_to(list, &list->launches[i], arrays[k]);
        found += writes;
    }
    return found;
}
