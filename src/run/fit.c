/* A plan's compilation, and the key of its graph before that is rewritten. */
#include "run/fit.h"

#include "compile/fit.h"
#include "compile/rewrite/simplify.h"
#include "run/graph_key.h"

static tuff_status find_graph_key(tuff_graph *source, tune_key *out)
{
    tuff_graph *simple = tuff__simplify(source, false);
    if (simple == NULL)
        return tuff__last_status() == TUFF_OK ? TUFF_E_OOM_HOST : tuff__last_status();
    tuff__graph_key(simple, out);
    tuff_graph_destroy(simple);
    return TUFF_OK;
}

tuff_status tuff__fit_plan(tuff_plan *plan, tuff_graph *source, const tuff_compile_options *options)
{
    TRY(tuff__fit(plan->device, source, options,
                  (fit_result){&plan->graph, &plan->fusion, &plan->passes, &plan->made.lowered}));
    /* What a budget asks for comes before what is fast. */
    if (tuff__choice_count(&plan->passes.found) + tuff__choice_count(&plan->passes.by) == 0 ||
        options->fuse != TUFF_FUSE_ALL || options->memory_budget > 0) {
        plan->graph_key.family[0] = '\0';
        return TUFF_OK;
    }
    return find_graph_key(source, &plan->graph_key);
}
