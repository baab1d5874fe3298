/* A tuner that decides nothing. */
#include "autotune/plan_tasks.h"

#include "autotune/session.h"

struct plan_subjects {
    tuner of;
    tuff_compile_options options;
};

static tuff_status begin(plan_subjects *self)
{
    tuner *of = &self->of;
    tuff__environment_of(tuff__device_info(of->device), &of->environment);
    tuff__environment_text(&of->environment, of->environment_text);
    TRY(tuff__tune_gather(of->environment_text, false, &of->stores));
    of->store = of->stores.items[0];
    TRY(tuff__tuner_find(of));
    return tuff__tuner_open_journal(of);
}

tuff_status tuff__subjects_create(tuff_plan *plan, plan_subjects **out)
{
    *out = NULL;
    if (plan->reference != NULL)
        return FAIL(TUFF_E_UNSUPPORTED, "tune: the reference device has no kernels to tune");
    plan_subjects *self = tuff__calloc(1, sizeof *self);
    if (self == NULL)
        return TUFF_E_OOM_HOST;
    self->options = (tuff_compile_options){.fuse = TUFF_FUSE_ALL};
    self->of = (tuner){
        .fusion = &plan->fusion, .options = &self->options, .device = plan->device, .log = -1, .limit = UINT64_MAX};
    self->of.begin = tuff__nanoseconds();
    const tuff_status status = begin(self);
    if (status != TUFF_OK) {
        tuff__subjects_destroy(self);
        return status;
    }
    *out = self;
    return TUFF_OK;
}

void tuff__subjects_destroy(plan_subjects *self)
{
    if (self == NULL)
        return;
    for (int i = 0; i < self->of.subject_count; ++i)
        tuff__judge_clear(&self->of.subjects[i]);
    tuff__journal_close(self->of.journal);
    tuff__tune_release(&self->of.stores);
    tuff__free(self->of.subjects);
    tuff__free(self->of.subject_of);
    tuff__free(self);
}

int tuff__subjects_count(const plan_subjects *self)
{
    return self->of.subject_count;
}

const tune_key *tuff__subjects_key(const plan_subjects *self, int index)
{
    return &self->of.subjects[index].key;
}

const tune_environment *tuff__subjects_environment(const plan_subjects *self)
{
    return &self->of.environment;
}

judge tuff__subjects_judge(plan_subjects *self, int index)
{
    return tuff__judge_of(&self->of.subjects[index]);
}

void tuff__subjects_clear(plan_subjects *self, int index)
{
    tuff__judge_clear(&self->of.subjects[index]);
}
