/* The optimizer alone: clipping and AdamW over all parameters of the GPT, with gradients in memory. Bytes counted: the
   parameters and both moments, read and written, and the gradients, read once. Then AdamW in a single pass over 124
   million parameters. */
#include "tools/bench/training.h"

static tuff_status add_forms(bench *self, bench_work *work, const bench_job *job)
{
    TRY(bench_update_add(self, work, job, "tuff", TUFF_FUSE_ALL));
    return bench_update_add(self, work, job, "tuff, unfused", TUFF_FUSE_NONE);
}

tuff_status bench_optimizer(bench *self)
{
    bench_job job;
    for (int i = 0; bench_job_at(self, i, &job); i++) {
        bench_work work;
        if (!bench_begin(self, &work, "optimizer", "AdamW %s", JOB_TEXT(&job)))
            continue;
        work.bytes = 7 * 4 * (double)model_parameter_count(&job.config);
        TRY(bench_run_work(self, &work, add_forms(self, &work, &job)));
    }
    bench_work work;
    if (!bench_begin(self, &work, "optimizer", "AdamW %.3g M", (double)bench_adamw_parameters(self) * 1e-6))
        return TUFF_OK;
    work.bytes = 7 * 4 * (double)bench_adamw_parameters(self);
    return bench_run_work(self, &work, bench_adamw_add(self, &work));
}
