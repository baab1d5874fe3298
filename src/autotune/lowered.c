/* The lowered candidates of a session that wait to be compiled: a short list, most recently used first. */
#include "autotune/lowered.h"

#include <string.h>

#include "base/alloc.h"

void tuff__lowered_free(lowered_candidate *self)
{
    if (self == NULL)
        return;
    tuff__launch_list_free(&self->launches);
    tuff__free(self);
}

/* Returns the index of the launches kept for a configuration, or -1. */
static int find_kept(const tuning_task *task, const tune_config *config)
{
    const tuning_session *session = task->session;
    for (int i = 0; i < session->lowered_count; ++i) {
        const lowered_candidate *one = session->lowered[i];
        if (one->task == task &&
            (tuff__config_equal(&one->requested, config) || tuff__config_equal(&one->trimmed, config)))
            return i;
    }
    return -1;
}

static lowered_candidate *remove_at(tuning_session *session, int index)
{
    lowered_candidate *removed = session->lowered[index];
    --session->lowered_count;
    memmove(&session->lowered[index], &session->lowered[index + 1],
            (size_t)(session->lowered_count - index) * sizeof session->lowered[0]);
    return removed;
}

static void put_first(tuning_session *session, lowered_candidate *one)
{
    if (session->lowered_count == MAX_LOWERED)
        tuff__lowered_free(remove_at(session, MAX_LOWERED - 1));
    memmove(&session->lowered[1], &session->lowered[0], (size_t)session->lowered_count * sizeof session->lowered[0]);
    session->lowered[0] = one;
    ++session->lowered_count;
}

/* estimate: has the tunables that lowering read, even after a failure. */
static tuff_status lower(const tuning_task *task, const tune_config *config, task_estimate *estimate,
                         lowered_candidate **out)
{
    tuning_session *session = task->session;
    lowered_candidate *self = tuff__calloc(1, sizeof *self);
    *estimate = (task_estimate){.items = 1};
    *out = NULL;
    if (self == NULL)
        return TUFF_E_OOM_HOST;
    ++session->lowerings;
    const tuff_status status = tuff__lower_task(tuff__session_device(session), session->fusion, session->options,
                                                task->task, config, &estimate->used_tunables, &self->launches);
    if (status != TUFF_OK) {
        tuff__free(self);
        return status;
    }
    tuff__estimate_launches(&self->launches, estimate);
    self->task = task;
    self->estimate = *estimate;
    self->requested = self->trimmed = *config;
    tuff__config_trim(&self->trimmed, &estimate->used_tunables);
    *out = self;
    return TUFF_OK;
}

tuff_status tuff__lowered_estimate(const tuning_task *task, const tune_config *config, task_estimate *out)
{
    const int kept = find_kept(task, config);
    lowered_candidate *one = NULL;
    if (kept < 0)
        TRY(lower(task, config, out, &one));
    else
        one = remove_at(task->session, kept);
    put_first(task->session, one);
    *out = one->estimate;
    return TUFF_OK;
}

tuff_status tuff__lowered_get(const tuning_task *task, const tune_config *config, lowered_candidate **out)
{
    const int kept = find_kept(task, config);
    task_estimate estimate;
    if (kept < 0)
        return lower(task, config, &estimate, out);
    *out = remove_at(task->session, kept);
    return TUFF_OK;
}

void tuff__lowered_drop(const tuning_task *task, const tune_config *config)
{
    tuning_session *session = task->session;
    const int kept = find_kept(task, config);
    /* Launches that were lowered for another configuration may still be needed for that one. */
    if (kept >= 0 && tuff__config_equal(&session->lowered[kept]->requested, config))
        tuff__lowered_free(remove_at(session, kept));
}

void tuff__lowered_clear(const tuning_task *task)
{
    tuning_session *session = task->session;
    for (int i = session->lowered_count - 1; i >= 0; --i)
        if (session->lowered[i]->task == task)
            tuff__lowered_free(remove_at(session, i));
}
