/* Access to the numbers of a configuration by name. */
#include <math.h>
#include <string.h>

#include "example.h"

static const example_field settings_fields[] = {
    EXAMPLE_INTEGER(example_settings, batch, "B", "samples per batch"),
    EXAMPLE_INTEGER(example_settings, accumulate, "accumulate", "batches per step"),
    EXAMPLE_INTEGER(example_settings, steps, "steps", "number of steps"),
    EXAMPLE_INTEGER(example_settings, epoch_steps, "epoch_steps",
                    "steps between changes of the learning rate; 0: every step"),
    EXAMPLE_INTEGER(example_settings, warmup, "warmup", "warm-up steps, or epochs if epoch_steps > 0"),
    EXAMPLE_REAL(example_settings, final_rate, "final_rate", "final learning rate, as a fraction of the peak"),
    EXAMPLE_REAL(example_settings, dropout, "dropout", "dropout probability"),
    EXAMPLE_REAL(example_settings, rate, "lr", "learning rate"),
    EXAMPLE_REAL(example_settings, beta1, "beta1", "AdamW: decay of the mean of gradients"),
    EXAMPLE_REAL(example_settings, beta2, "beta2", "AdamW: decay of the mean of squared gradients"),
    EXAMPLE_REAL(example_settings, epsilon, "eps", "AdamW: added to divisors"),
    EXAMPLE_REAL(example_settings, weight_decay, "weight_decay", "weight decay of all parameters"),
    EXAMPLE_REAL(example_settings, clip_norm, "clip_norm", "clip the norm of all gradients to this; 0: no clipping"),
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

double example_field_value(const example_field *field, const void *config)
{
    const char *at = (const char *)config + field->offset;
    double real = 0;
    int64_t whole = 0;
    memcpy(field->is_real ? (void *)&real : &whole, at, sizeof real);
    return field->is_real ? real : (double)whole;
}

bool example_get(const example *model, const void *config, const char *name, double *value)
{
    const example_field *field = find_field(model, name);
    if (field)
        *value = example_field_value(field, config);
    return field != NULL;
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
