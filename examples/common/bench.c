/* Runs steps at the request of another program, bench/workloads, so that several programs can take turns. Each line on
   standard input is a command; the answer is a line of JSON on standard output:

     steps N   runs N steps: {"seconds", "processor", "host", "reads", "launches"}: wall clock until the device has done
               them, processor time of the program and of its calling thread, host reads of device memory, launches
     loss      {"loss", "gradient_norm"}: the mean over the steps of `steps` since the last `loss`, and the last step's
               norm before clipping
     profile   runs a step with timestamps, in seconds: {"forward", "backward", "optimizer", "wall", "kernels"}
     memory    bytes, and counts of a step: {"peak", "intermediates", "launches", "copies", "tasks"}

   The first line reports that the plan is compiled: {"ready": seconds}. A failure is {"error": text}. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "train.h"

static double seconds_by(clockid_t clock)
{
    struct timespec now = {0};
    (void)clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static tuff_status run_steps(training *self, int64_t count)
{
    tuff_device_counters before, after;
    tuff_status status = tuff_device_wait(self->run.device);
    if (status == TUFF_OK)
        status = tuff_device_counters_get(self->run.device, &before);
    const double started = example_now(), host = seconds_by(CLOCK_THREAD_CPUTIME_ID),
                 processor = seconds_by(CLOCK_PROCESS_CPUTIME_ID);
    for (int64_t i = 0; i < count && status == TUFF_OK; i++)
        status = training_step(self);
    const double worked = seconds_by(CLOCK_THREAD_CPUTIME_ID) - host;
    if (status == TUFF_OK)
        status = tuff_device_wait(self->run.device);
    const double seconds = example_now() - started, all = seconds_by(CLOCK_PROCESS_CPUTIME_ID) - processor;
    if (status == TUFF_OK)
        status = tuff_device_counters_get(self->run.device, &after);
    if (status == TUFF_OK)
        printf("{\"seconds\": %.9f, \"processor\": %.9f, \"host\": %.9f, \"reads\": %" PRIu64 ", \"launches\": %" PRIu64
               "}\n",
               seconds, all, worked, after.reads - before.reads, after.dispatches - before.dispatches);
    return status;
}

static tuff_status print_loss(training *self)
{
    double loss = NAN, metrics[EXAMPLE_MAX_METRICS];
    float norm = NAN;
    tuff_plan *plan = self->run.update ? self->run.update : self->run.plan;
    tuff_status status = training_read_sums(self->sums, self->metric_count, self->summed, &loss, metrics);
    if (status == TUFF_OK)
        status = tuff_plan_read(plan, "gradient_norm", &norm, sizeof norm);
    self->summed = 0;
    /* JSON has no infinity and no NaN. */
    if (status == TUFF_OK && (!isfinite(loss) || !isfinite(norm)))
        printf("{\"error\": \"the loss is %g, the norm of the gradients %g\"}\n", loss, (double)norm);
    else if (status == TUFF_OK)
        printf("{\"loss\": %.9g, \"gradient_norm\": %.9g}\n", loss, (double)norm);
    return status;
}

/* The times of a step's plans, in seconds: of the tasks by phase, of a run, and of its kernels. */
typedef struct step_times {
    double phases[TUFF_PHASE_OPTIMIZER + 1], wall, kernels;
} step_times;

static tuff_status add_profile(tuff_plan *plan, step_times *times)
{
    uint64_t wall = 0, kernels = 0;
    tuff_plan_info info;
    tuff_task_info task;
    tuff_status status = tuff_plan_profile(plan);
    if (status == TUFF_OK)
        status = tuff_plan_describe(plan, &info);
    for (int i = 0; status == TUFF_OK && i < info.task_count; i++) {
        status = tuff_plan_task(plan, i, &task);
        if (status == TUFF_OK)
            times->phases[task.phase] += 1e-9 * (double)task.nanoseconds;
    }
    if (status == TUFF_OK)
        status = tuff_plan_run_timed(plan, &wall, &kernels);
    times->wall += 1e-9 * (double)wall;
    times->kernels += 1e-9 * (double)kernels;
    return status;
}

/* Restores the sums of the loss afterwards, because profiling runs the plan several times. */
static tuff_status print_profile(training *self)
{
    step_times times = {.wall = 0};
    float sums[1 + EXAMPLE_MAX_METRICS];
    const size_t size = (size_t)(1 + self->metric_count) * sizeof *sums;
    const int64_t parts = example_batches_per_step(self->run.settings);
    tuff_status status = tuff_array_read(self->sums, sums, size);
    for (int64_t i = 0; i < parts && status == TUFF_OK; i++)
        status = add_profile(self->run.plan, &times);
    if (status == TUFF_OK && self->run.update)
        status = add_profile(self->run.update, &times);
    if (status == TUFF_OK)
        status = tuff_array_write(self->sums, sums, size);
    if (status == TUFF_OK)
        printf("{\"forward\": %.9f, \"backward\": %.9f, \"optimizer\": %.9f, \"wall\": %.9f, \"kernels\": %.9f}\n",
               times.phases[TUFF_PHASE_FORWARD], times.phases[TUFF_PHASE_BACKWARD],
               times.phases[TUFF_PHASE_OPTIMIZER], times.wall, times.kernels);
    return status;
}

static tuff_status print_memory(training *self)
{
    tuff_device_counters counters;
    tuff_plan_info info;
    tuff_status status = tuff_device_counters_get(self->run.device, &counters);
    if (status == TUFF_OK)
        status = training_describe_step(self, &info);
    if (status == TUFF_OK)
        printf("{\"peak\": %" PRIu64 ", \"intermediates\": %" PRIu64 ", \"launches\": %d, \"copies\": %d, "
               "\"tasks\": %d}\n",
               counters.bytes_peak, info.memory_peak, info.dispatch_count, info.copy_count, info.task_count);
    return status;
}

static tuff_status run_command(training *self, const char *command)
{
    if (strncmp(command, "steps ", 6) == 0)
        return run_steps(self, strtoll(command + 6, NULL, 10));
    if (strcmp(command, "loss") == 0)
        return print_loss(self);
    if (strcmp(command, "profile") == 0)
        return print_profile(self);
    if (strcmp(command, "memory") == 0)
        return print_memory(self);
    printf("{\"error\": \"unknown command\"}\n");
    return TUFF_OK;
}

tuff_status training_bench(training *self)
{
    char line[128];
    tuff_status status = TUFF_OK;
    printf("{\"ready\": %.3f}\n", example_now() - self->started);
    fflush(stdout);
    while (status == TUFF_OK && fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        status = run_command(self, line);
        fflush(stdout);
    }
    return status;
}
