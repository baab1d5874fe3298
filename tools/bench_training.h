/* A training step of the tool's GPT as a contestant, or only the optimizer's part of it. */
#ifndef TUFF_TOOLS_BENCH_TRAINING_H
#define TUFF_TOOLS_BENCH_TRAINING_H

#include "tools/bench.h"
#include "tools/model.h"

/* Losses of the first steps, which contestants must agree about: gradients and updates are in the later ones. */
#define BENCH_LOSSES 3

typedef struct bench_training {
    tuff_device *device;
    model_config config;
    int64_t batch;
    language_model model;
    tuff_optimizer *optimizer;
    tuff_array *gradients; /* the whole of them, where only the optimizer runs */
    tuff_array *views[1024];
    int view_count;
    tuff_graph *graph;
    tuff_plan *plan;
    int32_t *windows; /* what every step learns: [batch, context + 1] */
    float losses[BENCH_LOSSES];
    double compile_seconds;
    uint64_t fresh_programs; /* that the driver's compiler made for it: 0 where all were in the cache */
} bench_training;

model_config bench_model_config(const bench *self);
int64_t bench_model_batch(const bench *self);
tuff_optimizer_options bench_optimizer_options(void);
/* The bytes that every contestant learns, [batch, context + 1]. */
void bench_windows(const model_config *config, int64_t batch, int32_t *windows);

/* Adds a step of training; the first BENCH_LOSSES steps are done by then. */
tuff_status bench_training_add(bench *self, bench_work *work, const char *name, tuff_fuse_mode fuse,
                               bench_training **out);
/* Adds the optimizer's part: clipping and update, for gradients that lie in memory. */
tuff_status bench_update_add(bench *self, bench_work *work, const char *name, tuff_fuse_mode fuse);

#endif
