/* Turns tasks into kernels: medians over runs, grouped, sorted by time. */
#include "tools/profile/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "measure/peak.h"

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare_doubles);
    return count % 2 == 1 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

/* Compares sources, which copies and kernels of other libraries do not have. */
static bool is_same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Whether a task belongs to a kernel: it runs the same text for the same ops over as many items. */
static bool is_of_kernel(const tuff_plan *plan, const kernel_profile *kernel, const tuff_task_info *task)
{
    tuff_task_info first;
    return tuff_plan_task(plan, kernel->first_task, &first) == TUFF_OK && first.phase == task->phase &&
           first.items == task->items && first.operations == task->operations && first.bytes_read == task->bytes_read &&
           first.bytes_written == task->bytes_written && strcmp(first.label, task->label) == 0 &&
           strcmp(first.program, task->program) == 0 && is_same_text(first.source, task->source);
}

static kernel_profile *find_kernel(plan_profile *self, const tuff_plan *plan, const tuff_task_info *task)
{
    for (int i = 0; i < self->count; i++)
        if (is_of_kernel(plan, &self->kernels[i], task))
            return &self->kernels[i];
    return NULL;
}

static tuff_status add_task(plan_profile *self, const tuff_plan *plan, int index, double seconds)
{
    tuff_task_info info;
    TRY(tuff_plan_task(plan, index, &info));
    const tuff_task_info *task = &info;
    kernel_profile *kernel = find_kernel(self, plan, task);
    if (!kernel) {
        kernel = &self->kernels[self->count];
        *kernel = (kernel_profile){.program = tuff__arena_strdup(&self->names, task->program),
                                   .kind = tuff__arena_strdup(&self->names, task->kind),
                                   .label = tuff__arena_strdup(&self->names, task->label),
                                   .phase = task->phase,
                                   .items = task->items,
                                   .first_task = index};
        if (!kernel->program || !kernel->kind || !kernel->label)
            return TUFF_E_OOM_HOST;
        self->count++;
    }
    kernel->calls++;
    kernel->seconds += seconds;
    kernel->operations += task->operations;
    kernel->bytes += (double)(task->bytes_read + task->bytes_written);
    self->seconds += seconds;
    self->phases[task->phase] += seconds;
    return TUFF_OK;
}

static int compare_kernels(const void *a, const void *b)
{
    const kernel_profile *x = a, *y = b;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? 1 : -1;
    return strcmp(x->program, y->program);
}

/* Returns the median over the runs of the sample at an index. */
static double median_of(const plan_profile *self, int index, double *scratch)
{
    for (int run = 0; run < self->runs; run++)
        scratch[run] = self->samples[run * (self->task_count + 1) + index];
    return median(scratch, self->runs);
}

static tuff_status gather(plan_profile *self, const tuff_plan *plan, double *scratch)
{
    for (int i = 0; i < self->task_count; i++) {
        const double seconds = median_of(self, i, scratch);
        if (seconds > 0) /* 0: a copy that is kept between runs and was not made again */
            TRY(add_task(self, plan, i, seconds));
    }
    self->run_seconds = median_of(self, self->task_count, scratch);
    qsort(self->kernels, (size_t)self->count, sizeof *self->kernels, compare_kernels);
    return TUFF_OK;
}

tuff_status profile_finish(plan_profile *self, const tuff_plan *plan)
{
    double *scratch = tuff__calloc((size_t)self->runs + 1, sizeof *scratch);
    self->kernels = tuff__calloc((size_t)self->task_count + 1, sizeof *self->kernels);
    const tuff_status status = scratch && self->kernels ? gather(self, plan, scratch) : TUFF_E_OOM_HOST;
    tuff__free(scratch);
    return status;
}

tuff_status profile_add_times(plan_profile *self, const plan_profile *part, int64_t times)
{
    const size_t count = (size_t)self->count + (size_t)part->count;
    kernel_profile *kernels = tuff__realloc_array(self->kernels, count + 1, sizeof *kernels);
    if (!kernels)
        return TUFF_E_OOM_HOST;
    self->kernels = kernels;
    for (int i = 0; i < part->count; i++) {
        kernel_profile *kernel = &self->kernels[self->count];
        *kernel = part->kernels[i];
        kernel->program = tuff__arena_strdup(&self->names, kernel->program);
        kernel->kind = tuff__arena_strdup(&self->names, kernel->kind);
        kernel->label = tuff__arena_strdup(&self->names, kernel->label);
        if (!kernel->program || !kernel->kind || !kernel->label)
            return TUFF_E_OOM_HOST;
        kernel->calls *= (int)times;
        kernel->seconds *= (double)times;
        kernel->operations *= (double)times;
        kernel->bytes *= (double)times;
        self->count++;
    }
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        self->phases[phase] += part->phases[phase] * (double)times;
    self->seconds += part->seconds * (double)times;
    self->run_seconds += part->run_seconds * (double)times;
    self->task_count += part->task_count * (int)times;
    qsort(self->kernels, (size_t)self->count, sizeof *self->kernels, compare_kernels);
    return TUFF_OK;
}

/* If background tuning has given the plan other tasks, earlier runs are dropped. */
tuff_status profile_add_run(plan_profile *self, const tuff_plan *plan)
{
    tuff_plan_info info;
    TRY(tuff_plan_describe(plan, &info));
    if (info.task_count != self->task_count)
        self->runs = 0;
    self->task_count = info.task_count;
    const size_t row = (size_t)info.task_count + 1;
    double *samples = tuff__realloc_array(self->samples, ((size_t)self->runs + 1) * row, sizeof *samples);
    if (!samples)
        return TUFF_E_OOM_HOST;
    self->samples = samples;
    samples += (size_t)self->runs * row;
    for (int i = 0; i < info.task_count; i++) {
        tuff_task_info task;
        TRY(tuff_plan_task(plan, i, &task));
        samples[i] = (double)task.nanoseconds * 1e-9;
    }
    samples[info.task_count] = (double)info.run_nanoseconds * 1e-9;
    self->runs++;
    return TUFF_OK;
}

void profile_free(plan_profile *self)
{
    tuff__free(self->samples);
    tuff__free(self->kernels);
    tuff__arena_free(&self->names);
    *self = (plan_profile){.kernels = NULL};
}

void peaks_measure(tuff_device *device, device_peaks *out)
{
    /* 0 if it cannot be measured. */
    (void)tuff__peak_rate(device, PEAK_OPERATIONS, &out->operations);
    (void)tuff__peak_rate(device, PEAK_BYTES, &out->bytes);
}

double kernel_fraction(const kernel_profile *kernel, const device_peaks *peaks)
{
    const double arithmetic = peaks->operations > 0 ? kernel->operations / peaks->operations : 0;
    const double memory = peaks->bytes > 0 ? kernel->bytes / peaks->bytes : 0;
    return (arithmetic > memory ? arithmetic : memory) / kernel->seconds;
}
