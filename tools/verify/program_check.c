/* Compares random programs with the reference, tensor by tensor. Steps whose rounding errors the next step would
   magnify without bound start from the reference's state. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "tools/verify/program_allow.h"

/* A tolerance above this fraction of the largest element says little. */
#define WIDE 0.1

/* tuning: storage that the options point to. */
static tuff_compile_options compile_options(const program_recipe *recipe, tuff_tune_options *tuning)
{
    enum { TUNE_MILLISECONDS = 400 };
    static const tuff_family families[] = {TUFF_FAMILY_DEVICE, TUFF_FAMILY_REGISTER, TUFF_FAMILY_LOCAL};
    const bool tunes = recipe->variant.tune == TUFF_TUNE_QUICK;
    *tuning = (tuff_tune_options){.mode = tunes ? TUFF_TUNE_QUICK : TUFF_TUNE_OFF,
                                  .milliseconds = tunes ? TUNE_MILLISECONDS : 0};
    return (tuff_compile_options){.fuse = program_choice(recipe, FIELD_FUSE) != 0 ? TUFF_FUSE_NONE : TUFF_FUSE_ALL,
                                  .family = tunes ? TUFF_FAMILY_DEVICE : families[program_choice(recipe, FIELD_FAMILY)],
                                  .tuning = tuning,
                                  .precision = program_precision(recipe)};
}

void program_add_failure(program_report *report, const char *format, const char *detail)
{
    if (report->failures++ == 0)
        snprintf(report->failure, sizeof report->failure, format, detail);
}

static double scale_of(const program_recipe *recipe)
{
    return recipe->variant.scale == 0 ? 1 : recipe->variant.scale;
}

/* Whether an element is correct. Stored values are rounded, parameters to their last bit however small a step is.
   Frozen parameters and counters must be exact. */
static bool is_within_tolerance(const comparison *self, const tensor_location *place, int64_t at, double got,
                                double most)
{
    const double value = self->expected->steps[self->step].value[at];
    const bool is_exact =
        place->kind == STATE_EXACT || (place->kind == STATE_WEIGHTS && self->expected->rules[place->parameter] < 0);
    const double rounding = 2 * 0x1p-24 * self->steps_run * fabs(value) + 0x1p-126;
    return is_exact ? got == value : fabs(got - value) <= rounding + most;
}

static void compare_tensor(const comparison *self, const tensor_location *place, const double *got, double *most)
{
    static const char *const prefixes[] = {
        [STATE_WEIGHTS] = "",     [STATE_FIRST] = "first moment of ", [STATE_SECOND] = "second moment of ",
        [STATE_ROW] = "rows of ", [STATE_COLUMN] = "columns of ",     [STATE_AVERAGE] = "average of ",
        [STATE_EXACT] = ""};
    const double *values = self->expected->steps[self->step].value;
    const double largest = program_largest(self, place),
                 scale = place->kind == STATE_EXACT ? 1 : scale_of(self->recipe);
    const bool counts = place->kind != STATE_EXACT && program_precision(self->recipe) == TUFF_PRECISION_F32;
    int64_t wrong = 0, first = 0;
    program_tolerances(self, place, most);
    for (int64_t i = 0; i < place->count; i++) {
        const int64_t at = place->offset + i;
        self->report->elements++;
        self->report->wide += counts && !(most[i] <= WIDE * largest);
        if (!is_within_tolerance(self, place, at, got[at] / scale, most[i]) && wrong++ == 0)
            first = i;
    }
    if (wrong == 0)
        return;
    char line[256];
    snprintf(line, sizeof line,
             "step %d: %lld of %lld elements of %s%s are wrong: element %lld is %.9g, expected %.9g within %.2g, "
             "largest element %.2g",
             self->step + 1, (long long)wrong, (long long)place->count, prefixes[place->kind], place->name,
             (long long)first, got[place->offset + first], values[place->offset + first], most[first], largest);
    program_add_failure(self->report, "%s", line);
}

static tuff_status compare_state(const comparison *self, const program_state *state, double *got, double *most)
{
    const tensor_list *list = &self->expected->state;
    bool gaps;
    TRY(program_read_state(state, got, &gaps));
    for (int i = 0; i < list->count; i++)
        if (scale_of(self->recipe) == 1 || list->tensors[i].kind != STATE_WEIGHTS)
            compare_tensor(self, &list->tensors[i], got, most);
    if (gaps)
        program_add_failure(self->report, "%s", "elements between the parameters of a slab are not 0");
    return TUFF_OK;
}

static tuff_status compare_scalars(const comparison *self, tuff_plan *plan)
{
    for (int i = 0; i < STEP_SCALARS; i++) {
        const double scale = i == SCALAR_RATE ? 1 : scale_of(self->recipe),
                     value = self->expected->steps[self->step].scalars[i];
        float got;
        char line[96];
        TRY(tuff_plan_read(plan, program_scalars[i], &got, sizeof got));
        if (fabs((double)got / scale - value) <= program_scalar_tolerance(self, (step_scalar)i))
            continue;
        snprintf(line, sizeof line, "step %d: the %s is %.9g, expected %.9g", self->step + 1, program_scalars[i],
                 (double)got / scale, value);
        program_add_failure(self->report, "%s", line);
    }
    return TUFF_OK;
}

static tuff_status compare_results(const comparison *self, const program_state *state, tuff_plan *plan)
{
    TRY(compare_scalars(self, plan));
    const size_t size = (size_t)self->expected->state.total + 1;
    double *got = calloc(size, sizeof *got), *most = calloc(size, sizeof *most);
    const tuff_status status = got == NULL || most == NULL
                                   ? FAIL(TUFF_E_OOM_HOST, "random program: out of memory for a state")
                                   : compare_state(self, state, got, most);
    free(got);
    free(most);
    return status;
}

/* Compares once more with measured noise if a step fails, the same results again: a second run could hide a fault that
   does not always occur. */
static tuff_status compare_step(const comparison *self, const program_state *state, tuff_plan *plan)
{
    program_report before = *self->report;
    TRY(compare_results(self, state, plan));
    if (self->report->failures == before.failures || self->expected->noise_count > self->step)
        return TUFF_OK;
    TRY(program_measure_noise(self->expected, self->step));
    *self->report = before;
    return compare_results(self, state, plan);
}

static tuff_status write_to_plan(void *plan, const program_input *input)
{
    return tuff_plan_write(plan, input->name, input->data, input->size);
}

/* A program that has run, kept while its family runs, because kernels are shared only while a plan holds them. */
typedef struct kept_program {
    program_state state;
    tuff_graph *graphs[PROGRAM_GRAPHS];
    tuff_plan *plans[PROGRAM_GRAPHS];
    struct kept_program *next;
} kept_program;

static void drop(kept_program *kept)
{
    for (int i = 0; i < PROGRAM_GRAPHS; i++) {
        tuff_plan_destroy(kept->plans[i]);
        tuff_graph_destroy(kept->graphs[i]);
    }
    program_state_free(&kept->state);
    free(kept);
}

void program_context_clear(program_context *context)
{
    while (context->kept != NULL) {
        kept_program *first = context->kept;
        context->kept = first->next;
        drop(first);
    }
}

static tuff_status compile(kept_program *kept, const program_recipe *recipe)
{
    tuff_tune_options tuning;
    const tuff_compile_options options = compile_options(recipe, &tuning);
    for (int i = 0; i < program_graph_count(recipe); i++) {
        tuff_plan_destroy(kept->plans[i]);
        kept->plans[i] = tuff_compile(kept->graphs[i], &options);
        if (kept->plans[i] == NULL)
            return tuff_last_status();
    }
    return TUFF_OK;
}

static tuff_status run_step(const kept_program *kept, const program_recipe *recipe, int step)
{
    const int runs = program_run_count(recipe);
    for (int i = 0; i < runs; i++) {
        TRY(program_write_inputs(recipe, kept->graphs[0], step * runs + i, write_to_plan, kept->plans[0]));
        TRY(tuff_plan_run(kept->plans[0]));
    }
    if (kept->plans[1] != NULL)
        TRY(tuff_plan_run(kept->plans[1]));
    return tuff_plan_wait(kept->plans[program_graph_count(recipe) - 1]);
}

static tuff_status try_steps(kept_program *kept, const program_recipe *recipe, program_expectation *expected,
                             program_report *report)
{
    const bool resets = program_resets_each_step(recipe);
    comparison compared = {.recipe = recipe, .expected = expected, .report = report};
    for (int step = 0; step < expected->step_count && report->failures == 0; step++) {
        if (program_has_diverged(expected, step))
            break;
        if (kept->plans[0] == NULL || recipe->variant.several_plans)
            TRY(compile(kept, recipe));
        compared.step = step;
        compared.steps_run = resets ? 1 : step + 1;
        compared.tolerance = fmax(resets ? 0 : compared.tolerance, program_step_tolerance(expected, step));
        TRY(run_step(kept, recipe, step));
        TRY(compare_step(&compared, &kept->state, kept->plans[program_graph_count(recipe) - 1]));
        if (resets)
            TRY(program_write_state(&kept->state, expected->steps[step].value));
    }
    return TUFF_OK;
}

static tuff_status try_on(tuff_device *device, kept_program *kept, const program_recipe *recipe,
                          program_expectation *expected, program_report *report)
{
    TRY(program_state_make(recipe, device, &kept->state));
    for (int i = 0; i < program_graph_count(recipe); i++) {
        kept->graphs[i] = program_graph(recipe, device, &kept->state, i);
        if (kept->graphs[i] == NULL)
            return tuff_last_status();
    }
    return try_steps(kept, recipe, expected, report);
}

/* Whether a device with a loop limit refused to compile. Some drivers end loops early, so compilation rejects kernels
   with longer loops; if the program names the family of kernels, or nothing is fused, there is no other kernel to
   use. */
static bool is_refused_for_loops(const tuff_device *device, const program_recipe *recipe, tuff_status status)
{
    const bool is_forced = program_choice(recipe, FIELD_FUSE) != 0 || program_choice(recipe, FIELD_FAMILY) != 0;
    return status == TUFF_E_LIMIT && is_forced && tuff__device_info(device)->loop_limit > 0;
}

void program_compare(program_context *context, const program_recipe *recipe, program_expectation *expected,
                     program_report *report)
{
    if (context->family != program_family(recipe->seed))
        program_context_clear(context);
    context->family = program_family(recipe->seed);
    kept_program *made = calloc(1, sizeof *made);
    if (made == NULL) {
        program_add_failure(report, "%s", "out of memory");
        return;
    }
    made->next = context->kept;
    context->kept = made;
    const tuff_status status = try_on(context->device, made, recipe, expected, report);
    if (status != TUFF_OK && !is_refused_for_loops(context->device, recipe, status))
        program_add_failure(report, "%s", tuff_error());
}
