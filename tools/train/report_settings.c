/* Lists the settings of a run, including defaults, in words if a number alone would be unclear. */
#include "tools/train/report_settings.h"

#include <inttypes.h>

#include "tools/cli/page.h"
#include "tools/train/optimizer_choices.h"

static void add_model(text *out, const run_settings *settings)
{
    const model_config *model = &settings->model;
    page_add_fact(out, "form", model->form == MODEL_GPT ? "GPT" : "Llama");
    page_add_number(out, "layers", (double)model->layers);
    page_add_number(out, "heads", (double)model->heads);
    if (model->form == MODEL_LLAMA) {
        page_add_number(out, "key and value heads", (double)model->key_value_heads);
        page_add_number(out, "hidden", (double)model->hidden);
    }
    page_add_number(out, "width", (double)model->width);
    page_add_number(out, "context", (double)model->context);
    page_add_number(out, "batch", (double)settings->batch);
    page_add_number(out, "steps", (double)settings->steps);
    page_add_number(out, "seed", (double)settings->seed);
}

static void add_rule(text *out, const tuff_optimizer_options *rule, const optimizer_flags *flags)
{
    char word[32];
    const double momentum = rule->kind == TUFF_MUON && rule->momentum == 0 ? 0.95 : rule->momentum;
    page_add_fact(out, "optimizer", optimizer_choice("--optimizer", flags->kind, word, sizeof word));
    if (rule->kind == TUFF_SGD || rule->kind == TUFF_MUON)
        page_add_number(out, rule->nesterov ? "Nesterov momentum" : "momentum", momentum);
    page_add_number(out, "weight decay of matrices", rule->weight_decay);
}

static void add_schedule(text *out, const tuff_optimizer_options *rule, const optimizer_flags *flags)
{
    char word[32], rise[64] = "no warm-up", value[160];
    if (rule->warmup_steps > 0)
        (void)snprintf(rise, sizeof rise, "%" PRId64 " steps of warm-up", rule->warmup_steps);
    else if (rule->schedule == TUFF_SCHEDULE_ONE_CYCLE)
        (void)snprintf(rise, sizeof rise, "warm-up over 30 %% of the steps");
    const int used = snprintf(value, sizeof value, "%s, %s",
                        optimizer_choice("--schedule", flags->schedule, word, sizeof word), rise);
    if (rule->schedule != TUFF_SCHEDULE_CONSTANT)
        (void)snprintf(value + used, sizeof value - (size_t)used, ", to %.6g of the peak rate", rule->final_fraction);
    if (flags->rates[0]) {
        page_add_fact(out, "learning rates from", flags->rates);
        return;
    }
    page_add_number(out, "peak learning rate", rule->learning_rate);
    page_add_fact(out, "schedule", value);
    if (flags->epoch_steps > 0)
        page_add_number(out, "steps per epoch", (double)flags->epoch_steps);
}

static void add_clipping(text *out, const tuff_optimizer_options *rule)
{
    char value[128] = "none";
    if (rule->clip_norm > 0 && rule->clip_value > 0)
        (void)snprintf(value, sizeof value, "norm of all gradients at most %.6g, then each element at most %.6g",
                       rule->clip_norm, rule->clip_value);
    else if (rule->clip_norm > 0)
        (void)snprintf(value, sizeof value, "norm of all gradients at most %.6g", rule->clip_norm);
    else if (rule->clip_value > 0)
        (void)snprintf(value, sizeof value, "each element at most %.6g", rule->clip_value);
    page_add_fact(out, "clipping", value);
}

static void add_groups(text *out, const optimizer_flags *flags)
{
    char value[sizeof flags->groups + 1];
    size_t length = 0;
    for (const char *at = flags->groups; *at && length + 2 < sizeof value; at++) {
        value[length++] = *at;
        if (*at == ';')
            value[length++] = ' ';
    }
    value[length] = 0;
    page_add_fact(out, "groups", length > 0 ? value : "none");
}

static void add_optimizer(text *out, const run_settings *settings)
{
    const optimizer_flags *flags = &settings->optimizer;
    optimizer_setup setup;
    char value[96];
    optimizer_setup_make(flags, settings->learning_rate, settings->steps, &setup);
    add_rule(out, &setup.options, flags);
    add_schedule(out, &setup.options, flags);
    page_add_fact(out, "precision", run_precision_name(settings->precision));
    page_add_fact(out, "loss scale", flags->loss_scale);
    add_clipping(out, &setup.options);
    add_groups(out, flags);
    if (flags->update_top > 0)
        page_add_number(out, "parameters updated per step", (double)flags->update_top);
    (void)snprintf(value, sizeof value, "%" PRId64 " batches per step", flags->accumulate);
    page_add_fact(out, "accumulation", flags->accumulate > 1 ? value : "none");
    (void)snprintf(value, sizeof value, "decay %.9g per step", flags->average);
    page_add_fact(out, "average of weights", flags->average > 0 ? value : "none");
}

static void add_validation(text *out, const run_settings *settings)
{
    char value[sizeof settings->validate + 128];
    if (!settings->validate[0]) {
        page_add_fact(out, "validation", "none");
        return;
    }
    const int used =
        snprintf(value, sizeof value, "%s, every %" PRId64 " steps", settings->validate, settings->validate_every);
    if (settings->patience > 0)
        (void)snprintf(value + used, sizeof value - (size_t)used, ", stops after %" PRId64 " without improvement",
                       settings->patience);
    page_add_fact(out, "validation", value);
}

void report_add_settings(text *out, const train_options *options, const tuff_device_info *device)
{
    tuff__text_add(out, "<h2>Settings</h2><dl>");
    page_add_fact(out, "device", device->name);
    page_add_fact(out, "driver", device->driver);
    add_model(out, &options->settings);
    add_optimizer(out, &options->settings);
    add_validation(out, &options->settings);
    for (int i = 0; i < options->data.count; i++)
        page_add_fact(out, "data", options->data.items[i]);
    if (options->save)
        page_add_fact(out, "saved to", options->save);
    tuff__text_add(out, "</dl>\n");
}
