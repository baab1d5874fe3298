/* Fifty steps of every optimizer on every device found, against float64: PyTorch's results, or the paper's formulas, as
   bench/peers/optimizers.py computed them for parameters of random shapes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "each_device.h"
#include "train_fixture.h"
#include "tuff/io.h"

enum { STEPS = 50, PARAMETERS_MAX = 16 };
#define BAR 1e-5 /* relative to the element plus its tensor's root mean square */

typedef struct reference {
    tuff_file *file;
    tuff_parameter_spec specs[PARAMETERS_MAX];
    tuff_file_tensor first[PARAMETERS_MAX], gradients[PARAMETERS_MAX];
    int count;
} reference;

static reference open_reference(void)
{
    reference self = {.file = tuff_file_open(TUFF_TEST_DATA "/golden/optimizers.safetensors")};
    assert_non_null(self.file);
    for (int i = 0; i < tuff_file_count(self.file); i++) {
        tuff_file_tensor tensor;
        char name[80];
        assert_int_equal(tuff_file_tensor_at(self.file, i, &tensor), TUFF_OK);
        if (strncmp(tensor.name, "in.", 3) != 0)
            continue;
        assert_true(self.count < PARAMETERS_MAX);
        self.first[self.count] = tensor;
        snprintf(name, sizeof name, "grad.%s", tensor.name + 3);
        assert_int_equal(tuff_file_find(self.file, name, &self.gradients[self.count]), TUFF_OK);
        self.specs[self.count++] = (tuff_parameter_spec){.name = tensor.name + 3, .shape = tensor.shape};
    }
    return self;
}

static double number(const json_t *of, const char *name)
{
    return json_number_value(json_object_get(of, name));
}

static tuff_optimizer_options options_of(const json_t *of)
{
    static const char *const kinds[TUFF_OPTIMIZER_COUNT] = {"adamw", "sgd", "adam", "lion", "adafactor", "muon"};
    tuff_optimizer_options made = {.learning_rate = number(of, "rate"),
                                   .beta1 = number(of, "beta1"),
                                   .beta2 = number(of, "beta2"),
                                   .epsilon = number(of, "epsilon"),
                                   .momentum = number(of, "momentum"),
                                   .nesterov = json_is_true(json_object_get(of, "nesterov")),
                                   .weight_decay = number(of, "decay"),
                                   .decay_all = true};
    const char *kind = json_string_value(json_object_get(of, "kind"));
    assert_non_null(kind);
    while (strcmp(kinds[made.kind], kind) != 0)
        made.kind++;
    return made;
}

static void run_steps(trainer *self, const reference *of)
{
    for (int i = 0; i < of->count; i++)
        assert_int_equal(tuff_array_write(tuff_parameters_at(self->parameters, i, NULL), of->first[i].data,
                                          (size_t)of->first[i].size),
                         TUFF_OK);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < of->count; i++) {
            const size_t size = (size_t)of->first[i].size;
            const char *from = (const char *)of->gradients[i].data + (size_t)step * size;
            assert_int_equal(tuff_plan_write(self->plan, of->specs[i].name, from, size), TUFF_OK);
        }
        assert_int_equal(tuff_plan_run(self->plan), TUFF_OK);
    }
}

static double root_mean_square(const double *values, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += values[i] * values[i];
    return sqrt(sum / (double)count);
}

/* Returns the largest error relative to its tolerance. */
static double compare(const trainer *self, const reference *of, const char *title)
{
    double worst = 0;
    for (int i = 0; i < of->count; i++) {
        tuff_file_tensor wanted;
        char name[160];
        snprintf(name, sizeof name, "%s/%s", title, of->specs[i].name);
        assert_int_equal(tuff_file_find(of->file, name, &wanted), TUFF_OK);
        const int64_t count = tuff_shape_count(wanted.shape);
        const double *values = wanted.data, scale = root_mean_square(values, count);
        float *got = trainer_weights(self, i);
        for (int64_t k = 0; k < count; k++) {
            const double off = fabs((double)got[k] - values[k]) / (BAR * (fabs(values[k]) + scale));
            if (!(off <= 1))
                fail_msg("%s: element %lld is %.9g, not %.9g", name, (long long)k, (double)got[k], values[k]);
            worst = fmax(worst, off);
        }
        free(got);
    }
    return worst;
}

static void check_all(tuff_device *device)
{
    reference of = open_reference();
    for (int i = 0; i < tuff_file_metadata_count(of.file); i++) {
        const char *title, *text;
        if (!tuff__device_is_reference(device) && !is_one_of_two_drawn(device, i))
            continue;
        assert_int_equal(tuff_file_metadata_at(of.file, i, &title, &text), TUFF_OK);
        json_t *object = json_loads(text, 0, NULL);
        assert_non_null(object);
        const tuff_optimizer_options options = options_of(object);
        trainer self = trainer_make(device, of.specs, of.count, &(trainer_options){.optimizer = &options});
        run_steps(&self, &of);
        print_message("    %s: %.3f of the tolerance\n", title, compare(&self, &of, title));
        trainer_drop(&self);
        json_decref(object);
    }
    tuff_file_close(of.file);
}

static void fifty_steps_are_those_of_the_reference(void **state)
{
    (void)state;
    for_each_device(check_all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fifty_steps_are_those_of_the_reference)};
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
