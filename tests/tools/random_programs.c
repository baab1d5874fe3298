/* Random whole programs on every driver against the reference; tools/verify/program.h describes them, and what is
   compared. Every run uses other seeds, for TUFF_RANDOM_SECONDS on all drivers together, or TUFF_RANDOM_PROGRAMS
   programs on each; TUFF_RANDOM_SEED is the first seed, which is printed. TUFF_RANDOM_PLANS more of them, and of random
   graphs, are only compiled to plans and verified. A failure is printed as a line for `tuff verify --program`. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "each_device.h"
#include "exec/plan.h"
#include "random_graph.h"
#include "tools/verify/program_allow.h"
#include "tools/verify/program_check.h"
#include "tools/verify/program_expect.h"

enum { LINE_SIZE = 640, SECONDS = 14 };

/* Other programs in every run, so that a rare error is found eventually. */
static uint64_t first_seed(void)
{
    static uint64_t seed;
    if (seed == 0)
        seed = number_from("TUFF_RANDOM_SEED", (uint64_t)time(NULL) / 60 * 1024);
    return seed;
}

static void print_failure(void *user, const program_failure *reported)
{
    char line[LINE_SIZE], smallest[LINE_SIZE];
    program_describe(&reported->recipe, line, sizeof line);
    program_describe(&reported->smallest, smallest, sizeof smallest);
    print_error("%s, %s: --program \"%s\"\n    %s\n  the smallest that fails: --program \"%s\"\n    %s\n",
                (const char *)user, reported->check, line, reported->report.failure, smallest,
                reported->smallest_report.failure);
}

static program_totals totals;
static tuff_device *reference;
static double seconds; /* for each driver; 0: no limit */

static double seconds_now(void)
{
    struct timespec at;
    assert_int_equal(timespec_get(&at, TIME_UTC), TIME_UTC);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static void check_programs(tuff_device *device)
{
    const char *selector = tuff__device_info(device)->selector;
    const uint64_t count = number_from("TUFF_RANDOM_PROGRAMS", seconds > 0 ? UINT64_MAX : 1);
    program_context context = {.device = device, .reference = reference};
    program_totals own = {.programs = 0};
    const double begin = seconds_now();
    for (uint64_t i = 0; i < count && (seconds == 0 || seconds_now() - begin < seconds); i++)
        program_check_seed(&context, first_seed() + i, &own, print_failure, (void *)selector);
    program_context_clear(&context);
    print_message("    %" PRId64 " programs, %" PRId64 " further checks, %" PRId64 " elements\n", own.programs,
                  own.other_checks, own.elements);
    totals.programs += own.programs;
    totals.elements += own.elements;
    totals.wide += own.wide;
    totals.failed += own.failed;
}

/* Rounding may make a few tensors' bounds too wide to say anything, but never most. */
static void training_steps_are_right(void **state)
{
    (void)state;
    const bool counted = getenv("TUFF_RANDOM_PROGRAMS") != NULL;
    int drivers = 0;
    for (int i = 0; i < tuff_device_count(); i++) {
        tuff_device_info info;
        assert_int_equal(tuff_device_describe_at(i, &info), TUFF_OK);
        drivers += info.device_class != TUFF_DEVICE_REFERENCE;
    }
    if (drivers == 0)
        skip();
    reference = tuff_device_open("reference");
    assert_non_null(reference);
    seconds = counted ? 0 : (double)number_from("TUFF_RANDOM_SECONDS", SECONDS) / drivers;
    print_message("random programs from TUFF_RANDOM_SEED=%" PRIu64 "\n", first_seed());
    for_each_driver(check_programs);
    tuff_device_close(reference);
    assert_int_equal(totals.failed, 0);
    assert_true(totals.elements > 0 && totals.wide < totals.elements / 3);
}

/* Checks relations and gradients, which test autodiff, on the reference only, which is fast. */
static void relations_hold_on_the_reference(void **state)
{
    (void)state;
    enum { COUNT = 100 };
    program_totals all = {.programs = 0};
    reference = tuff_device_open("reference");
    assert_non_null(reference);
    program_context context = {.device = reference, .reference = reference};
    for (uint64_t i = 0; i < COUNT; i++) {
        const program_recipe recipe = program_draw(first_seed() + i * PROGRAM_FAMILY);
        const int check = 1 + (int)(i % (uint64_t)(program_check_count - 1));
        program_check_one(&context, &recipe, check, &all, print_failure, "reference");
    }
    program_context_clear(&context);
    tuff_device_close(reference);
    assert_int_equal(all.failed, 0);
    assert_true(all.elements > 0);
}

/* Returns how many of some programs fail with a planted fault; *tried gets how many were tried. The reference runs them
   exactly, so that faults must be larger than the tolerance for roundings to 16 bits. */
static int count_found(program_context *context, program_fault fault, int precision, int *tried)
{
    enum { COUNT = 16 };
    int found = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        program_recipe recipe = program_draw(i * PROGRAM_FAMILY);
        program_report report = {.failures = 0};
        program_expectation *expected;
        if (program_size(&recipe, FIELD_BATCH) == 1 || program_choice(&recipe, FIELD_FORM) == FORM_IMAGES)
            continue;
        recipe.choices[FIELD_BIAS] = 1;
        recipe.choices[FIELD_DROPOUT] = recipe.choices[FIELD_STEPS] = 0;
        recipe.choices[FIELD_PRECISION] = (unsigned char)precision;
        assert_int_equal(program_expect(&recipe, context->reference, &expected), TUFF_OK);
        recipe.variant.fault = fault;
        program_compare(context, &recipe, expected, &report);
        program_expectation_free(expected);
        found += report.failures > 0;
        if (report.failures > 0 && fault == FAULT_NONE) {
            char line[LINE_SIZE];
            program_describe(&recipe, line, sizeof line);
            print_error("--program \"%s\": %s\n", line, report.failure);
        }
        ++*tried;
    }
    return found;
}

static void faults_are_found(void **state)
{
    (void)state;
    static const int percent[] = {80, 75, 60}; /* f32, f16, bf16; some samples have the same targets as others */
    reference = tuff_device_open("reference");
    assert_non_null(reference);
    program_context context = {.device = reference, .reference = reference};
    for (int fault = FAULT_NONE; fault <= FAULT_SAMPLE; fault++)
        for (int precision = 0; precision < 3; precision++) {
            int tried = 0;
            if (!is_thorough() && drawn_turn("precision", (int)fault, 3) != precision)
                continue;
            const int found = count_found(&context, (program_fault)fault, precision, &tried);
            print_message("    fault %d, precision %d: %d of %d found\n", fault, precision, found, tried);
            if (fault == FAULT_NONE)
                assert_int_equal(found, 0);
            else
                assert_true(100 * found >= percent[precision] * tried);
        }
    program_context_clear(&context);
    tuff_device_close(reference);
}

/* Returns by how much rounding moves a tensor of a parameter in a step of a program. */
static double noise_of(const char *line, int step, state_kind kind, const char *name)
{
    program_recipe recipe;
    program_expectation *expected;
    assert_int_equal(program_parse(line, &recipe), TUFF_OK);
    tuff_device *host = tuff_device_open("reference");
    assert_non_null(host);
    assert_int_equal(program_expect(&recipe, host, &expected), TUFF_OK);
    assert_int_equal(program_measure_noise(expected, step), TUFF_OK);
    double noise = -1;
    for (int i = 0; i < expected->state.count; i++)
        if (expected->state.tensors[i].kind == kind && strcmp(expected->state.tensors[i].name, name) == 0)
            noise = expected->steps[step].noise[i];
    program_expectation_free(expected);
    tuff_device_close(host);
    return noise;
}

/* On forty grids the single element of this moment moves by 3e-7 on average, on four by less than 6e-8. */
static void tensors_of_one_element_are_not_taken_for_exact(void **state)
{
    (void)state;
    const double noise = noise_of("seed=1836930000178 form=transformer layers=2 length=16 hidden=5 inputs=16 "
                                  "mask=lengths positions=learned dropout=0.5 loss=squares steps=2 precision=bf16",
                                  1, STATE_FIRST, "1.out.weight");
    if (!(noise > 2e-7 && noise < 2e-6))
        fail_msg("expected noise between 2e-7 and 2e-6, got %g", noise);
}

static const char tiny_gradient[] =
    "seed=41000788 form=transformer batch=3 length=29 heads=2 sharing=2 projections=apart precision=f16";

/* Without rounding inside attention this gradient would move by 8e-10 instead of 2e-8. */
static void attention_rounds_inside(void **state)
{
    (void)state;
    const double noise = noise_of(tiny_gradient, 0, STATE_FIRST, "0.q.weight");
    if (!(noise > 5e-9 && noise < 1e-7))
        fail_msg("expected noise between 5e-9 and 1e-7, got %g", noise);
}

/* The gradient of values before a norm is a small difference of large terms. */
static const char cancelling[] =
    "seed=46006985 form=images length=16 width=13 classes=10 norm=rms readout=last optimizer=sgd steps=2 pool=max";

/* Rounding moves the weights by a hundredth of their change, and a step begins with the error of the one before. */
static void errors_of_f32_programs_accumulate(void **state)
{
    (void)state;
    const double first = noise_of(cancelling, 0, STATE_WEIGHTS, "0.kernel.weight"),
                 second = noise_of(cancelling, 1, STATE_WEIGHTS, "0.kernel.weight");
    if (!(first > 1e-7 && first < 1e-6 && second > first && second < 1e-6))
        fail_msg("expected noise between 1e-7 and 1e-6, and more in the second step, got %g and %g", first, second);
}

static void check_line(program_context *context, const char *line)
{
    program_totals all = {.programs = 0};
    program_recipe recipe;
    assert_int_equal(program_parse(line, &recipe), TUFF_OK);
    program_check_one(context, &recipe, 0, &all, print_failure, (void *)tuff__device_info(context->device)->selector);
    assert_true(all.elements > 0);
    assert_int_equal(all.failed, 0);
}

/* Programs whose smallest gradients are mostly rounding, of which the largest element of their tensor shows nothing:
   terms that cancel, on OpenCL values that are clipped to a ten-thousandth of the norm, on Vulkan a gradient of about
   f16's smallest number. */
static void check_rounded_gradients(tuff_device *device)
{
    static const char clipped[] =
        "seed=43000678 form=convolution length=13 width=10 patch=3 norm=rms activation=gelu bias=yes readout=last "
        "loss=squares clip=value";
    const bool is_opencl = strncmp(tuff__device_info(device)->selector, "opencl", strlen("opencl")) == 0;
    program_context context = {.device = device, .reference = reference};
    check_line(&context, cancelling);
    check_line(&context, is_opencl ? clipped : tiny_gradient);
    program_context_clear(&context);
}

/* A training whose loss passes the largest f32 number in its third step. Until then it is compared. */
static void diverged_steps_are_not_compared(void **state)
{
    static const char line[] = "seed=30649070560 form=transformer layers=2 batch=2 width=34 heads=3 hidden=32 "
                               "positions=learned activation=swiglu loss=squares steps=3";
    (void)state;
    program_recipe recipe;
    program_expectation *expected;
    reference = tuff_device_open("reference");
    assert_non_null(reference);
    assert_int_equal(program_parse(line, &recipe), TUFF_OK);
    assert_int_equal(program_expect(&recipe, reference, &expected), TUFF_OK);
    assert_false(program_has_diverged(expected, 0));
    assert_true(program_has_diverged(expected, 2));
    program_expectation_free(expected);
    program_context context = {.device = reference, .reference = reference};
    check_line(&context, line);
    program_context_clear(&context);
    tuff_device_close(reference);
}

static void gradients_that_are_mostly_rounding_pass(void **state)
{
    (void)state;
    reference = tuff_device_open("reference");
    assert_non_null(reference);
    for_each_api(check_rounded_gradients);
    tuff_device_close(reference);
}

/* Every recipe can be read back from its line. */
static void lines_say_all(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    for (uint64_t seed = 0; seed < COUNT; seed++) {
        const program_recipe recipe = program_draw(seed);
        program_recipe again;
        char line[LINE_SIZE];
        program_describe(&recipe, line, sizeof line);
        assert_true(strlen(line) + 1 < sizeof line);
        assert_int_equal(program_parse(line, &again), TUFF_OK);
        assert_memory_equal(recipe.choices, again.choices, sizeof recipe.choices);
        assert_true(recipe.seed == again.seed);
    }
    program_recipe none;
    assert_int_equal(program_parse("seed=7 form=mlp width=4000", &none), TUFF_E_USAGE);
    assert_int_equal(program_parse("seed=", &none), TUFF_E_USAGE);
}

/* Fails if a sequence is long and there is a bias, whatever the other fields are. */
static bool is_long_with_bias(void *state, const program_recipe *recipe)
{
    ++*(int *)state;
    return program_size(recipe, FIELD_LENGTH) >= 13 && program_choice(recipe, FIELD_BIAS) != 0;
}

static void failures_shrink_to_what_matters(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        program_recipe recipe = program_draw(seed);
        int tries = 0;
        if (!is_long_with_bias(&tries, &recipe))
            continue;
        program_shrink(&recipe, is_long_with_bias, &tries, 400);
        char line[LINE_SIZE], wanted[64];
        program_describe(&recipe, line, sizeof line);
        snprintf(wanted, sizeof wanted, "seed=%" PRIu64 " length=13 bias=yes", seed);
        assert_string_equal(line, wanted);
        assert_true(tries < 400);
    }
}

/* Fuses and lowers a graph, which verifies it, without compiling a kernel, and destroys it. */
static void plan_graph(tuff_graph *graph, const tuff_compile_options *options, const char *subject)
{
    tuff_plan *plan;
    assert_non_null(graph);
    if (tuff__plan_create(graph, options, NULL, &plan) != TUFF_OK)
        fail_msg("%s: %s", subject, tuff_error());
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
}

static void plan_program(tuff_device *device, uint64_t seed, const tuff_compile_options *options)
{
    const program_recipe recipe = program_draw(seed * PROGRAM_FAMILY);
    program_state state;
    char line[LINE_SIZE];
    program_describe(&recipe, line, sizeof line);
    assert_int_equal(program_state_make(&recipe, device, &state), TUFF_OK);
    for (int i = 0; i < program_graph_count(&recipe); i++)
        plan_graph(program_graph(&recipe, device, &state, i), options, line);
    program_state_free(&state);
}

/* Alternates between programs and random graphs; every fourth is unfused. */
static void plan_all(tuff_device *device)
{
    const uint64_t count = number_from("TUFF_RANDOM_PLANS", 60), first = first_seed();
    for (uint64_t seed = first; seed < first + count; seed++) {
        const tuff_compile_options options = {.fuse = seed / 2 % 4 == 0 ? TUFF_FUSE_NONE : TUFF_FUSE_ALL,
                                              .tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}};
        char line[48];
        if (seed % 2 == 0) {
            plan_program(device, seed, &options);
            continue;
        }
        tuff_graph *graph = tuff_graph_create(device);
        assert_non_null(graph);
        random_graph(graph, &seed);
        snprintf(line, sizeof line, "TUFF_RANDOM_SEED=%" PRIu64 " (a random graph)", seed);
        plan_graph(graph, &options, line);
    }
}

static void the_verifier_finds_nothing(void **state)
{
    (void)state;
    for_drawn_drivers(plan_all);
}

/* Kernels do not repeat, so that a cache is useless. */
static int use_no_cache(void **state)
{
    (void)state;
    return setenv("TUFF_CACHE_DIR", "", 1);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_say_all),
        cmocka_unit_test(tensors_of_one_element_are_not_taken_for_exact),
        cmocka_unit_test(attention_rounds_inside),
        cmocka_unit_test(errors_of_f32_programs_accumulate),
        cmocka_unit_test(diverged_steps_are_not_compared),
        cmocka_unit_test(gradients_that_are_mostly_rounding_pass),
        cmocka_unit_test(failures_shrink_to_what_matters),
        cmocka_unit_test(faults_are_found),
        cmocka_unit_test(relations_hold_on_the_reference),
        cmocka_unit_test(the_verifier_finds_nothing),
        cmocka_unit_test(training_steps_are_right),
    };
    return cmocka_run_group_tests(tests, use_no_cache, NULL);
}
