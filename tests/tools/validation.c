/* The validation loss on every device found: the mean over all bytes of a text, whatever its length and the batch size,
   compared with the losses of its windows one by one on the reference device. */
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
#include "tools/train/validation.h"

enum { CONTEXT = 7 };
static const model_config config = {
    .form = MODEL_GPT, .layers = 1, .heads = 2, .width = 8, .context = CONTEXT, .vocabulary = 256};

/* Returns the sum of the losses of the count bytes after the first. */
static double loss_of_window(tuff_device *device, language_model *model, const unsigned char *bytes, int64_t count)
{
    tuff_graph *graph = tuff_graph_create(device);
    int32_t tokens[CONTEXT + 1];
    float loss;
    for (int64_t i = 0; i <= count; i++)
        tokens[i] = bytes[i];
    tuff_output(graph, "loss",
                model_loss(model, graph, tuff_input(graph, "w", TUFF_I32, TUFF_SHAPE(1, count + 1)), NULL));
    tuff_plan *plan = tuff_compile(graph, NULL);
    assert_non_null(plan);
    assert_int_equal(tuff_plan_write(plan, "w", tokens, (size_t)(count + 1) * sizeof *tokens), TUFF_OK);
    assert_int_equal(tuff_plan_run(plan), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "loss", &loss, sizeof loss), TUFF_OK);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    return (double)loss * (double)count;
}

static double expected_loss(const corpus *text)
{
    tuff_device *device = tuff_device_open("reference");
    language_model model;
    double sum = 0;
    assert_int_equal(model_create(device, &config, &model), TUFF_OK);
    assert_int_equal(model_initialize(&model, 5), TUFF_OK);
    for (size_t begin = 0; begin + 1 < text->size; begin += CONTEXT) {
        const size_t left = text->size - 1 - begin;
        sum += loss_of_window(device, &model, text->bytes + begin, left < CONTEXT ? (int64_t)left : CONTEXT);
    }
    model_destroy(&model);
    tuff_device_close(device);
    return sum / (double)(text->size - 1);
}

static void check_size(tuff_device *device, size_t size, int64_t batch)
{
    unsigned char bytes[64];
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(i * i * 37 + 11);
    const corpus text = {.bytes = bytes, .size = size};
    run_settings settings = {.model = config, .batch = batch, .steps = 20, .validate_every = 6, .patience = 2};
    validation self = {0};
    language_model model;
    double loss = 0, again = 0;
    assert_int_equal(model_create(device, &config, &model), TUFF_OK);
    assert_int_equal(model_initialize(&model, 5), TUFF_OK);
    if (validation_open(&self, device, &model, NULL, &text, &settings, NULL) != TUFF_OK)
        fail_msg("%s", tuff_error());
    assert_int_equal(validation_loss(&self, &loss), TUFF_OK);
    assert_int_equal(validation_loss(&self, &again), TUFF_OK);
    assert_true(loss == again);
    const double expected = expected_loss(&text);
    if (!(fabs(loss - expected) <= 2e-6 * expected))
        fail_msg("%zu bytes in batches of %lld: %.9g, not %.9g", size, (long long)batch, loss, expected);
    validation_close(&self);
    model_destroy(&model);
}

/* Small sizes run on the reference device only: each is a model to compile. */
static void check_losses(tuff_device *device)
{
    check_size(device, 53, 3);
    if (tuff__device_is_reference(device)) {
        check_size(device, 2, 1);
        check_size(device, CONTEXT + 1, 3);
    }
}

static void is_the_mean_over_the_text(void **state)
{
    (void)state;
    for_each_device(check_losses);
}

static float first_weight(tuff_parameters *parameters)
{
    tuff_array *view = tuff_array_view(tuff_parameters_at(parameters, 0, NULL), 0, TUFF_SHAPE(1));
    float value;
    assert_int_equal(tuff_array_read(view, &value, sizeof value), TUFF_OK);
    tuff_array_destroy(view);
    return value;
}

/* Which loss is the best, when training stops early, and what is restored. */
static void records_the_best(void **state)
{
    static const double losses[] = {3, 2, NAN, 2, 1.5, 1.6, 1.7};
    static const bool best[] = {true, true, false, false, true, false, false};
    unsigned char bytes[] = "abcdefgh";
    const corpus text = {.bytes = bytes, .size = 8};
    run_settings settings = {.model = config, .batch = 1, .steps = 20, .validate_every = 6, .patience = 2};
    tuff_device *device = tuff_device_open("reference");
    validation self = {0};
    language_model model;
    float kept = 0;
    (void)state;
    assert_int_equal(model_create(device, &config, &model), TUFF_OK);
    assert_int_equal(validation_open(&self, device, &model, NULL, &text, &settings, NULL), TUFF_OK);
    for (int i = 0; i < 7; i++) {
        bool is_best;
        assert_int_equal(model_initialize(&model, (uint64_t)i), TUFF_OK);
        assert_int_equal(validation_record(&self, &settings.state, i, losses[i], &is_best), TUFF_OK);
        assert_int_equal(is_best, best[i]);
        assert_int_equal(validation_is_over(&self), i == 3 || i == 6);
        if (i == 4)
            kept = first_weight(model.parameters);
    }
    assert_true(settings.state.best_loss == 1.5 && settings.state.best_step == 4);
    assert_true(first_weight(model.parameters) != kept);
    assert_int_equal(validation_restore(&self), TUFF_OK);
    assert_true(first_weight(model.parameters) == kept);
    for (int64_t step = 1; step <= 20; step++)
        assert_int_equal(validation_is_due(&self, step), step == 6 || step == 12 || step == 18 || step == 20);
    validation_close(&self);
    model_destroy(&model);
    tuff_device_close(device);
}

/* The held-out part and the rest do not overlap, and make up the whole text. */
static void splits(void **state)
{
    unsigned char bytes[100];
    corpus training = {.bytes = bytes, .size = 100}, held_out;
    validation self = {0};
    (void)state;
    assert_int_equal(validation_split(&self, "0.101", &training, &held_out, 20), TUFF_OK);
    assert_int_equal(training.size, 89);
    assert_int_equal(held_out.size, 11);
    assert_ptr_equal(held_out.bytes, bytes + 89);
    assert_int_equal(validation_split(&self, "0.9", &training, &held_out, 20), TUFF_E_USAGE);
    assert_int_equal(training.size, 89);
    static const char *const wrong[] = {"1.5", "0", "1", "-0.1", "nan", "10%", "0.1%"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(validation_split(&self, wrong[i], &training, &held_out, 20), TUFF_E_USAGE);
        assert_non_null(strstr(tuff_error(), "expected a fraction between 0 and 1"));
    }
    assert_int_equal(validation_split(&self, "", &training, &held_out, 20), TUFF_E_USAGE);
    assert_int_equal(training.size, 89);
    assert_int_not_equal(validation_split(&self, "0.5x", &training, &held_out, 20), TUFF_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(is_the_mean_over_the_text), cmocka_unit_test(records_the_best),
                                       cmocka_unit_test(splits)};
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
