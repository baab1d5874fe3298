/* A training step of the tool's GPT as an implementation, or only the optimizer's part of it. */
#ifndef TUFF_TOOLS_BENCH_TRAINING_H
#define TUFF_TOOLS_BENCH_TRAINING_H

#include "tools/bench/bench.h"
#include "tools/model/model.h"

/* Losses of the first steps, which implementations must agree about: gradients and updates are in the later ones. */
#define BENCH_LOSSES 3

/* A model and the windows that a step learns. */
typedef struct bench_job {
    model_config config;
    int64_t batch;
} bench_job;

typedef struct bench_training {
    tuff_device *device;
    bench_job job;
    language_model model;
    tuff_optimizer *optimizer;
    tuff_array *gradients; /* the whole of them, where only the optimizer runs */
    tuff_array *views[1024];
    int view_count;
    tuff_graph *graph;
    tuff_plan *plan;
    int32_t *windows; /* what every step learns */
    size_t windows_size;
    float losses[BENCH_LOSSES];
    double compile_seconds;
    uint64_t fresh_programs; /* that the driver's compiler made for it: 0 where all were in the cache */
} bench_training;

/* Job index, from 0; false where there are no more. */
bool bench_job_at(const bench *self, int index, bench_job *out);
/* "6x384 H6 T256 B4": layers, width, heads, context, batch. */
const char *bench_job_text(const bench_job *job, char *buffer, size_t size);
#define JOB_TEXT(job) bench_job_text((job), (char[48]){0}, 48)
tuff_optimizer_options bench_optimizer_options(void);
/* The bytes that every implementation learns, i32 [batch, context + 1]; freed with tuff__free, NULL without memory. */
int32_t *bench_windows(const bench_job *job, size_t *size);

/* Adds a step of training; the first BENCH_LOSSES steps are done by then. */
tuff_status bench_training_add(bench *self, bench_work *work, const bench_job *job, const char *name,
                               const tuff_compile_options *options, bench_training **out);
/* Adds the optimizer's part: clipping and update, for gradients that lie in memory. */
tuff_status bench_update_add(bench *self, bench_work *work, const bench_job *job, const char *name,
                             tuff_fuse_mode fuse);
/* Adds AdamW alone, without clipping; over how many parameters. */
tuff_status bench_adamw_add(bench *self, bench_work *work);
int64_t bench_adamw_parameters(const bench *self);

#endif
