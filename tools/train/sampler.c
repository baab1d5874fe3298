/* Sampling: the window of tokens and the position are inputs of a plan that is recorded once; the host draws from the
   logits it returns. */
#include "tools/train/sampler.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/model/graphs.h"
#include "tools/model/random.h"

static void append(text_sampler *self, int32_t token)
{
    if (self->length == self->context) {
        memmove(self->window, self->window + 1, (size_t)(self->context - 1) * sizeof *self->window);
        self->length--;
    }
    self->window[self->length++] = token;
}

static tuff_status build(text_sampler *self, tuff_device *device, language_model *model)
{
    self->window = tuff__calloc((size_t)self->context, sizeof *self->window);
    self->logits = tuff__calloc((size_t)self->vocabulary, sizeof *self->logits);
    if (!self->window || !self->logits)
        return TUFF_E_OOM_HOST;
    for (const char *at = self->options.prompt; *at; at++)
        append(self, (unsigned char)*at);
    if (self->length == 0)
        return FAIL(TUFF_E_USAGE, "sampler: empty prompt, expected at least one byte");
    self->graph = sampler_graph(device, model);
    if (!self->graph)
        return tuff_last_status();
    self->plan = tuff_compile(self->graph, &self->options.compile);
    return self->plan ? TUFF_OK : tuff_last_status();
}

tuff_status sampler_create(tuff_device *device, language_model *model, const sampler_options *options,
                           text_sampler *out)
{
    *out =
        (text_sampler){.options = *options, .context = model->config.context, .vocabulary = model->config.vocabulary};
    out->key = random_key((uint64_t)options->seed, "sample");
    const tuff_status status = build(out, device, model);
    if (status != TUFF_OK)
        sampler_destroy(out);
    return status;
}

void sampler_destroy(text_sampler *self)
{
    tuff_plan_destroy(self->plan);
    tuff_graph_destroy(self->graph);
    tuff__free(self->window);
    tuff__free(self->logits);
    *self = (text_sampler){0};
}

static int64_t likeliest(const float *logits, int64_t count)
{
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

/* Draws by the inverse of the cumulative distribution. Rounding may leave a rest: then the last token with any weight
   is returned. */
static int64_t draw(const float *logits, int64_t count, double temperature, double uniform)
{
    const double top = logits[likeliest(logits, count)];
    double total = 0;
    for (int64_t i = 0; i < count; i++)
        total += exp((logits[i] - top) / temperature);
    double left = uniform * total;
    int64_t last = 0;
    for (int64_t i = 0; i < count; i++) {
        const double weight = exp((logits[i] - top) / temperature);
        if (weight > 0)
            last = i;
        if (left < weight)
            return i;
        left -= weight;
    }
    return last;
}

static tuff_status run(text_sampler *self)
{
    const int32_t position = (int32_t)(self->length - 1);
    TRY(tuff_plan_write(self->plan, "tokens", self->window, (size_t)self->context * sizeof *self->window));
    TRY(tuff_plan_write(self->plan, "position", &position, sizeof position));
    TRY(tuff_plan_run(self->plan));
    TRY(tuff_plan_read(self->plan, "logits", self->logits, (size_t)self->vocabulary * sizeof *self->logits));
    for (int64_t i = 0; i < self->vocabulary; i++)
        if (!isfinite(self->logits[i]))
            return FAIL(TUFF_E_NUMERIC, "sampler: the model's output is not finite: its training diverged");
    return TUFF_OK;
}

tuff_status sampler_next(text_sampler *self, int *byte)
{
    TRY(run(self));
    const double temperature = self->options.temperature, uniform = random_uniform(self->key, self->drawn++);
    const int64_t token = temperature > 0 ? draw(self->logits, self->vocabulary, temperature, uniform)
                                          : likeliest(self->logits, self->vocabulary);
    append(self, (int32_t)token);
    *byte = (int)token;
    return TUFF_OK;
}

int sampler_print(text_sampler *self, const cli_verb *verb, int64_t count)
{
    int code = EXIT_DONE;
    fputs(self->options.prompt, stdout);
    fflush(stdout);
    for (int64_t i = 0; i < count && code == EXIT_DONE && !cli_is_interrupted(); i++) {
        int byte;
        if (sampler_next(self, &byte) != TUFF_OK)
            code = cli_fail_library(verb, "cannot generate the next byte");
        else if (putchar(byte) == EOF || fflush(stdout) != 0)
            code = cli_fail(verb, EXIT_FAILED, "cannot write the text");
    }
    putchar('\n');
    return code;
}
