/* tuff bench: suites of works. Each work is done by several implementations on the same inputs, in turns, round by
   round, so that other load on the machine affects all of them alike. bench.c is the verb, measure.c does the timing,
   report.c prints the tables; each suite is a file that builds works and passes them to bench_run_work. */
#ifndef TUFF_TOOLS_BENCH_BENCH_H
#define TUFF_TOOLS_BENCH_BENCH_H

#include <stdio.h>

#include "base/status.h"
#include "tools/cli/cli.h"
#include "tools/tune/tuning.h"

#define BENCH_IMPLEMENTATIONS 12
#define BENCH_FACTS 24
/* Allowed difference between results, relative to the largest, if values are rounded to 16 bits. */
#define NARROW_TOLERANCE 0.05

/* One sample: the time of `count` runs, on the wall clock and summed over all processors. */
typedef struct bench_sample {
    double seconds, processor;
} bench_sample;

/* Per run, over the rounds, in seconds. spread: interquartile range divided by the median. */
typedef struct bench_figures {
    double median, minimum, spread, processor;
} bench_figures;

typedef enum bench_kind {
    BENCH_TUFF,  /* tuff, compiled one way or another */
    BENCH_PEER,  /* other software */
    BENCH_FLOPS, /* the device's peak arithmetic rate: an FMA loop */
    BENCH_BYTES  /* the device's peak memory bandwidth: a copy */
} bench_kind;

/* One way of doing a work. */
typedef struct bench_implementation {
    char name[64];
    bench_kind kind;
    double operations, bytes; /* of one run: those of the work, except for peaks */
    /* Does the work `count` times and waits for the end. Fills *sample if it measures the time itself, else leaves it
       0. */
    tuff_status (*run)(void *self, int count, bench_sample *sample);
    tuff_status (*read)(void *self, float *values, int64_t count); /* result of the last run; NULL: not compared */
    void (*destroy)(void *self);
    void *self;
    /* Filled by bench_run_work. */
    int repeat, rounds;
    bench_sample *samples; /* one per round, averaged per run */
    bench_figures figures;
    double ratio; /* its time divided by that of the first implementation, median of the rounds */
    double flops_fraction, bytes_fraction; /* fractions of the device's peaks, medians of the rounds; 0: unknown */
} bench_implementation;

/* A number reported with a work besides its times, such as dispatches or bytes. */
typedef struct bench_fact {
    char name[64];
    double value;
    const char *unit; /* "", "B", "s", "%" */
} bench_fact;

typedef struct bench_work {
    const char *suite;
    char name[64];
    double operations, bytes; /* of one run: floating-point operations; bytes that must be moved, each counted once */
    bench_implementation items[BENCH_IMPLEMENTATIONS];
    int count;
    int64_t result_count; /* number of values that all implementations must agree on */
    double tolerance;     /* of these values, relative to the largest; 0: 1e-4 */
    bench_fact facts[BENCH_FACTS];
    int fact_count;
} bench_work;

struct bench_peak; /* peak.c */
struct bench_peer; /* peer.c */

typedef struct bench {
    cli_strings suites, wanted, skipped, peer_commands;
    const char *device_name, *markdown_path, *clblast_folder, *graph; /* graph: a graph file; NULL: none */
    int64_t round_count;
    bool quick, json;
    int precision; /* a tuff_precision: of plans and of operands; part of a work's name */
    bool has_precision; /* it was given, so that of a graph file is ignored */
    tuning tune;   /* of the implementations "tuff, tuned"; they are left out below TUFF_TUNE_QUICK */
    tuff_device *device;
    tuff_device_info info;
    struct bench_peak *flops, *copy; /* NULL on the reference device */
    struct bench_peer *peers;        /* one per --peer */
    int peer_count;
    FILE *markdown; /* NULL without --markdown */
    int printed;    /* number of works reported */
    const char *last_suite;
} bench;

/* measure.c: measures a work, reports it, and always frees its implementations. built: the status of building them; if
   it is an error, nothing is measured and the error is returned. */
tuff_status bench_run_work(bench *self, bench_work *work, tuff_status built);
/* Starts a work. Returns false if --only excludes it. */
bool bench_begin(const bench *self, bench_work *work, const char *suite, const char *format, ...) PRINTF_LIKE(4, 5);
/* Adds an implementation of a work whose amounts are known. Returns NULL, after FAIL, if there are too many. */
bench_implementation *bench_add(bench_work *work, bench_kind kind, const char *name);
void bench_add_fact(bench_work *work, const char *name, double value, const char *unit);

/* Values in [-1, 1) that depend only on seed and index, so that they are the same for every implementation; bench/peers
   has the same function. */
float bench_value(uint32_t seed, int64_t index);
void bench_fill(float *values, int64_t count, uint32_t seed);

/* report.c */
void bench_report_begin(bench *self);
void bench_report_work(bench *self, const bench_work *work);
void bench_report_end(bench *self);

/* peak.c: the device's limits as implementations of every work. */
tuff_status bench_peaks_create(bench *self);
void bench_peaks_destroy(bench *self);
tuff_status bench_peaks_add(bench *self, bench_work *work);

/* blas.c: C = A · B, row-major; A is [m,k] or stored as [k,m], B is [k,n] or stored as [n,k]. Adds nothing if no
   library is found; bench_blas_missing_reason says why. */
typedef struct bench_product {
    int64_t m, n, k;
    bool a_transposed, b_transposed;
} bench_product;
tuff_status bench_blas_add(bench_work *work, const bench_product *product);
const char *bench_blas_missing_reason(void); /* NULL if a library was found */
/* plan.c */
const char *bench_clblast_missing_reason(const bench *self);
/* clblast.c: applies the parameters that CLBlast's tuners left in the folder. */
tuff_status bench_clblast_tune(const bench *self, const char *folder);

/* peer.c: other programs as implementations. */
tuff_status bench_peers_start(bench *self);
void bench_peers_end(bench *self);
tuff_status bench_peers_add(bench *self, bench_work *work);

/* The suites. */
tuff_status bench_matmul(bench *self);
tuff_status bench_attention(bench *self);
tuff_status bench_norms(bench *self);
tuff_status bench_elementwise(bench *self);
tuff_status bench_optimizer(bench *self);
tuff_status bench_gpt(bench *self);
tuff_status bench_graph(bench *self);
tuff_status bench_launch(bench *self);

#endif
