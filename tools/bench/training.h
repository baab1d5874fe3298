/* A training step of the tool's GPT as an implementation, or only its optimizer part. */
#ifndef TUFF_TOOLS_BENCH_TRAINING_H
#define TUFF_TOOLS_BENCH_TRAINING_H

#include "tools/bench/bench.h"
#include "tools/model/model.h"

/* Losses of the first steps, which implementations must agree on; the later ones depend on gradients and updates. */
#define BENCH_LOSSES 3

/* A model and the number of windows per step. */
typedef struct bench_job {
    model_config config;
    int64_t batch;
} bench_job;

typedef struct bench_training {
    tuff_device *device;
    bench_job job;
    language_model model;
    tuff_optimizer *optimizer;
    tuff_array *gradients; /* of all parameters, if only the optimizer runs */
    tuff_array *views[1024];
    int view_count;
    tuff_graph *graph;
    tuff_plan *plan;
    int32_t *windows; /* input of every step */
    size_t windows_size;
    float losses[BENCH_LOSSES];
    double compile_seconds;
    uint64_t fresh_programs; /* compiled by the driver for the plan; 0 if all were in the cache */
} bench_training;

/* Gets a job by index. Returns false after the last one. */
bool bench_job_at(const bench *self, int index, bench_job *out);
/* Formats a job as "6x384 H6 T256 B4": layers, width, heads, context, batch. */
const char *bench_job_text(const bench_job *job, char *buffer, size_t size);
#define JOB_TEXT(job) bench_job_text((job), (char[48]){0}, 48)
tuff_optimizer_options bench_optimizer_options(void);
/* The input of every implementation, i32 [batch, context + 1]. Freed with tuff__free; NULL if out of memory. */
int32_t *bench_windows(const bench_job *job, size_t *size);

/* Adds a training step, after running the first BENCH_LOSSES steps. */
tuff_status bench_training_add(bench *self, bench_work *work, const bench_job *job, const char *name,
                               const tuff_compile_options *options, bench_training **out);
/* Adds an implementation that only runs a plan, which is still to be made. NULL on failure. */
bench_training *bench_update_begin(bench *self, bench_work *work, const bench_job *job, const char *name);
/* Adds the optimizer part: clipping and update, with gradients in memory. */
tuff_status bench_update_add(bench *self, bench_work *work, const bench_job *job, const char *name,
                             tuff_fuse_mode fuse);
/* Adds AdamW alone, without clipping; its number of parameters. */
tuff_status bench_adamw_add(bench *self, bench_work *work);
int64_t bench_adamw_parameters(const bench *self);

#endif
