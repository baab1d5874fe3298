/* Runs the stages of compilation up to planned memory. While the planned peak exceeds the budget, they run again with
   more values recomputed instead of kept. */
#include "compile/fit.h"

#include "compile/rewrite/matmul_merge.h"
#include "compile/rewrite/narrow_sources.h"
#include "compile/rewrite/separate_parts.h"
#include "compile/rewrite/simplify.h"

#define MAX_STEPS 16 /* attempts in the coarse search for how much must be recomputed */

typedef struct fit_state {
    tuff_device *device;
    tuff_graph *source;
    const tuff_compile_options *options;
    compilation_result result;
    int bindings;
    recomputed *ranking;
    int ranked, used; /* used: values of the ranking that the current launches recompute */
    uint64_t least;   /* lowest peak so far */
} fit_state;

static tuff_status fuse_again(fit_state *self)
{
    tuff__fusion_free(self->result.fusion);
    return tuff__fuse(*self->result.graph, self->options, self->bindings, self->result.passes, self->result.fusion);
}

/* Simplifies and fuses the source, with cheap values recomputed. */
static tuff_status prepare(fit_state *self)
{
    const compilation_result *result = &self->result;
    bool changed = false;
    tuff__launch_list_free(result->launches);
    tuff__fusion_free(result->fusion);
    tuff_graph_destroy(*result->graph);
    *result->graph = tuff__simplify(self->source, false);
    if (*result->graph == NULL)
        return tuff__failure_status();
    result->passes->possible = (tune_config){.set = {0}};
    if (self->options->fuse == TUFF_FUSE_ALL)
        TRY(tuff__merge_matmuls(*result->graph, self->options, result->passes));
    TRY(tuff__separate_parts(*result->graph));
    TRY(tuff__narrow_sources(*result->graph, self->options->precision));
    TRY(tuff__fuse(*result->graph, self->options, self->bindings, result->passes, result->fusion));
    if (self->options->fuse != TUFF_FUSE_ALL)
        return TUFF_OK;
    TRY(tuff__cut_columns(result->fusion, &changed));
    if (changed)
        TRY(fuse_again(self));
    TRY(tuff__recompute(result->fusion, &changed));
    return changed ? fuse_again(self) : TUFF_OK;
}

static bool fits(const fit_state *self)
{
    const uint64_t budget = self->options->memory_budget;
    return budget == 0 || self->result.launches->peak <= budget;
}

static tuff_status lower(fit_state *self)
{
    launch_list *launches = self->result.launches;
    TRY(tuff__lower(self->device, self->result.fusion, self->options, NULL, launches));
    self->least = launches->peak < self->least ? launches->peak : self->least;
    return TUFF_OK;
}

/* Compiles with the first count values of the ranking recomputed. */
static tuff_status attempt(fit_state *self, int count)
{
    TRY(prepare(self));
    TRY(tuff__recompute_ranked(self->result.fusion, self->ranking, count));
    TRY(fuse_again(self));
    self->used = count;
    return lower(self);
}

/* Takes coarse steps up to the first count that fits, then finds the smallest one by binary search. */
static tuff_status search(fit_state *self)
{
    const int step = (self->ranked + MAX_STEPS - 1) / MAX_STEPS;
    int low = 0, high = 0;
    while (!fits(self) && high < self->ranked) {
        low = high;
        high = high + step < self->ranked ? high + step : self->ranked;
        TRY(attempt(self, high));
    }
    if (!fits(self))
        return FAIL(
            TUFF_E_LIMIT,
            "compile: the memory budget is %llu bytes, but the lowest peak of intermediates with recomputation is "
            "%llu bytes: raise the budget, mark segments with tuff_recompute, or use smaller batches",
            (unsigned long long)self->options->memory_budget, (unsigned long long)self->least);
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        TRY(attempt(self, middle));
        if (fits(self))
            high = middle;
        else
            low = middle;
    }
    return self->used == high ? TUFF_OK : attempt(self, high);
}

tuff_status tuff__compile_within_budget(tuff_device *device, tuff_graph *source, const tuff_compile_options *options,
                                        compilation_result result)
{
    const uint32_t bindings = tuff__device_info(device)->max_bindings;
    fit_state self = {.device = device, .source = source, .options = options, .result = result, .least = UINT64_MAX};
    self.bindings = (int)(bindings == 0 || bindings > MAX_BINDINGS ? MAX_BINDINGS : bindings);
    TRY(prepare(&self));
    TRY(lower(&self));
    if (fits(&self))
        return TUFF_OK;
    tuff_status status = tuff__rank_recomputed(result.fusion, &self.ranking, &self.ranked);
    if (status == TUFF_OK)
        status = search(&self);
    tuff__free(self.ranking);
    return status;
}
