/* Whole programs at random: steps of training of small language models, on every driver, against the reference device,
   which computes in float64. Every moment of the optimizer and the change of every parameter is compared, each in
   units of the largest element of its own tensor, so that one that is never trained cannot hide in a falling loss; but
   changes by Adam are compared after one step only. Sizes are tiny and odd: 1, primes, one beside a power of two.
   TUFF_RANDOM_PROGRAMS is how many, TUFF_RANDOM_SEED the seed of the first. More of them, and random graphs,
   TUFF_RANDOM_PLANS, are only planned and verified. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "random_graph.h"
#include "run/fit.h"
#include "tools/graphs.h"
#include "train/train.h"
#include "tune/dice.h"

enum { MOST_SLABS = 1 + MOMENTS_MAX };

/* Of a tensor's largest element. f32 sums of these sizes are good to a few 1e-6; Adam's second moment squares that, and
   a second step begins at what the first one made. */
#define BAR 1e-4
/* Elements below that share of their tensor's largest gradient: Adam divides by them, and what rounding left of a sum
   that is near zero, as of the gradient of a key's bias, becomes a whole step. A gradient that is good to 1e-5 of the
   largest gives a step that is good to 1e-2 from there on. The moments are compared whatever their size. */
#define NOISE 1e-3

/* A program that a seed makes. */
typedef struct recipe {
    uint64_t seed;
    model_config config;
    int64_t batch;
    int steps;
    bool recompute;
    tuff_optimizer_options rule;
    tuff_compile_options options;
} recipe;

static int64_t one_of(dice *of, const int64_t *list, size_t count)
{
    return list[tuff__dice_below(of, (int)count)];
}

/* No width below 6: a norm of two elements is 1 and -1 whatever they are, its gradients are what rounding leaves. */
static recipe make_recipe(uint64_t seed)
{
    static const int64_t head_widths[] = {6, 10, 16, 18, 34}, contexts[] = {1, 2, 3, 7, 13, 16, 17, 29, 32, 33};
    static const int64_t batches[] = {1, 2, 3, 4, 5, 6}, vocabularies[] = {2, 7, 31, 64, 65};
    static const int64_t hidden[] = {1, 5, 17, 32, 47};
    dice of = {seed};
    recipe made = {.seed = seed};
    made.config.form = tuff__dice_below(&of, 3) == 0 ? MODEL_LLAMA : MODEL_GPT;
    made.config.layers = 1 + tuff__dice_below(&of, 3);
    made.config.heads = 1 + tuff__dice_below(&of, 4);
    made.config.width = made.config.heads * one_of(&of, head_widths, sizeof head_widths / sizeof *head_widths);
    made.config.context = one_of(&of, contexts, sizeof contexts / sizeof *contexts);
    made.config.vocabulary = one_of(&of, vocabularies, sizeof vocabularies / sizeof *vocabularies);
    made.config.key_value_heads = made.config.heads % 2 == 0 ? made.config.heads / 2 : 1;
    made.config.hidden = one_of(&of, hidden, sizeof hidden / sizeof *hidden);
    made.batch = one_of(&of, batches, sizeof batches / sizeof *batches);
    made.recompute = tuff__dice_below(&of, 4) == 0;
    made.rule = (tuff_optimizer_options){.learning_rate = 1e-3, .weight_decay = 0.1 * tuff__dice_below(&of, 2)};
    if (tuff__dice_below(&of, 2) == 0) {
        made.rule.kind = TUFF_SGD;
        made.rule.momentum = 0.9;
        made.rule.nesterov = tuff__dice_below(&of, 2) == 0;
    }
    made.rule.clip_norm = tuff__dice_below(&of, 2) == 0 ? 0.5 : 0;
    static const tuff_family families[] = {TUFF_FAMILY_DEVICE, TUFF_FAMILY_DEVICE, TUFF_FAMILY_REGISTER,
                                           TUFF_FAMILY_LOCAL};
    made.options = (tuff_compile_options){.tune = TUFF_TUNE_OFF, .family = families[tuff__dice_below(&of, 4)]};
    made.steps = 1 + tuff__dice_below(&of, 2);
    return made;
}

static void describe(const recipe *of, char *line, size_t size)
{
    const model_config *config = &of->config;
    snprintf(line, size,
             "TUFF_RANDOM_SEED=%" PRIu64
             " (%s, layers %d, heads %d, width %d, context %d, vocabulary %d, batch %d, %s, "
             "clip %g, decay %g%s, family %d)",
             of->seed, config->form == MODEL_LLAMA ? "Llama" : "GPT", (int)config->layers, (int)config->heads,
             (int)config->width, (int)config->context, (int)config->vocabulary, (int)of->batch,
             of->rule.kind == TUFF_SGD ? "SGD" : "AdamW", of->rule.clip_norm, of->rule.weight_decay,
             of->recompute ? ", recompute" : "", (int)of->options.family);
}

/* What a run leaves: the parameters' slab and the moments'; names and places of parameters are the same everywhere. */
typedef struct outcome {
    language_model model;
    tuff_optimizer *optimizer;
    float *begin, *slabs[MOST_SLABS];
    int slab_count;
} outcome;

static float *read_slab(tuff_array *array)
{
    const size_t size = (size_t)tuff_shape_count(tuff_array_shape(array)) * sizeof(float);
    float *data = malloc(size + 1);
    assert_non_null(data);
    assert_int_equal(tuff_array_read(array, data, size), TUFF_OK);
    return data;
}

/* All weights differ from 0 and from each other: biases and gains too. */
static void fill_weights(const tuff_parameters *parameters, uint64_t seed)
{
    for (int i = 0; i < parameters->count; i++) {
        const parameter *item = &parameters->items[i];
        float *data = malloc((size_t)item->count * sizeof *data + 1);
        dice of = {seed * 1000 + (uint64_t)i};
        assert_non_null(data);
        for (int64_t k = 0; k < item->count; k++)
            data[k] = (float)((tuff__dice_share(&of) - 0.5) * 0.4 + (strstr(item->name, "gain") ? 1 : 0));
        assert_int_equal(tuff_array_write(item->array, data, (size_t)item->count * sizeof *data), TUFF_OK);
        free(data);
    }
}

static void run_steps(const recipe *of, tuff_plan *plan)
{
    const size_t count = (size_t)(of->batch * (of->config.context + 1));
    int32_t *windows = malloc(count * sizeof *windows);
    dice draw = {of->seed + 17};
    assert_non_null(windows);
    for (int step = 0; step < of->steps; step++) {
        for (size_t i = 0; i < count; i++)
            windows[i] = tuff__dice_below(&draw, (int)of->config.vocabulary);
        assert_int_equal(tuff_plan_write(plan, "windows", windows, count * sizeof *windows), TUFF_OK);
        assert_int_equal(tuff_plan_run(plan), TUFF_OK);
    }
    assert_int_equal(tuff_plan_wait(plan), TUFF_OK);
    free(windows);
}

static void run_recipe(const recipe *of, tuff_device *device, outcome *out)
{
    *out = (outcome){.slab_count = 1};
    assert_int_equal(model_create(device, &of->config, &out->model), TUFF_OK);
    out->model.recompute = of->recompute;
    fill_weights(out->model.parameters, of->seed);
    out->optimizer = tuff_optimizer_create(out->model.parameters, &of->rule);
    assert_non_null(out->optimizer);
    tuff_graph *graph = train_graph(device, &out->model, out->optimizer, of->batch);
    assert_non_null(graph);
    tuff_plan *plan = tuff_compile(graph, &of->options);
    if (plan == NULL)
        fail_msg("%s", tuff_error());
    out->begin = read_slab(out->model.parameters->slab);
    run_steps(of, plan);
    out->slabs[0] = read_slab(out->model.parameters->slab);
    for (int i = 0; i < MOMENTS_MAX && out->optimizer->moments[i] != NULL; i++)
        out->slabs[out->slab_count++] = read_slab(out->optimizer->moments[i]);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
}

static void end_outcome(outcome *of)
{
    for (int i = 0; i < of->slab_count; i++)
        free(of->slabs[i]);
    free(of->begin);
    tuff_optimizer_destroy(of->optimizer);
    model_destroy(&of->model);
}

static double largest(const float *of, const float *less, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs((double)of[i] - (less != NULL ? (double)less[i] : 0)));
    return most;
}

/* The largest deviation of a tensor in units of its largest element; of parameters, of what the steps changed. Elements
   whose first moment is noise are left out of parameters: noise, where not NULL, is the moment. */
static double deviation(const float *got, const float *wanted, const float *begin, const float *noise, int64_t count)
{
    const double unit = largest(wanted, begin, count), loud = noise != NULL ? NOISE * largest(noise, NULL, count) : 0;
    double most = 0;
    for (int64_t i = 0; i < count; i++) {
        if (noise != NULL && fabs((double)noise[i]) <= loud)
            continue;
        const double off = fabs((double)got[i] - (double)wanted[i]);
        /* What a step changes is rounded to the parameter's own last bit, two steps twice. */
        const double rounding = begin != NULL ? 4 * 1.2e-7 * fabs((double)wanted[i]) : 0;
        if (!(off <= rounding))
            most = isnan(off) || unit == 0 ? INFINITY : fmax(most, off / unit);
    }
    return most;
}

/* The number of tensors that are off; each is told. */
static int compare(const recipe *of, const outcome *got, const outcome *wanted, const char *device)
{
    const tuff_parameters *all = wanted->model.parameters;
    int failed = 0;
    /* After a second step of Adam the moments no longer tell which elements a first one made of rounding alone. */
    const bool changes = of->rule.kind == TUFF_SGD || of->steps == 1;
    for (int i = 0; i < all->count; i++)
        for (int k = changes ? 0 : 1; k < wanted->slab_count; k++) {
            const int64_t at = all->items[i].offset, count = all->items[i].count;
            const float *begin = k == 0 ? wanted->begin + at : NULL, *noise = k == 0 ? wanted->slabs[1] + at : NULL;
            const double off = deviation(got->slabs[k] + at, wanted->slabs[k] + at, begin, noise, count);
            /* The root of Adam's second moment enlarges what is left of small gradients. */
            const double bar = k == 0 && of->rule.kind == TUFF_ADAMW ? 100 * BAR : BAR;
            if (off <= bar)
                continue;
            char line[320];
            describe(of, line, sizeof line);
            print_error("%s on %s: %s of %s is off by %g of its largest element\n", line, device,
                        k == 0   ? "the change"
                        : k == 1 ? "the first moment"
                                 : "the second moment",
                        all->items[i].name, off);
            failed++;
        }
    return failed;
}

static uint64_t number_from(const char *variable, uint64_t otherwise)
{
    const char *value = getenv(variable);
    return value != NULL && value[0] != '\0' ? strtoull(value, NULL, 10) : otherwise;
}

static uint64_t first_seed, program_count;
static outcome *expected; /* of each program */
static int failures;

static void run_all(tuff_device *device)
{
    const tuff_device_info *info = tuff__device_info(device);
    for (uint64_t i = 0; i < program_count; i++) {
        const recipe of = make_recipe(first_seed + i);
        if (program_count > 1 && !is_its_turn(device, (int)(i % 4096)))
            continue;
        outcome got;
        run_recipe(&of, device, &got);
        failures += compare(&of, &got, &expected[i], info->selector);
        end_outcome(&got);
    }
}

static void training_steps_are_right(void **state)
{
    (void)state;
    program_count = number_from("TUFF_RANDOM_PROGRAMS", 3);
    first_seed = number_from("TUFF_RANDOM_SEED", 1);
    print_message("random programs from seed %" PRIu64 "\n", first_seed);
    tuff_device *reference = tuff_device_open("reference");
    assert_non_null(reference);
    expected = calloc(program_count + 1, sizeof *expected);
    assert_non_null(expected);
    for (uint64_t i = 0; i < program_count; i++) {
        const recipe of = make_recipe(first_seed + i);
        run_recipe(&of, reference, &expected[i]);
    }
    for_each_driver(run_all);
    for (uint64_t i = 0; i < program_count; i++)
        end_outcome(&expected[i]);
    free(expected);
    tuff_device_close(reference);
    assert_int_equal(failures, 0);
}

/* Fuses and lowers a graph, which verifies it, and compiles no kernel; it is destroyed. */
static void plan_graph(tuff_device *device, tuff_graph *graph, const tuff_compile_options *options, const char *what)
{
    tuff_plan plan = {.device = device};
    assert_non_null(graph);
    if (tuff__fit(&plan, graph, options) != TUFF_OK)
        fail_msg("%s: %s", what, tuff_error());
    tuff__lowered_free(&plan.made.lowered);
    tuff__fusion_free(&plan.fusion);
    tuff_graph_destroy(plan.graph);
    tuff_graph_destroy(graph);
}

static void plan_program(tuff_device *device, uint64_t seed, tuff_fuse_mode mode)
{
    recipe of = make_recipe(seed);
    language_model model;
    char line[320];
    of.options.fuse = mode;
    describe(&of, line, sizeof line);
    assert_int_equal(model_create(device, &of.config, &model), TUFF_OK);
    model.recompute = of.recompute;
    tuff_optimizer *optimizer = tuff_optimizer_create(model.parameters, &of.rule);
    assert_non_null(optimizer);
    plan_graph(device, train_graph(device, &model, optimizer, of.batch), &of.options, line);
    tuff_optimizer_destroy(optimizer);
    model_destroy(&model);
}

/* Programs and random graphs by turns, every fourth unfused. */
static void plan_all(tuff_device *device)
{
    const uint64_t count = number_from("TUFF_RANDOM_PLANS", 60), first = number_from("TUFF_RANDOM_SEED", 1);
    for (uint64_t seed = first; seed < first + count; seed++) {
        const tuff_fuse_mode mode = seed / 2 % 4 == 0 ? TUFF_FUSE_NONE : TUFF_FUSE_ALL;
        char line[48];
        if (seed % 2 == 0) {
            plan_program(device, seed, mode);
            continue;
        }
        tuff_graph *graph = tuff_graph_create(device);
        assert_non_null(graph);
        random_graph(graph, &seed);
        snprintf(line, sizeof line, "TUFF_RANDOM_SEED=%" PRIu64 " (a random graph)", seed);
        plan_graph(device, graph, &(tuff_compile_options){.tune = TUFF_TUNE_OFF, .fuse = mode}, line);
    }
}

static void the_verifier_finds_nothing(void **state)
{
    (void)state;
    for_each_api(plan_all);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_verifier_finds_nothing),
        cmocka_unit_test(training_steps_are_right),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
