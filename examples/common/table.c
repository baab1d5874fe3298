/* The final table of a run, on standard output. */
#include <stdio.h>

#include "train.h"

static void print_speed(const training *self)
{
    const example *model = self->run.model;
    const example_settings *settings = self->run.settings;
    const double parts = (double)example_batches_per_step(settings);
    const double each = model->items ? model->items(self->run.config) : 1;
    printf("%-20s %.2f s\n", "first step after", self->first_seconds);
    if (self->timed_steps < 1 || self->seconds <= 0)
        return;
    const double steps = (double)self->timed_steps / self->seconds;
    printf("%-20s %.4g\n", "steps/s", steps);
    printf("%s%-*s %.5g\n", model->item, (int)(20 - (int)snprintf(NULL, 0, "%s", model->item)), "/s",
           steps * parts * (double)settings->batch * each);
}

void training_print_table(const training *self)
{
    static const char *const precisions[] = {"f32", "f16", "bf16"};
    tuff_device_info device;
    tuff_device_counters counters;
    tuff_plan_info plan;
    printf("\n%s, %s form, %s configuration, %s\n", self->run.model->name,
           self->run.optimized ? "optimized" : "baseline", self->options->config_name,
           precisions[self->options->precision]);
    if (tuff_device_describe(self->run.device, &device) == TUFF_OK)
        printf("%-20s %s, %s\n", "device", device.name, device.selector);
    printf("%-20s %lld\n", "steps", (long long)self->run.step);
    if (self->line_count > 0) {
        const example_line *last = &self->lines[self->line_count - 1];
        printf("%-20s %.6g\n", "loss", last->loss);
        for (int i = 0; i < self->metric_count; i++)
            printf("%-20s %.6g\n", self->metric_names[i], last->metrics[i]);
        if (last->validation_loss == last->validation_loss)
            printf("%-20s %.6g\n", "validation loss", last->validation_loss);
        print_speed(self);
    }
    if (tuff_device_counters_get(self->run.device, &counters) == TUFF_OK)
        printf("%-20s %.1f MiB\n", "peak memory", (double)counters.bytes_peak / 1048576);
    if (training_describe_step(self, &plan) == TUFF_OK)
        printf("%-20s %d launches, of which %d matmuls; %.1f MiB of intermediates\n", "a step", plan.dispatch_count,
               plan.matmul_count, (double)plan.memory_peak / 1048576);
}
