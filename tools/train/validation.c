/* Validation. The held-out text is cut into windows that do not overlap; the last one is shorter and padded with
   targets that the loss ignores. Losses and token counts are summed on the device and read once. */
#include "tools/train/validation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/train/saving.h"

static tuff_status fill(void *user, tuff_sample *sample)
{
    const validation *self = user;
    const size_t begin = (size_t)(sample->index * self->context), left = self->held_out->size - begin;
    const int64_t count = left < (size_t)self->context + 1 ? (int64_t)left : self->context + 1;
    int32_t *tokens = sample->data[0];
    for (int64_t i = 0; i < count; i++)
        tokens[i] = self->held_out->bytes[begin + (size_t)i];
    sample->rows[0] = count;
    return TUFF_OK;
}

/* Whether the text is a number such as "0.1", or "10%", which is rejected rather than taken for a file name. A file of
   such a name can be given as "./0.1". */
static bool is_number(const char *source, double *number)
{
    char *end;
    *number = strtod(source, &end);
    return end != source && (*end == 0 || strcmp(end, "%") == 0);
}

bool validation_reads_file(const char *source)
{
    double number;
    return *source && !is_number(source, &number);
}

static bool is_fraction(const char *source, double number)
{
    return number > 0 && number < 1 && !strchr(source, '%');
}

tuff_status validation_split(validation *self, const char *source, corpus *training, corpus *held_out, int64_t window)
{
    double fraction;
    if (!*source)
        return FAIL(TUFF_E_USAGE, "--validate is empty: expected a file or a fraction of the text");
    if (!is_number(source, &fraction)) {
        TRY(corpus_read(&(cli_strings){.items = &source, .count = 1}, 2, &self->text));
        *held_out = self->text;
        return TUFF_OK;
    }
    if (!is_fraction(source, fraction))
        return FAIL(
            TUFF_E_USAGE,
            "--validate %s: expected a fraction between 0 and 1, such as 0.1; for a file of that name, give ./%s",
            source, source);
    const size_t size = (size_t)ceil(fraction * (double)training->size);
    if (size < 2 || training->size - size < (size_t)window)
        return FAIL(TUFF_E_USAGE,
                    "--validate %s: holding out %zu of %zu bytes leaves %zu to train on, but a window needs %lld",
                    source, size, training->size, training->size - size, (long long)window);
    training->size -= size;
    *held_out = (corpus){.bytes = training->bytes + training->size, .size = size};
    return TUFF_OK;
}

/* Adds [loss · tokens, tokens] of windows i32 [batch, context + 1], padded with -1, to sums. */
static void add_sums(tuff_graph *graph, language_model *model, tuff_array *sums, tuff_tensor *windows)
{
    const tuff_shape shape = tuff_tensor_shape(windows);
    const int64_t batch = shape.extent[0], length = shape.extent[1] - 1;
    const int64_t first[] = {0, 0}, last[] = {batch, length}, second[] = {0, 1}, end[] = {batch, length + 1};
    const int axis = 0;
    tuff_tensor *zero = tuff_constant(graph, TUFF_I32, 0);
    tuff_tensor *tokens = tuff_max(tuff_slice(windows, first, last, NULL), zero);
    tuff_tensor *targets = tuff_reshape(tuff_slice(windows, second, end, NULL), TUFF_SHAPE(batch * length));
    tuff_tensor *logits = model_logits(model, graph, tokens);
    tuff_tensor *rows = tuff_reshape(logits, TUFF_SHAPE(batch * length, model->config.vocabulary));
    tuff_tensor *loss = tuff_cross_entropy(rows, targets, -1, 0);
    tuff_tensor *is_padding = tuff_cast(tuff_less(targets, zero), TUFF_F32);
    tuff_tensor *padded = tuff_sum(is_padding, &axis, 1, false);
    tuff_tensor *count = tuff_sub(tuff_constant(graph, TUFF_F32, (double)(batch * length)), padded);
    tuff_tensor *parts[] = {tuff_reshape(tuff_mul(loss, count), TUFF_SHAPE(1)), tuff_reshape(count, TUFF_SHAPE(1))};
    tuff_assign(graph, sums, tuff_add(tuff_array_tensor(graph, sums), tuff_concat(parts, 2, 0)));
}

static tuff_status make_plan(validation *self, tuff_device *device, language_model *model,
                             const tuff_compile_options *options)
{
    tuff_graph *graph = tuff_graph_create(device);
    if (!graph)
        return tuff_last_status();
    add_sums(graph, model, self->sums,
             tuff_input(graph, "windows", TUFF_I32, TUFF_SHAPE(self->settings->batch, self->context + 1)));
    self->plan = tuff_compile(graph, options);
    tuff_graph_destroy(graph);
    return self->plan ? TUFF_OK : tuff_last_status();
}

static tuff_status make_loader(validation *self, tuff_device *device)
{
    const tuff_field windows = {.name = "windows",
                                .dtype = TUFF_I32,
                                .shape = {.rank = 1, .extent = {self->context + 1}},
                                .collate = TUFF_COLLATE_PAD,
                                .fill = -1};
    /* Windows overlap by one byte, which is the last target of one and the first token of the next. */
    const int64_t targets = (int64_t)self->held_out->size - 1;
    self->loader =
        tuff_loader_create(device, &(tuff_loader_options){.fields = &windows,
                                                          .field_count = 1,
                                                          .batch_size = self->settings->batch,
                                                          .sample_count = (targets + self->context - 1) / self->context,
                                                          .keep_last = true,
                                                          .sample = fill,
                                                          .user = self});
    return self->loader ? TUFF_OK : tuff_last_status();
}

/* The averages go to a set of their own, so that the training continues with its weights. */
static tuff_status open_averages(validation *self, tuff_device *device, const language_model *model,
                                 tuff_optimizer *optimizer)
{
    self->averaged = *model;
    self->averaged.parameters = tuff_parameters_clone(model->parameters);
    if (!self->averaged.parameters)
        return tuff_last_status();
    return averages_open(&self->averages, device, optimizer, model->parameters, self->averaged.parameters);
}

static bool has_averages(tuff_optimizer *optimizer, tuff_parameters *parameters)
{
    for (int i = 0; i < tuff_parameters_count(parameters); i++)
        if (tuff_optimizer_average(optimizer, i))
            return true;
    return false;
}

/* Returns the weights to validate, after updating them if they are averages. */
static tuff_status update_weights(validation *self, tuff_parameters **out)
{
    *out = self->averages.plan ? self->averaged.parameters : self->parameters;
    return self->averages.plan ? averages_update(&self->averages) : TUFF_OK;
}

tuff_status validation_open(validation *self, tuff_device *device, language_model *model, tuff_optimizer *optimizer,
                            const corpus *held_out, const run_settings *settings, const tuff_compile_options *options)
{
    self->held_out = held_out;
    self->settings = settings;
    self->context = settings->model.context;
    self->parameters = model->parameters;
    self->best = tuff_parameters_clone(model->parameters);
    self->sums = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(2));
    if (!self->best || !self->sums)
        return tuff_last_status();
    const bool averaged = has_averages(optimizer, model->parameters);
    if (averaged)
        TRY(open_averages(self, device, model, optimizer));
    TRY(make_plan(self, device, averaged ? &self->averaged : model, options));
    return make_loader(self, device);
}

void validation_close(validation *self)
{
    (void)tuff_loader_destroy(self->loader);
    tuff_plan_destroy(self->plan);
    tuff_array_destroy(self->sums);
    averages_close(&self->averages);
    tuff_parameters_destroy(self->averaged.parameters);
    tuff_parameters_destroy(self->best);
    corpus_free(&self->text);
    *self = (validation){0};
}

static tuff_status keep_best(validation *self)
{
    tuff_parameters *weights;
    TRY(update_weights(self, &weights));
    return tuff_parameters_copy(self->best, weights);
}

/* Loads the best weights from a checkpoint. One without averages was written from the best weights themselves. */
static tuff_status load_best(validation *self, const char *path)
{
    if (self->averages.plan && tuff_checkpoint_load_average(path, self->best) == TUFF_OK)
        return TUFF_OK;
    return tuff_checkpoint_load(path, self->best, NULL);
}

/* A checkpoint of the best step holds the best weights itself, whatever files lie next to it. */
tuff_status validation_resume(validation *self, run_state *state, const char *path, int64_t step)
{
    char best[1024];
    if (!state->has_best)
        return TUFF_OK;
    if (state->best_step == step)
        return keep_best(self);
    if (saving_find_best(path, state, best, sizeof best) == TUFF_OK)
        return load_best(self, best);
    fprintf(stderr, "%s: the best loss so far is discarded; the result will differ from an uninterrupted run\n",
            tuff_error());
    run_state_forget_best(state);
    return TUFF_OK;
}

/* There is no validation when a run is stopped early, or it would differ from an uninterrupted one. */
bool validation_is_due(const validation *self, int64_t step)
{
    const run_settings *settings = self->settings;
    return self->plan && (step % settings->validate_every == 0 || step == settings->steps);
}

tuff_status validation_loss(validation *self, double *loss)
{
    float sums[2] = {0, 0};
    tuff_parameters *weights;
    TRY(update_weights(self, &weights));
    TRY(tuff_array_write(self->sums, sums, sizeof sums));
    TRY(tuff_loader_seek(self->loader, (tuff_loader_position){0}));
    for (int64_t i = 0; i < tuff_loader_batch_count(self->loader); i++) {
        TRY(tuff_loader_next(self->loader, self->plan, NULL));
        TRY(tuff_plan_run(self->plan));
    }
    TRY(tuff_array_read(self->sums, sums, sizeof sums));
    *loss = (double)sums[0] / (double)sums[1];
    return TUFF_OK;
}

tuff_status validation_record(validation *self, run_state *state, int64_t step, double loss, bool *best)
{
    *best = isfinite(loss) && (!state->has_best || loss < state->best_loss);
    state->without_gain++;
    if (!*best)
        return TUFF_OK;
    state->has_best = true;
    state->best_loss = loss;
    state->best_step = step;
    state->without_gain = 0;
    return keep_best(self);
}

bool validation_is_over(const validation *self)
{
    const run_settings *settings = self->settings;
    return self->plan && settings->patience > 0 && settings->state.without_gain >= settings->patience;
}

tuff_status validation_restore(validation *self)
{
    return self->settings->state.has_best ? tuff_parameters_copy(self->parameters, self->best) : TUFF_OK;
}
