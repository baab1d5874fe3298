/* The device's limits as implementations of every work. They take part in every round, so that a fraction of the peak
   refers to the peak at that time. */
#include "base/alloc.h"
#include "device/device.h"
#include "measure/peak.h"
#include "tools/bench/bench.h"

typedef struct bench_peak {
    peak *loop;
    bench_kind kind;
    const char *name;
} bench_peak;

static void peak_destroy(bench_peak *self)
{
    if (!self)
        return;
    tuff__peak_destroy(self->loop);
    tuff__free(self);
}

static tuff_status peak_run(void *object, int count, bench_sample *sample)
{
    const bench_peak *self = object;
    (void)sample;
    return tuff__peak_run(self->loop, count);
}

static tuff_status peak_create(bench *self, bench_kind kind, bench_peak **out)
{
    bench_peak *made = *out = tuff__calloc(1, sizeof *made);
    if (!made)
        return TUFF_E_OOM_HOST;
    made->kind = kind;
    made->name = kind == BENCH_FLOPS ? "peak: FMA loop" : "peak: copy 64 MiB";
    return tuff__peak_create(self->device, kind == BENCH_FLOPS ? PEAK_OPERATIONS : PEAK_BYTES, &made->loop);
}

tuff_status bench_peaks_create(bench *self)
{
    if (tuff__device_is_reference(self->device))
        return TUFF_OK;
    TRY(peak_create(self, BENCH_FLOPS, &self->flops));
    return peak_create(self, BENCH_BYTES, &self->copy);
}

void bench_peaks_destroy(bench *self)
{
    peak_destroy(self->flops);
    peak_destroy(self->copy);
    self->flops = self->copy = NULL;
}

tuff_status bench_peaks_add(bench *self, bench_work *work)
{
    bench_peak *const peaks[] = {work->operations > 0 ? self->flops : NULL, work->bytes > 0 ? self->copy : NULL};
    for (int i = 0; i < 2; i++) {
        bench_implementation *item = peaks[i] ? bench_add(work, peaks[i]->kind, peaks[i]->name) : NULL;
        if (peaks[i] && !item)
            return tuff_last_status();
        if (!item)
            continue;
        item->self = peaks[i];
        item->run = peak_run;
        *(peaks[i]->kind == BENCH_FLOPS ? &item->operations : &item->bytes) = tuff__peak_work(peaks[i]->loop);
    }
    return TUFF_OK;
}
