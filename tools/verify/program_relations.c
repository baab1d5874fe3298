/* The checks of random programs: comparison with the reference, and changes that keep or scale the results. The latter
   test autodiff and the compiler independently of the reference's results. */
#include "tools/verify/program_expect.h"

program_recipe program_plain(const program_recipe *recipe)
{
    program_recipe plain = *recipe;
    plain.choices[FIELD_OPTIMIZER] = OPTIMIZER_MOMENTUM;
    plain.choices[FIELD_DECAY] = plain.choices[FIELD_CLIP] = plain.choices[FIELD_SCHEDULE] =
        plain.choices[FIELD_STEPS] = 0;
    plain.choices[FIELD_GROUPS] = plain.choices[FIELD_ACCUMULATE] = plain.choices[FIELD_AVERAGE] = 0;
    return plain;
}

static bool is_random(const program_recipe *recipe)
{
    return program_number(recipe, FIELD_DROPOUT) > 0;
}

/* Whether parts of a batch may be weighted by their number of samples: not if targets are ignored. */
static bool parts_are_equal(const program_recipe *recipe)
{
    return !program_has_ignored_targets(recipe) || program_choice(recipe, FIELD_PARTS) == 0;
}

static bool permute_batch(const program_recipe *recipe, program_recipe *base, program_recipe *changed)
{
    *base = program_plain(recipe);
    *changed = *base;
    changed->variant.reversed = true;
    return !is_random(recipe) && parts_are_equal(recipe) && program_size(recipe, FIELD_BATCH) > 1;
}

static bool split_batch(const program_recipe *recipe, program_recipe *base, program_recipe *changed)
{
    *base = program_plain(recipe);
    base->choices[FIELD_PARTS] = base->choices[FIELD_PRECISION] = 0; /* parts of a loss are rounded differently */
    *changed = *base;
    changed->choices[FIELD_PARTS] = 1 + (recipe->seed % 2 != 0);
    return !is_random(recipe) && !program_has_ignored_targets(recipe) && program_size(recipe, FIELD_BATCH) > 1;
}

static bool scale_loss(const program_recipe *recipe, program_recipe *base, program_recipe *changed)
{
    *base = program_plain(recipe);
    base->choices[FIELD_PRECISION] = 0; /* larger numbers may exceed the range of f16 */
    *changed = *base;
    changed->variant.scale = 8;
    return true;
}

static bool pad_sequences(const program_recipe *recipe, program_recipe *base, program_recipe *changed)
{
    const int mask = program_choice(recipe, FIELD_MASK), readout = program_choice(recipe, FIELD_READOUT);
    *base = program_plain(recipe);
    base->choices[FIELD_LOSS] = LOSS_CROSS_ENTROPY;
    *changed = *base;
    changed->variant.padding = 3;
    return program_choice(recipe, FIELD_FORM) == FORM_TRANSFORMER && !is_random(recipe) && mask != MASK_NONE &&
           (readout != READOUT_MEAN || mask == MASK_LENGTHS);
}

static bool fuse_otherwise(const program_recipe *recipe, program_recipe *base, program_recipe *changed)
{
    *base = *recipe;
    *changed = *recipe;
    changed->choices[FIELD_FUSE] = recipe->choices[FIELD_FUSE] == 0;
    return true;
}

static bool plan_every_step(const program_recipe *recipe, program_recipe *base, program_recipe *changed)
{
    *base = *recipe;
    base->choices[FIELD_STEPS] = 2;
    *changed = *base;
    changed->variant.several_plans = true;
    return true;
}

static bool recompute_otherwise(const program_recipe *recipe, program_recipe *base, program_recipe *changed)
{
    *base = *recipe;
    *changed = *recipe;
    changed->choices[FIELD_RECOMPUTE] = recipe->choices[FIELD_RECOMPUTE] == 0;
    return true;
}

static bool tune_first(const program_recipe *recipe, program_recipe *base, program_recipe *changed)
{
    *base = *recipe;
    base->choices[FIELD_FUSE] = base->choices[FIELD_FAMILY] = 0;
    *changed = *base;
    changed->variant.tune = TUFF_TUNE_QUICK;
    return true;
}

typedef bool (*relation)(const program_recipe *recipe, program_recipe *base, program_recipe *changed);

/* Compares the changed program on the device with the base program on the reference. */
static void check(relation holds, program_context *context, const program_recipe *recipe, program_report *report)
{
    program_recipe base, changed;
    program_expectation *expected;
    if (!holds(recipe, &base, &changed))
        return;
    if (program_expect(&base, context->reference, &expected) != TUFF_OK) {
        program_add_failure(report, "the reference: %s", tuff_error());
        return;
    }
    program_compare(context, &changed, expected, report);
    program_expectation_free(expected);
}

static bool nothing_changes(const program_recipe *recipe, program_recipe *base, program_recipe *changed)
{
    *base = *changed = *recipe;
    return true;
}

/* A check of a program. */
typedef struct program_check {
    const char *name;
    relation holds; /* NULL: program_check_gradients */
} program_check;

static const program_check checks[] = {
    {"compared with the reference", nothing_changes},
    {"samples in reverse order", permute_batch},
    {"batch in parts", split_batch},
    {"loss times 8", scale_loss},
    {"ignored padding", pad_sequences},
    {"fusion switched", fuse_otherwise},
    {"new plan for every step", plan_every_step},
    {"recomputation switched", recompute_otherwise},
    {"tuned", tune_first},
    {"gradients match finite differences", NULL},
};
const int program_check_count = (int)(sizeof checks / sizeof *checks);

static void run_check(int index, program_context *context, const program_recipe *recipe, program_report *report)
{
    if (checks[index].holds)
        check(checks[index].holds, context, recipe, report);
    else
        program_check_gradients(context, recipe, report);
}

typedef struct shrink_context {
    program_context *context;
    int check;
} shrink_context;

static bool still_fails(void *state, const program_recipe *recipe)
{
    const shrink_context *shrunk = state;
    program_report report = {.failures = 0};
    run_check(shrunk->check, shrunk->context, recipe, &report);
    return report.failures > 0;
}

void program_check_one(program_context *context, const program_recipe *recipe, int check, program_totals *totals,
                       void (*failed)(void *user, const program_failure *failure), void *user)
{
    enum { TRIES = 80 }; /* may take minutes if kernels compile slowly */
    program_failure failure = {.check = checks[check].name, .recipe = *recipe, .smallest = *recipe};
    run_check(check, context, recipe, &failure.report);
    totals->programs += check == 0;
    totals->other_checks += check > 0;
    totals->elements += failure.report.elements;
    totals->wide += failure.report.wide;
    if (failure.report.failures == 0)
        return;
    totals->failed++;
    shrink_context state = {context, check};
    program_shrink(&failure.smallest, still_fails, &state, TRIES);
    run_check(check, context, &failure.smallest, &failure.smallest_report);
    failed(user, &failure);
}

void program_check_seed(program_context *context, uint64_t seed, program_totals *totals,
                        void (*failed)(void *user, const program_failure *failure), void *user)
{
    enum { OTHERS = 16 }; /* changed programs share few kernels with their family */
    const program_recipe recipe = program_draw(seed);
    program_check_one(context, &recipe, 0, totals, failed, user);
    if (seed % OTHERS == 0)
        program_check_one(context, &recipe, 1 + (int)(seed / OTHERS % (uint64_t)(program_check_count - 1)), totals,
                          failed, user);
}
