/* A tuner that decides nothing. */
#include "autotune/plan_tasks.h"

#include "autotune/session.h"

struct plan_tasks {
    tuning_session of;
    tuff_compile_options options;
};

static tuff_status begin(plan_tasks *self)
{
    tuning_session *session = &self->of;
    tuff__environment_of(tuff__device_info(session->device), &session->environment);
    tuff__environment_text(&session->environment, session->environment_text);
    TRY(tuff__tune_gather(session->environment_text, false, &session->stores));
    session->store = session->stores.items[0];
    TRY(tuff__session_find(session));
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
    self->of = (tuning_session){
        .fusion = &plan->fusion, .options = &self->options, .device = plan->device, .log = -1, .limit = UINT64_MAX};
    self->of.begin = tuff__nanoseconds();
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
    for (int i = 0; i < self->of.subject_count; ++i)
        tuff__evaluator_clear(&self->of.subjects[i]);
    tuff__journal_close(self->of.journal);
    tuff__tune_release(&self->of.stores);
    tuff__free(self->of.subjects);
    tuff__free(self->of.subject_of);
    tuff__free(self);
}

int tuff__plan_tasks_count(const plan_tasks *self)
{
    return self->of.subject_count;
}

const tune_key *tuff__plan_tasks_key(const plan_tasks *self, int index)
{
    return &self->of.subjects[index].key;
}

const tune_environment *tuff__plan_tasks_environment(const plan_tasks *self)
{
    return &self->of.environment;
}

evaluator tuff__plan_tasks_judge(plan_tasks *self, int index)
{
    return tuff__evaluator_of(&self->of.subjects[index]);
}

void tuff__plan_tasks_clear(plan_tasks *self, int index)
{
    tuff__evaluator_clear(&self->of.subjects[index]);
}
