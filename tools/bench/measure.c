/* The timing of tuff bench. Implementations warm up, have their results compared, and are then sampled in turns. A
   ratio is the median over the rounds of the ratios within a round, so that slow phases of the machine cancel out. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "tools/bench/bench.h"

/* An implementation with longer runs gets fewer rounds. */
#define SLOW_SECONDS 10.0
#define SLOW_ROUNDS 3
#define MAX_REPEATS 2000

float bench_value(uint32_t seed, int64_t index)
{
    uint32_t bits = (uint32_t)index * 2654435761u + seed * 2246822519u;
    bits ^= bits >> 15;
    bits *= 2246822519u;
    bits ^= bits >> 13;
    return (float)(bits >> 8) * (1.0f / 8388608.0f) - 1.0f;
}

void bench_fill(float *values, int64_t count, uint32_t seed)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = bench_value(seed, i);
}

bool bench_begin(const bench *self, bench_work *work, const char *suite, const char *format, ...)
{
    static const char *const names[] = {
        [TUFF_PRECISION_F32] = "", [TUFF_PRECISION_F16] = " f16", [TUFF_PRECISION_BF16] = " bf16"};
    va_list list;
    *work = (bench_work){.suite = suite, .tolerance = self->precision == TUFF_PRECISION_F32 ? 0 : NARROW_TOLERANCE};
    va_start(list, format);
    vsnprintf(work->name, sizeof work->name, format, list);
    va_end(list);
    const size_t length = strlen(work->name);
    snprintf(work->name + length, sizeof work->name - length, "%s", names[self->precision]);
    return self->wanted.count == 0 || cli_is_any_part(&self->wanted, work->name);
}

bench_implementation *bench_add(bench_work *work, bench_kind kind, const char *name)
{
    if (work->count == BENCH_IMPLEMENTATIONS) {
        FAIL(TUFF_E_LIMIT, "bench: a work has at most %d implementations", BENCH_IMPLEMENTATIONS);
        return NULL;
    }
    bench_implementation *item = &work->items[work->count++];
    *item = (bench_implementation){.kind = kind, .operations = work->operations, .bytes = work->bytes};
    snprintf(item->name, sizeof item->name, "%s", name);
    return item;
}

void bench_add_fact(bench_work *work, const char *name, double value, const char *unit)
{
    if (work->fact_count == BENCH_FACTS)
        return;
    bench_fact *fact = &work->facts[work->fact_count++];
    snprintf(fact->name, sizeof fact->name, "%s", name);
    fact->value = value;
    fact->unit = unit;
}

static void free_implementations(bench_work *work)
{
    for (int i = 0; i < work->count; i++) {
        if (work->items[i].destroy)
            work->items[i].destroy(work->items[i].self);
        tuff__free(work->items[i].samples);
    }
}

/* Target duration of a sample. */
static double sample_seconds(const bench *self)
{
    return self->quick ? 2e-3 : 20e-3;
}

static double processor_seconds(void)
{
    return (double)clock() / (double)CLOCKS_PER_SEC;
}

static tuff_status take_sample(bench_implementation *item, int count, bench_sample *out)
{
    bench_sample kept = {0};
    const double processor = processor_seconds();
    const uint64_t begin = tuff__nanoseconds();
    TRY(item->run(item->self, count, &kept));
    const double seconds = tuff__seconds_since(begin);
    if (kept.seconds <= 0)
        kept = (bench_sample){.seconds = seconds, .processor = processor_seconds() - processor};
    *out = (bench_sample){kept.seconds / count, kept.processor / count};
    return TUFF_OK;
}

/* The first run meets cold pages and may include late compilation by the driver; the next one determines how many runs
   make a sample. */
static tuff_status warm_up(const bench *self, bench_implementation *item)
{
    bench_sample one;
    TRY(take_sample(item, 1, &one));
    if (one.seconds < 1)
        TRY(take_sample(item, 1, &one));
    const double count = ceil(sample_seconds(self) / fmax(one.seconds, 1e-9));
    item->repeat = count < 1 ? 1 : count > MAX_REPEATS ? MAX_REPEATS : (int)count;
    item->rounds = (int)self->round_count;
    if (one.seconds > SLOW_SECONDS && item->rounds > SLOW_ROUNDS)
        item->rounds = SLOW_ROUNDS;
    item->samples = tuff__calloc((size_t)item->rounds, sizeof *item->samples);
    return item->samples ? TUFF_OK : TUFF_E_OOM_HOST;
}

static tuff_status compare(const bench_work *work, const bench_implementation *item, const float *wanted,
                           const float *got)
{
    const double tolerance = work->tolerance > 0 ? work->tolerance : 1e-4;
    double largest = 0, worst = 0;
    for (int64_t i = 0; i < work->result_count; i++) {
        const double apart = fabs((double)wanted[i] - (double)got[i]);
        largest = fmax(largest, fabs((double)wanted[i]));
        if (!isnan(worst) && !(apart <= worst))
            worst = apart;
    }
    if (isfinite(worst) && worst <= tolerance * largest)
        return TUFF_OK;
    return FAIL(TUFF_E_NUMERIC, "%s: the results of \"%s\" and \"%s\" differ by %.3g, largest value %.3g", work->name,
                work->items[0].name, item->name, worst, largest);
}

static tuff_status compare_all(const bench_work *work, float *wanted, float *got)
{
    const bench_implementation *first = NULL;
    for (int i = 0; i < work->count; i++) {
        const bench_implementation *item = &work->items[i];
        if (!item->read)
            continue;
        TRY(item->read(item->self, first ? got : wanted, work->result_count));
        if (first)
            TRY(compare(work, item, wanted, got));
        else
            first = item;
    }
    return TUFF_OK;
}

/* Compares the results: the time of a wrong result is meaningless. */
static tuff_status check_results(const bench_work *work)
{
    if (work->result_count == 0)
        return TUFF_OK;
    float *wanted = tuff__alloc((size_t)work->result_count * sizeof *wanted);
    float *got = tuff__alloc((size_t)work->result_count * sizeof *got);
    const tuff_status status = wanted && got ? compare_all(work, wanted, got) : TUFF_E_OOM_HOST;
    tuff__free(wanted);
    tuff__free(got);
    return status;
}

/* Takes the samples. The order alternates between rounds, so that no implementation always follows the same one. For
   short works an untimed run precedes each sample, because threads of the previous implementation may still spin and
   its data is in the caches. */
static tuff_status run_rounds(bench *self, bench_work *work)
{
    for (int round = 0; round < self->round_count; round++)
        for (int i = 0; i < work->count; i++) {
            bench_implementation *item = &work->items[round % 2 == 0 ? i : work->count - 1 - i];
            bench_sample ignored;
            if (round >= item->rounds)
                continue;
            if (cli_is_interrupted())
                return FAIL(TUFF_E_USAGE, "interrupted");
            if (item->repeat > 1 && item->kind != BENCH_PEER)
                TRY(take_sample(item, 1, &ignored));
            TRY(take_sample(item, item->repeat, &item->samples[round]));
        }
    return TUFF_OK;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the quantile `part` (0 to 1) of sorted values, interpolated linearly. */
static double quantile(const double *sorted, int count, double part)
{
    const double at = part * (count - 1);
    const int below = (int)at;
    const int above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

static void summarize(bench_implementation *item, double *values)
{
    for (int i = 0; i < item->rounds; i++)
        values[i] = item->samples[i].processor;
    qsort(values, (size_t)item->rounds, sizeof *values, by_value);
    item->figures.processor = quantile(values, item->rounds, 0.5);
    for (int i = 0; i < item->rounds; i++)
        values[i] = item->samples[i].seconds;
    qsort(values, (size_t)item->rounds, sizeof *values, by_value);
    item->figures.median = quantile(values, item->rounds, 0.5);
    item->figures.minimum = values[0];
    item->figures.spread =
        (quantile(values, item->rounds, 0.75) - quantile(values, item->rounds, 0.25)) / item->figures.median;
}

/* Median over the common rounds of the ratio of item's time to other's. */
static double ratio_of(const bench_implementation *item, const bench_implementation *other, double *values)
{
    const int count = item->rounds < other->rounds ? item->rounds : other->rounds;
    for (int i = 0; i < count; i++)
        values[i] = item->samples[i].seconds / other->samples[i].seconds;
    qsort(values, (size_t)count, sizeof *values, by_value);
    return quantile(values, count, 0.5);
}

static void compute_ratios(const bench_work *work, bench_implementation *item, double *values)
{
    item->ratio = ratio_of(item, &work->items[0], values);
    for (int i = 0; i < work->count; i++) {
        const bench_implementation *peak = &work->items[i];
        if (peak->kind == BENCH_FLOPS)
            item->flops_fraction = item->operations / peak->operations / ratio_of(item, peak, values);
        if (peak->kind == BENCH_BYTES)
            item->bytes_fraction = item->bytes / peak->bytes / ratio_of(item, peak, values);
    }
}

static tuff_status evaluate(const bench *self, bench_work *work)
{
    double *values = tuff__alloc((size_t)self->round_count * sizeof *values);
    if (!values)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < work->count; i++)
        summarize(&work->items[i], values);
    for (int i = 0; i < work->count; i++)
        compute_ratios(work, &work->items[i], values);
    tuff__free(values);
    return TUFF_OK;
}

/* Removes skipped implementations, except the first, which the others are compared with. */
static void remove_skipped(const bench *self, bench_work *work)
{
    int kept = 1;
    for (int i = 1; i < work->count; i++) {
        bench_implementation *item = &work->items[i];
        if (!cli_is_any_part(&self->skipped, item->name))
            work->items[kept++] = *item;
        else if (item->destroy)
            item->destroy(item->self);
    }
    work->count = kept;
}

static tuff_status measure(bench *self, bench_work *work)
{
    TRY(bench_peers_add(self, work));
    remove_skipped(self, work);
    TRY(bench_peaks_add(self, work));
    for (int i = 0; i < work->count; i++)
        TRY(warm_up(self, &work->items[i]));
    TRY(check_results(work));
    TRY(run_rounds(self, work));
    return evaluate(self, work);
}

tuff_status bench_run_work(bench *self, bench_work *work, tuff_status built)
{
    const tuff_status status = built == TUFF_OK ? measure(self, work) : built;
    if (status == TUFF_OK)
        bench_report_work(self, work);
    free_implementations(work);
    return status;
}
