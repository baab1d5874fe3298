/* Plain kernels for tasks whose default must not run. They are chosen without measuring if an earlier process found the
   default wrong or was ended by it; fallback_check.c chooses among them by measuring. */
#include <string.h>

#include "autotune/session.h"

const char *const tuff__fallbacks[] = {"task.family=1", "task.family=1;task.lanes=4", "task.family=2", NULL};

/* Whether the configuration can be lowered, to other kernels than the default. */
static bool is_other_kernel(const tuning_task *task, const tune_config *config)
{
    const tuning_session *self = task->session;
    const tune_config none = {.set = {0}};
    task_estimate defaults, other;
    return tuff__estimate_task(self->device, self->fusion, self->options, task->task, &none, &defaults) == TUFF_OK &&
           tuff__estimate_task(self->device, self->fusion, self->options, task->task, config, &other) == TUFF_OK &&
           defaults.kernels != other.kernels;
}

void tuff__session_avoid_default(tuning_task *task)
{
    const hash128 environment = tuff__hash_text(task->session->environment_text);
    const tune_record *rejection =
        tuff__store_rejection(task->session->store, environment, task->hash, "", task->kernel_hash);
    tune_config config;
    if (tuff__config_count(&task->chosen) > 0 || !tuff__record_rejects(rejection, task->kernel_hash) ||
        strcmp(rejection->reason, "limits") == 0)
        return;
    for (int i = 0; tuff__fallbacks[i] != NULL; ++i)
        if (tuff__config_parse(tuff__fallbacks[i], &config) == TUFF_OK && is_other_kernel(task, &config)) {
            task->chosen = config;
            return;
        }
}
