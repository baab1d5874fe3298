/* The stages of compilation up to planned memory. Where the peak is above the budget, they are gone through again with
   more and more values computed again instead of kept, until it fits; the planner's peak is the judge. */
#include "run/fit.h"

#include "compile/siblings.h"
#include "compile/simplify.h"
#include "run/graph_key.h"

#define MOST_STEPS 16 /* of the first search for how much must be computed again */

typedef struct fitting {
    tuff_plan *plan;
    tuff_graph *source;
    const tuff_compile_options *options;
    int bindings;
    recomputed *ranking;
    int ranked, used; /* used: of the plan as it is */
    uint64_t least;   /* peak so far */
} fitting;

static tuff_status fuse_again(fitting *with)
{
    tuff__fusion_free(&with->plan->fusion);
    return tuff__fuse(with->plan->graph, with->options, with->bindings, &with->plan->passes, &with->plan->fusion);
}

/* The graph as fusion groups it, cheap values computed again. */
static tuff_status prepare(fitting *with)
{
    tuff_plan *plan = with->plan;
    bool changed = false;
    tuff__lowered_free(&plan->made.lowered);
    tuff__fusion_free(&plan->fusion);
    tuff_graph_destroy(plan->graph);
    plan->graph = tuff__simplify(with->source, false);
    if (plan->graph == NULL)
        return tuff_last_status() == TUFF_OK ? TUFF_E_OOM_HOST : tuff_last_status();
    plan->passes.found = (choice){.set = {0}};
    tuff__graph_key(plan->graph, &plan->graph_key);
    if (with->options->fuse == TUFF_FUSE_ALL)
        TRY(tuff__merge_siblings(plan->graph, &plan->passes));
    TRY(tuff__fuse(plan->graph, with->options, with->bindings, &plan->passes, &plan->fusion));
    if (with->options->fuse != TUFF_FUSE_ALL)
        return TUFF_OK;
    TRY(tuff__cut_columns(&plan->fusion, &changed));
    if (changed)
        TRY(fuse_again(with));
    TRY(tuff__recompute(&plan->fusion, &changed));
    return changed ? fuse_again(with) : TUFF_OK;
}

static bool fits(const fitting *with)
{
    const uint64_t budget = with->options->memory_budget;
    return budget == 0 || with->plan->made.lowered.peak <= budget;
}

static tuff_status lower(fitting *with)
{
    tuff_plan *plan = with->plan;
    TRY(tuff__lower(plan->device, &plan->fusion, with->options, NULL, &plan->made.lowered));
    with->least = plan->made.lowered.peak < with->least ? plan->made.lowered.peak : with->least;
    return TUFF_OK;
}

/* Compiles with the first count of the ranking computed again. */
static tuff_status attempt(fitting *with, int count)
{
    TRY(prepare(with));
    TRY(tuff__recompute_ranked(&with->plan->fusion, with->ranking, count));
    TRY(fuse_again(with));
    with->used = count;
    return lower(with);
}

/* Coarse steps up to the first that fits, then halving back to the least that does. */
static tuff_status search(fitting *with)
{
    const int step = (with->ranked + MOST_STEPS - 1) / MOST_STEPS;
    int low = 0, high = 0;
    while (!fits(with) && high < with->ranked) {
        low = high;
        high = high + step < with->ranked ? high + step : with->ranked;
        TRY(attempt(with, high));
    }
    if (!fits(with))
        return FAIL(TUFF_E_LIMIT,
                    "compile: the memory budget is %llu bytes of intermediates, but with all computed again that helps "
                    "the least peak reached is %llu: raise the budget, mark segments with tuff_recompute, or make the "
                    "batch smaller",
                    (unsigned long long)with->options->memory_budget, (unsigned long long)with->least);
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        TRY(attempt(with, middle));
        if (fits(with))
            high = middle;
        else
            low = middle;
    }
    return with->used == high ? TUFF_OK : attempt(with, high);
}

tuff_status tuff__fit(tuff_plan *plan, tuff_graph *source, const tuff_compile_options *options)
{
    const tuff_device_info *info = tuff__device_info(plan->device);
    fitting with = {.plan = plan, .source = source, .options = options, .least = UINT64_MAX};
    with.bindings =
        (int)(info->max_bindings == 0 || info->max_bindings > MAX_BINDINGS ? MAX_BINDINGS : info->max_bindings);
    TRY(prepare(&with));
    /* What a budget asks for comes before what is fast. */
    if (tuff__choice_count(&plan->passes.found) + tuff__choice_count(&plan->passes.by) == 0 ||
        options->fuse != TUFF_FUSE_ALL || options->memory_budget > 0)
        plan->graph_key.family[0] = '\0';
    TRY(lower(&with));
    if (fits(&with))
        return TUFF_OK;
    tuff_status status = tuff__rank_recomputed(&plan->fusion, &with.ranking, &with.ranked);
    if (status == TUFF_OK)
        status = search(&with);
    tuff__free(with.ranking);
    return status;
}
