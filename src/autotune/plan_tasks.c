/* A session without searches and stores of winners, for tools that choose candidates themselves. */
#include "autotune/plan_tasks.h"

#include "autotune/session.h"

struct plan_tasks {
    tuning_session session;
    tuff_compile_options options;
};

static tuff_status begin(plan_tasks *self)
{
    tuning_session *session = &self->session;
    tuff__environment_from_info(tuff__device_info(session->device), &session->environment);
    tuff__environment_text(&session->environment, session->environment_text);
    TRY(tuff__tune_open_stores(session->environment_text, false, &session->stores));
    session->store = session->stores.items[0];
    TRY(tuff__session_find_keys(session));
    return tuff__session_open_journal(session);
}

tuff_status tuff__plan_tasks_create(tuff_plan *plan, plan_tasks **out)
{
    *out = NULL;
    if (plan->reference != NULL)
        return FAIL(TUFF_E_UNSUPPORTED, "tune: the reference device has no kernels to tune");
    plan_tasks *self = tuff__calloc(1, sizeof *self);
    if (self == NULL)
        return TUFF_E_OOM_HOST;
    self->options = (tuff_compile_options){.fuse = TUFF_FUSE_ALL};
    self->session = (tuning_session){
        .fusion = &plan->fusion, .options = &self->options, .device = plan->device, .log = -1, .limit = UINT64_MAX};
    self->session.begin = tuff__nanoseconds();
    const tuff_status status = begin(self);
    if (status != TUFF_OK) {
        tuff__plan_tasks_destroy(self);
        return status;
    }
    *out = self;
    return TUFF_OK;
}

void tuff__plan_tasks_destroy(plan_tasks *self)
{
    if (self == NULL)
        return;
    for (int i = 0; i < self->session.task_count; ++i)
        tuff__evaluator_clear(&self->session.tasks[i]);
    tuff__session_close_own_device(&self->session);
    tuff__journal_close(self->session.journal);
    tuff__tune_close_stores(&self->session.stores);
    tuff__free(self->session.tasks);
    tuff__free(self->session.task_index);
    tuff__free(self);
}

int tuff__plan_tasks_count(const plan_tasks *self)
{
    return self->session.task_count;
}

const tune_key *tuff__plan_tasks_key(const plan_tasks *self, int index)
{
    return &self->session.tasks[index].key;
}

const tune_environment *tuff__plan_tasks_environment(const plan_tasks *self)
{
    return &self->session.environment;
}

evaluator tuff__plan_tasks_evaluator(plan_tasks *self, int index)
{
    return tuff__evaluator_for_task(&self->session.tasks[index]);
}

void tuff__plan_tasks_clear(plan_tasks *self, int index)
{
    tuff__evaluator_clear(&self->session.tasks[index]);
}
