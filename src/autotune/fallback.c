/* Kernels for tasks whose default must not run: plain ones, which are chosen without measuring where an earlier process
   found the default wrong, or died of it. */
#include <string.h>

#include "autotune/session.h"

const char *const tuff__fallbacks[] = {"task.family=1", "task.family=1;task.lanes=4", "task.family=2", NULL};

/* What another kernel than the default is made of, if it can be. */
static bool is_other_kernel(const tuning_task *of, const tune_config *what)
{
    const tuning_session *self = of->session;
    const tune_config none = {.set = {0}};
    task_estimate usual, other;
    return tuff__estimate_task(self->device, self->fusion, self->options, of->task, &none, &usual) == TUFF_OK &&
           tuff__estimate_task(self->device, self->fusion, self->options, of->task, what, &other) == TUFF_OK &&
           usual.kernels != other.kernels;
}

void tuff__session_avoid_default(tuning_task *of)
{
    const hash128 environment = tuff__hash_text(of->session->environment_text);
    const tune_record *bad = tuff__store_bad(of->session->store, environment, of->hash, "", of->generator);
    tune_config what;
    if (tuff__config_count(&of->chosen) > 0 || !tuff__record_bars(bad, of->generator) ||
        strcmp(bad->reason, "limits") == 0)
        return;
    for (int i = 0; tuff__fallbacks[i] != NULL; ++i)
        if (tuff__config_parse(tuff__fallbacks[i], &what) == TUFF_OK && is_other_kernel(of, &what)) {
            of->chosen = what;
            return;
        }
}
