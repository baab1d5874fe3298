/* Checks that the gradient of a random program's loss with respect to every parameter agrees with finite
   differences of the loss along it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "tools/verify/program_expect.h"
#include "tools/model/random.h"

/* Losses on the reference while parameters are moved. */
typedef struct loss_probe {
    program_recipe recipe;
    program_state state;
    program_reference plans;
    double *begin, *moved; /* initial state, and a state with moved weights */
    int64_t total;
} loss_probe;

static void destroy_probe(loss_probe *self)
{
    program_reference_free(&self->plans);
    program_state_free(&self->state);
    free(self->begin);
    free(self->moved);
}

static tuff_status create_probe(loss_probe *self, tuff_device *reference, int64_t total)
{
    TRY(program_state_make(&self->recipe, reference, &self->state));
    TRY(program_reference_make(&self->recipe, reference, &self->state, &self->plans));
    self->total = total;
    self->begin = calloc((size_t)total + 1, sizeof *self->begin);
    self->moved = calloc((size_t)total + 1, sizeof *self->moved);
    if (self->begin == NULL || self->moved == NULL)
        return FAIL(TUFF_E_OOM_HOST, "random program: out of memory for a state");
    return program_read_state(&self->state, self->begin, NULL);
}

/* Computes the loss after moving every element of a tensor by `by`, each with a random sign; self->moved gets the moved
   state. Everything else is as at first, so that dropout draws the same. */
static tuff_status loss_at(loss_probe *self, const tensor_location *place, double by, double *loss)
{
    const uint64_t key = random_key(self->recipe.seed, place->name);
    double scalars[STEP_SCALARS];
    for (int64_t i = 0; i < self->total; i++) {
        const bool moves = i >= place->offset && i < place->offset + place->count;
        const double to = self->begin[i] + (!moves ? 0 : random_bits(key, (uint64_t)i) % 2 == 0 ? by : -by);
        self->moved[i] = (double)(float)to;
    }
    TRY(program_write_state(&self->state, self->moved));
    TRY(program_reference_step(&self->plans, 0));
    TRY(program_reference_read(&self->plans, scalars));
    *loss = scalars[SCALAR_LOSS];
    return TUFF_OK;
}

/* Central differences at a distance and at half of it. */
typedef struct difference {
    double derivative[2], predicted; /* the derivative at half the distance according to the gradient */
} difference;

static tuff_status measure(loss_probe *self, const tensor_location *place, const double *gradient, double distance,
                           difference *out)
{
    for (int i = 0; i < 2; i++) {
        const double by = i == 0 ? distance : distance / 2;
        double low, high, predicted = 0;
        TRY(loss_at(self, place, -by, &low));
        for (int64_t at = 0; at < place->count; at++)
            predicted -= gradient[at] * self->moved[place->offset + at];
        TRY(loss_at(self, place, by, &high));
        for (int64_t at = 0; at < place->count; at++)
            predicted += gradient[at] * self->moved[place->offset + at];
        out->derivative[i] = (high - low) / (2 * by);
        out->predicted = predicted / (2 * by);
    }
    return TUFF_OK;
}

/* Compares a gradient with differences. The deviation between the differences at two distances bounds their error, up
   to fourth order. After a norm of values close to 0, as dropout may leave them, the loss is smooth only at much
   smaller distances: a correct gradient agrees at some distance, a wrong one at none. */
static tuff_status check_gradient(loss_probe *self, const tensor_location *place, const double *gradient,
                                  program_report *report)
{
    static const double distances[] = {0x1p-9, 0x1p-13, 0x1p-17};
    enum { DISTANCES = sizeof distances / sizeof *distances };
    difference found = {.predicted = 0};
    double size = 0;
    for (int64_t at = 0; at < place->count; at++)
        size += gradient[at] * gradient[at];
    report->elements += place->count;
    for (int i = 0; i < DISTANCES; i++) {
        TRY(measure(self, place, gradient, distances[i], &found));
        const double off = fabs(found.derivative[1] - found.predicted),
                     apart = fabs(found.derivative[0] - found.derivative[1]);
        if (off <= 1e-3 * sqrt(size) + 2 * apart + 1e-9)
            return TUFF_OK;
    }
    char line[200];
    snprintf(line, sizeof line, "the loss grows by %.9g along %s, expected %.9g from the gradient (length %.2g)",
             found.derivative[1], place->name, found.predicted, sqrt(size));
    program_add_failure(report, "%s", line);
    return TUFF_OK;
}

void program_check_gradients(program_context *context, const program_recipe *recipe, program_report *report)
{
    loss_probe self = {.recipe = program_plain(recipe)};
    self.recipe.choices[FIELD_PRECISION] = 0;
    /* A function with kinks has no derivative there. */
    if (program_choice(recipe, FIELD_ACTIVATION) == ACTIVATION_RELU)
        self.recipe.choices[FIELD_ACTIVATION] = ACTIVATION_SILU;
    const int pool = program_choice(recipe, FIELD_POOL);
    if (pool == POOL_MAX || pool == POOL_OVERLAPPING)
        self.recipe.choices[FIELD_POOL] = POOL_AVERAGE;
    program_expectation *expected = NULL;
    tuff_status status = program_expect(&self.recipe, context->reference, &expected);
    if (status == TUFF_OK)
        status = create_probe(&self, context->reference, expected->state.total);
    for (int i = 0; status == TUFF_OK && i < expected->parameter_count; i++) {
        const tensor_location *weights = program_find_tensor(&expected->state, i, STATE_WEIGHTS),
                              *moment = program_find_tensor(&expected->state, i, STATE_FIRST);
        status = check_gradient(&self, weights, expected->steps[0].value + moment->offset, report);
    }
    if (status != TUFF_OK)
        program_add_failure(report, "the reference: %s", tuff_error());
    destroy_probe(&self);
    program_expectation_free(expected);
}
