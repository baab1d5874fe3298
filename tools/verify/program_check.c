/* Comparison of random programs with the reference. What is compared of a tensor is in units of its own largest
   element, in which one that is never written cannot hide. Tensors that are zero but for rounding, as the gradient of
   a key's bias is, are no larger than a millionth of the largest element of all. Steps whose rounding the next one
   would enlarge without end begin at the reference's state. */
#include "tools/verify/program_expect.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"

/* Of the largest element: f32 sums of these sizes are good to some 1e-6 each, and a step has many, one after
   another. */
#define BAR 1e-4
/* Of the largest element of all tensors. */
#define FLOOR 1e-6
/* What is allowed says little where it is so much of the largest element. */
#define WIDE 0.1

/* tuning: what the options will point at. */
static tuff_compile_options compile_options(const program_recipe *recipe, tuff_tune_options *tuning)
{
    enum { TUNE_MILLISECONDS = 400 };
    static const tuff_family families[] = {TUFF_FAMILY_DEVICE, TUFF_FAMILY_REGISTER, TUFF_FAMILY_LOCAL};
    const bool tunes = recipe->variant.tune == TUFF_TUNE_QUICK;
    *tuning = (tuff_tune_options){.mode = tunes ? TUFF_TUNE_QUICK : TUFF_TUNE_OFF,
                                  .milliseconds = tunes ? TUNE_MILLISECONDS : 0};
    return (tuff_compile_options){.fuse = program_choice(recipe, FIELD_FUSE) != 0 ? TUFF_FUSE_NONE : TUFF_FUSE_ALL,
                                  .family = tunes ? TUFF_FAMILY_DEVICE : families[program_choice(recipe, FIELD_FAMILY)],
                                  .tuning = tuning};
}

void program_fail(program_report *report, const char *format, const char *detail)
{
    if (report->failures++ == 0)
        snprintf(report->failure, sizeof report->failure, format, detail);
}

/* What is compared of a step. */
typedef struct comparison {
    const program_recipe *recipe;
    const program_expectation *expected;
    int step;
    double steps_run; /* since both had the same state */
    double bar;       /* of the largest element, each of these steps */
    program_report *report;
} comparison;

static double scale_of(const program_recipe *recipe)
{
    return recipe->variant.scale == 0 ? 1 : recipe->variant.scale;
}

static double change_of(const slab_step *step, int index, int64_t at)
{
    return fabs(step->value[at] - (index == 0 ? (double)step->begin[at] : 0));
}

static double largest_of(const slab_step *step, int index, int64_t begin, int64_t count)
{
    double largest = 0;
    for (int64_t at = begin; at < begin + count; at++)
        largest = fmax(largest, change_of(step, index, at));
    return largest;
}

static bool is_lion(const comparison *self)
{
    return self->expected->options.kind == TUFF_LION;
}

/* The error that a gradient may have, by what is allowed of the first moment. */
static double gradient_error(const comparison *self, const tensor_place *place)
{
    const slab_step *slab = &self->expected->steps[self->step][1];
    return (self->bar * largest_of(slab, 1, place->offset, place->count) +
            FLOOR * largest_of(slab, 1, 0, self->expected->total)) /
           (1 - (is_lion(self) ? self->expected->options.beta2 : self->expected->options.beta1));
}

/* Adam divides by the root of the second moment: how far the error of a gradient moves an element of the parameters. */
static double adam_error(const comparison *self, int64_t at, double gradient)
{
    const tuff_optimizer_options *rule = &self->expected->options;
    const double second = self->expected->steps[self->step][2].value[at];
    const double root = sqrt(second / (1 - pow(rule->beta2, self->step + 1))) + rule->epsilon;
    const double share = (1 - rule->beta1) / (1 - pow(rule->beta1, self->step + 1));
    return 2 * rule->learning_rate * fmin(share * gradient / root, 1 / (1 - rule->beta1));
}

/* Lion takes the sign of a blend: where the error of a gradient may turn it, an element goes the other way. */
static double lion_error(const comparison *self, int64_t at, double gradient)
{
    const tuff_optimizer_options *rule = &self->expected->options;
    const slab_step *moment = &self->expected->steps[self->step][1];
    const double before = (double)moment->begin[at];
    const double sample = (moment->value[at] - rule->beta2 * before) / (1 - rule->beta2);
    const double blend = rule->beta1 * before + (1 - rule->beta1) * sample;
    const double rounding = 0x1p-22 * (fabs(before) + fabs(sample));
    return fabs(blend) <= gradient + rounding ? 2 * rule->learning_rate : 0;
}

static bool is_adam(const comparison *self)
{
    return self->expected->options.kind == TUFF_ADAMW || self->expected->options.kind == TUFF_ADAM;
}

/* What every element of a tensor may be off by: part of it, and what Adam adds, differs from element to element. */
typedef struct allowance {
    double all, gradient;
} allowance;

static allowance allowance_of(const comparison *self, int index, const tensor_place *place)
{
    const slab_step *slab = &self->expected->steps[self->step][index];
    const double largest = largest_of(slab, index, place->offset, place->count),
                 of_all = largest_of(slab, index, 0, self->expected->total);
    allowance made = {.all = self->bar * largest + FLOOR * of_all};
    if ((is_adam(self) || is_lion(self)) && index != 1)
        made.gradient = gradient_error(self, place);
    if (index == 2) { /* of squares: (g + e)^2 - g^2 = 2 g e + e^2 */
        const double share = 1 - self->expected->options.beta2;
        made.all = 2 * sqrt(share * largest) * made.gradient + share * made.gradient * made.gradient;
    }
    return made;
}

static double allowed(const comparison *self, int index, const allowance *by, int64_t at)
{
    const double of_rule = index != 0      ? 0
                           : is_adam(self) ? adam_error(self, at, by->gradient)
                           : is_lion(self) ? lion_error(self, at, by->gradient)
                                           : 0;
    return self->steps_run * (by->all + of_rule);
}

/* Whether an element is as it should be. */
static bool is_right(const comparison *self, int index, int64_t at, float got, double most)
{
    const double scale = scale_of(self->recipe);
    const double value = self->expected->steps[self->step][index].value[at];
    const double off = fabs((index == 0 ? got : (double)got / scale) - value);
    /* Storing rounds, parameters to their own last bit however small a step is. */
    const double rounding = 2 * 0x1p-24 * self->steps_run * fabs(value) + 0x1p-126;
    return off <= rounding + most;
}

static void compare_tensor(const comparison *self, int index, const tensor_place *place, const float *got)
{
    static const char *const prefixes[] = {"", "first moment of ", "second moment of "};
    const slab_step *slab = &self->expected->steps[self->step][index];
    const double largest = largest_of(slab, index, place->offset, place->count);
    const allowance by = allowance_of(self, index, place);
    int64_t wrong = 0, first = 0;
    for (int64_t at = place->offset; at < place->offset + place->count; at++) {
        const double most = allowed(self, index, &by, at);
        self->report->elements++;
        self->report->wide += !(most <= WIDE * largest);
        if (!is_right(self, index, at, got[at], most) && wrong++ == 0)
            first = at;
    }
    if (wrong == 0)
        return;
    char line[256];
    snprintf(line, sizeof line,
             "step %d: %lld of %lld elements of %s%s are wrong: element %lld is %.9g, on the host %.9g, %.2g allowed, "
             "the largest is %.2g",
             self->step + 1, (long long)wrong, (long long)place->count, prefixes[index], place->name,
             (long long)(first - place->offset), (double)got[first], slab->value[first],
             allowed(self, index, &by, first), largest);
    program_fail(self->report, "%s", line);
}

static int64_t count_set(const float *elements, int64_t begin, int64_t count)
{
    int64_t set = 0;
    for (int64_t at = begin; at < begin + count; at++)
        set += elements[at] != 0;
    return set;
}

/* What lies between parameters in a slab stays 0. */
static void compare_gaps(const comparison *self, const float *got)
{
    const program_expectation *one = self->expected;
    int64_t others = count_set(got, 0, one->total); /* that are not 0 and no parameter's */
    for (int i = 0; i < one->tensor_count; i++)
        others -= count_set(got, one->tensors[i].offset, one->tensors[i].count);
    if (others > 0)
        program_fail(self->report, "%s", "elements between the parameters of a slab are not 0 any more");
}

/* A cross entropy near 0 is log(1 + x) for a small x, and its gradient 1 / (1 + x) - 1: f32 rounds 1 + x, so neither
   is known to more than the epsilon's part of the loss. */
static double bar_of(const program_expectation *expected, int step)
{
    return BAR + (double)FLT_EPSILON / fmax(fabs(expected->loss[step]), FLT_MIN);
}

static tuff_status compare_step(const comparison *self, const program_state *state, tuff_plan *plan)
{
    const double scale = scale_of(self->recipe);
    const double loss = self->expected->loss[self->step];
    float got;
    TRY(tuff_plan_read(plan, "loss", &got, sizeof got));
    if (!(fabs((double)got / scale - loss) <= self->steps_run * self->bar * fmax(fabs(loss), FLT_MIN))) {
        char line[96];
        snprintf(line, sizeof line, "step %d: the loss is %.9g, on the host %.9g", self->step + 1, (double)got / scale,
                 loss);
        program_fail(self->report, "%s", line);
    }
    for (int i = scale == 1 ? 0 : 1; i < self->expected->slab_count; i++) {
        float *slab_data;
        const tuff_status status = program_read_slab(program_slab(state, i), self->expected->total, &slab_data);
        if (status == TUFF_OK) {
            for (int k = 0; k < self->expected->tensor_count; k++)
                compare_tensor(self, i, &self->expected->tensors[k], slab_data);
            compare_gaps(self, slab_data);
        }
        free(slab_data);
        TRY(status);
    }
    return TUFF_OK;
}

/* The state that the reference had after a step. */
static tuff_status take_over(const program_expectation *expected, const program_state *state, int step)
{
    float *data = malloc((size_t)expected->total * sizeof *data + 1);
    tuff_status status = data == NULL ? FAIL(TUFF_E_OOM_HOST, "random program: a slab") : TUFF_OK;
    for (int i = 0; i < expected->slab_count && status == TUFF_OK; i++) {
        for (int64_t at = 0; at < expected->total; at++)
            data[at] = (float)expected->steps[step][i].value[at];
        status = tuff_array_write(program_slab(state, i), data, (size_t)expected->total * sizeof *data);
    }
    free(data);
    return status;
}

static tuff_status write_to_plan(void *plan, const program_input *input)
{
    return tuff_plan_write(plan, input->name, input->data, input->size);
}

static tuff_status run_step(const program_recipe *recipe, const tuff_graph *graph, tuff_plan *plan, int step)
{
    TRY(program_write_inputs(recipe, graph, step, write_to_plan, plan));
    TRY(tuff_plan_run(plan));
    return tuff_plan_wait(plan);
}

/* A program that ran, as long as its family runs: kernels are shared while somebody holds them. */
typedef struct kept_program {
    program_state state;
    tuff_graph *graph;
    tuff_plan *plan;
    struct kept_program *next;
} kept_program;

static void drop(kept_program *kept)
{
    tuff_plan_destroy(kept->plan);
    tuff_graph_destroy(kept->graph);
    program_state_free(&kept->state);
    free(kept);
}

void program_bench_clear(program_bench *bench)
{
    while (bench->kept != NULL) {
        kept_program *first = bench->kept;
        bench->kept = first->next;
        drop(first);
    }
}

static tuff_status compile(kept_program *kept, const program_recipe *recipe)
{
    tuff_tune_options tuning;
    const tuff_compile_options options = compile_options(recipe, &tuning);
    tuff_plan_destroy(kept->plan);
    kept->plan = tuff_compile(kept->graph, &options);
    return kept->plan == NULL ? tuff_last_status() : TUFF_OK;
}

static tuff_status try_steps(kept_program *kept, const program_recipe *recipe, const program_expectation *expected,
                             program_report *report)
{
    /* Adam's step is a sign where a gradient is small: it says nothing of the next one. */
    const int optimizer = program_choice(recipe, FIELD_OPTIMIZER);
    const bool begins_anew = optimizer == OPTIMIZER_ADAMW || optimizer == OPTIMIZER_LION;
    comparison compared = {.recipe = recipe, .expected = expected, .report = report};
    for (int step = 0; step < expected->step_count && report->failures == 0; step++) {
        if (kept->plan == NULL || recipe->variant.several_plans)
            TRY(compile(kept, recipe));
        compared.step = step;
        compared.steps_run = begins_anew ? 1 : step + 1;
        compared.bar = fmax(begins_anew ? 0 : compared.bar, bar_of(expected, step));
        TRY(run_step(recipe, kept->graph, kept->plan, step));
        TRY(compare_step(&compared, &kept->state, kept->plan));
        if (begins_anew)
            TRY(take_over(expected, &kept->state, step));
    }
    return TUFF_OK;
}

static tuff_status try_on(tuff_device *device, kept_program *kept, const program_recipe *recipe,
                          const program_expectation *expected, program_report *report)
{
    TRY(program_state_make(recipe, device, &kept->state));
    kept->graph = program_graph(recipe, device, &kept->state);
    return kept->graph == NULL ? tuff_last_status() : try_steps(kept, recipe, expected, report);
}

/* Some drivers end loops early. There compilation refuses a kernel that would loop for longer: where the program names
   the family of kernels, or nothing is fused, it has no other to take. */
static bool is_refused_for_loops(const tuff_device *device, const program_recipe *recipe, tuff_status status)
{
    const bool is_forced = program_choice(recipe, FIELD_FUSE) != 0 || program_choice(recipe, FIELD_FAMILY) != 0;
    return status == TUFF_E_LIMIT && is_forced && tuff__device_info(device)->loop_limit > 0;
}

void program_try(program_bench *bench, const program_recipe *recipe, const program_expectation *expected,
                 program_report *report)
{
    if (bench->family != program_family(recipe->seed))
        program_bench_clear(bench);
    bench->family = program_family(recipe->seed);
    kept_program *made = calloc(1, sizeof *made);
    if (made == NULL) {
        program_fail(report, "%s", "no memory");
        return;
    }
    made->next = bench->kept;
    bench->kept = made;
    const tuff_status status = try_on(bench->device, made, recipe, expected, report);
    if (status != TUFF_OK && !is_refused_for_loops(bench->device, recipe, status))
        program_fail(report, "%s", tuff_error());
}
