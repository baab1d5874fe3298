/* The optimizer alone: clipping and AdamW over all parameters of the GPT, with gradients that lie in memory. Counted
   are the parameters and both moments, read and written, and the gradients, read once. */
#include "tools/bench_training.h"

static tuff_status add_forms(bench *self, bench_work *work)
{
    TRY(bench_update_add(self, work, "tuff", TUFF_FUSE_ALL));
    return bench_update_add(self, work, "tuff, unfused", TUFF_FUSE_NONE);
}

tuff_status bench_optimizer(bench *self)
{
    const model_config config = bench_model_config(self);
    const double parameters = (double)model_parameter_count(&config);
    bench_work work;
    if (!bench_begin(self, &work, "optimizer", "AdamW, clipped, %.1f M", parameters * 1e-6))
        return TUFF_OK;
    work.bytes = 7 * 4 * parameters;
    return bench_do(self, &work, add_forms(self, &work));
}
