/* tuff bench: suites of works, each done by several implementations on the same inputs, round by round in turns, so
   that whatever else the machine does meets all of them alike. bench.c is the verb, bench_measure.c the clock,
   bench_report.c the tables; a suite is a file of its own that builds works and hands them to bench_do. */
#ifndef TUFF_TOOLS_BENCH_BENCH_H
#define TUFF_TOOLS_BENCH_BENCH_H

#include <stdio.h>

#include "base/status.h"
#include "tools/cli/cli.h"
#include "tools/tune/tuning.h"

#define BENCH_IMPLEMENTATIONS 12
#define BENCH_FACTS 24
/* What results may differ by where one rounds to 16 bits, relative to the largest. */
#define NARROW_TOLERANCE 0.05

/* One sample: what count runs took, wall clock and time of all processors. */
typedef struct bench_sample {
    double seconds, processor;
} bench_sample;

/* Over the rounds, of one run, in seconds. spread: the distance of the quartiles over the median. */
typedef struct bench_figures {
    double median, minimum, spread, processor;
} bench_figures;

typedef enum bench_kind {
    BENCH_OURS,  /* tuff, compiled one way or another */
    BENCH_PEER,  /* somebody else's */
    BENCH_FLOPS, /* the arithmetic the device can do: an FMA loop */
    BENCH_BYTES  /* the bytes it can move: a copy */
} bench_kind;

/* Somebody who does a work. */
typedef struct bench_implementation {
    char name[64];
    bench_kind kind;
    double operations, bytes; /* of one run; those of the work where 0 */
    /* Does the work count times and waits for the end. One that keeps time itself fills sample, else it stays 0. */
    tuff_status (*run)(void *self, int count, bench_sample *sample);
    tuff_status (*read)(void *self, float *values, int64_t count); /* the result of the last run; NULL: not compared */
    void (*destroy)(void *self);
    void *self;
    /* Filled by bench_do. */
    int repeat, rounds;
    bench_sample *samples; /* one a round, per run */
    bench_figures figures;
    double ratio;              /* its time over that of the first implementation, median of the rounds */
    double of_flops, of_bytes; /* of the device's peak, median of the rounds; 0: not known */
} bench_implementation;

/* A number that belongs to a work but is no time: dispatches, bytes. */
typedef struct bench_fact {
    char name[64];
    double value;
    const char *unit; /* "", "B", "s", "%" */
} bench_fact;

typedef struct bench_work {
    const char *suite;
    char name[64];
    double operations, bytes; /* of one run: floating-point operations; bytes that must move, each once */
    bench_implementation items[BENCH_IMPLEMENTATIONS];
    int count;
    int64_t result_count; /* values that all implementations must agree about */
    double tolerance;     /* on them, relative to the largest; 0: 1e-4 */
    bench_fact facts[BENCH_FACTS];
    int fact_count;
} bench_work;

struct bench_peak; /* bench_peak.c */
struct bench_peer; /* bench_peer.c */

typedef enum bench_format { BENCH_TEXT, BENCH_JSON } bench_format;

typedef struct bench {
    cli_texts suites, wanted, skipped, peer_commands;
    const char *device_name, *markdown_path, *clblast_folder, *graph; /* graph: a file; NULL: none */
    int64_t round_count;
    bool quick, json;
    int precision; /* a tuff_precision: of plans, and of the operands of matmuls and attention; names tell it */
    tuning tune; /* of the implementations "tuff, tuned": none below TUFF_TUNE_QUICK */
    tuff_device *device;
    tuff_device_info info;
    struct bench_peak *flops, *copy; /* NULL on the reference device */
    struct bench_peer *peers;        /* one a --peer */
    int peer_count;
    FILE *markdown; /* NULL without --markdown */
    int printed;    /* works */
    const char *last_suite;
} bench;

/* bench_measure.c: measures a work and reports it; frees its implementations, whatever the result. built: what building
   them answered; a failure there is handed on. */
tuff_status bench_do(bench *self, bench_work *work, tuff_status built);
/* Starts a work; false where --only leaves it out. */
bool bench_begin(const bench *self, bench_work *work, const char *suite, const char *format, ...) PRINTF_LIKE(4, 5);
/* A new implementation with a name, or NULL with a message where there is no room. */
bench_implementation *bench_add(bench_work *work, bench_kind kind, const char *name);
void bench_add_fact(bench_work *work, const char *name, double value, const char *unit);
/* The seconds that a sample is to take. */
double bench_sample_seconds(const bench *self);

/* Values in [-1, 1) that depend on nothing but seed and index, the same for every implementation; bench/peers has
   the same function. */
float bench_value(uint32_t seed, int64_t index);
void bench_fill(float *values, int64_t count, uint32_t seed);

/* bench_report.c */
void bench_report_begin(bench *self);
void bench_report_work(bench *self, const bench_work *work);
void bench_report_end(bench *self);

/* bench_peak.c: the device's limits as implementations of every work. */
tuff_status bench_peaks_create(bench *self);
void bench_peaks_destroy(bench *self);
tuff_status bench_peaks_add(bench *self, bench_work *work);

/* bench_blas.c: C = A · B, row-major, A [m,k] or stored [k,m], B [k,n] or stored [n,k]. Adds nothing
   where the library is absent, which bench_blas_absence tells. */
typedef struct bench_product {
    int64_t m, n, k;
    bool a_transposed, b_transposed;
} bench_product;
tuff_status bench_blas_add(bench_work *work, const bench_product *product);
const char *bench_blas_absence(void); /* NULL where it is there */
/* bench_plan.c */
const char *bench_clblast_absence(const bench *self);
/* bench_clblast.c: CLBlast gets the parameters that its tuners left in the folder. */
tuff_status bench_clblast_tune(const bench *self, const char *folder);

/* bench_peer.c: other programs as implementations. */
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
