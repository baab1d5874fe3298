/* Lowers and compiles plans whose tasks of one kind have settings of their own. */
#include <stdlib.h>
#include <string.h>

#include "configured_plan.h"

tuff_plan *lower_configured(tuff_graph *graph, const tuff_compile_options *options, task_kind kind,
                            const tune_config *config)
{
    tuff_plan *plan = NULL;
    if (tuff__plan_create(graph, options, NULL, &plan) != TUFF_OK)
        return NULL;
    const tune_config **choices = calloc((size_t)plan->fusion.task_count + 1, sizeof(const tune_config *));
    for (int i = 0; choices != NULL && i < plan->fusion.task_count; i++)
        choices[i] = plan->fusion.tasks[i].kind == kind ? config : NULL;
    launch_list *launches = &plan->executable.launches;
    tuff__launch_list_free(launches);
    const bool good =
        choices != NULL && tuff__lower(graph->device, &plan->fusion, options, choices, launches) == TUFF_OK;
    free(choices);
    if (good)
        return plan;
    tuff_plan_destroy(plan);
    return NULL;
}

tuff_plan *compile_configured(tuff_graph *graph, const tuff_compile_options *options, task_kind kind,
                              const tune_config *config)
{
    tuff_plan *plan = lower_configured(graph, options, kind, config);
    if (plan == NULL || tuff__plan_record(plan) == TUFF_OK)
        return plan;
    tuff_plan_destroy(plan);
    return NULL;
}

bool uses_kernel(const tuff_plan *plan, const char *body, const char *defined)
{
    const launch_list *list = &plan->executable.launches;
    bool found = false;
    for (int i = 0; i < list->launch_count; i++)
        found |= strcmp(list->launches[i].body, body) == 0 && strstr(list->launches[i].defines, defined) != NULL;
    return found;
}

bool uses_body(const tuff_plan *plan, const char *body)
{
    return uses_kernel(plan, body, "");
}
