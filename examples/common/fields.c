/* Access to the numbers of a configuration by name. */
#include <math.h>
#include <string.h>

#include "example.h"

static const example_field settings_fields[] = {
    EXAMPLE_WHOLE(example_settings, batch, "B", "samples of a batch"),
    EXAMPLE_WHOLE(example_settings, accumulate, "accumulate", "batches of a step"),
    EXAMPLE_WHOLE(example_settings, steps, "steps", "steps of the run"),
    EXAMPLE_WHOLE(example_settings, epoch_steps, "epoch_steps", "steps between changes of the rate, 0: each step"),
    EXAMPLE_WHOLE(example_settings, warmup, "warmup", "steps or epochs in which the rate rises"),
    EXAMPLE_REAL(example_settings, final_rate, "final_rate", "of the rate, at the end"),
    EXAMPLE_REAL(example_settings, dropout, "dropout", "probability"),
    EXAMPLE_REAL(example_settings, rate, "lr", "learning rate"),
    EXAMPLE_REAL(example_settings, beta1, "beta1", "of AdamW"),
    EXAMPLE_REAL(example_settings, beta2, "beta2", "of AdamW"),
    EXAMPLE_REAL(example_settings, epsilon, "eps", "of AdamW"),
    EXAMPLE_REAL(example_settings, weight_decay, "weight_decay", "of all parameters"),
    EXAMPLE_REAL(example_settings, clip_norm, "clip_norm", "largest norm of all gradients, 0: any"),
};
enum { SETTINGS_FIELDS = sizeof settings_fields / sizeof *settings_fields };

int example_field_count(const example *model)
{
    return SETTINGS_FIELDS + model->field_count;
}

const example_field *example_field_at(const example *model, int index)
{
    return index < SETTINGS_FIELDS ? &settings_fields[index] : &model->fields[index - SETTINGS_FIELDS];
}

static const example_field *find_field(const example *model, const char *name)
{
    for (int i = 0; i < example_field_count(model); i++)
        if (strcmp(example_field_at(model, i)->name, name) == 0)
            return example_field_at(model, i);
    return NULL;
}

bool example_get(const example *model, const void *config, const char *name, double *value)
{
    const example_field *field = find_field(model, name);
    if (!field)
        return false;
    const char *at = (const char *)config + field->offset;
    int64_t whole = 0;
    if (field->is_real) {
        memcpy(value, at, sizeof *value);
    } else {
        memcpy(&whole, at, sizeof whole);
        *value = (double)whole;
    }
    return true;
}

bool example_set(const example *model, void *config, const char *name, double value)
{
    const example_field *field = find_field(model, name);
    if (!field || !isfinite(value))
        return false;
    if (!field->is_real && !(fabs(value) <= 1e15 && value == floor(value)))
        return false;
    char *at = (char *)config + field->offset;
    const int64_t whole = (int64_t)value;
    memcpy(at, field->is_real ? (const void *)&value : &whole, sizeof value);
    return true;
}
