/* Chooses a kernel for a task whose default gives wrong results on the device: the first of the plain kernels of
   fallback.c whose results are right. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "autotune/session.h"
#include "search/times.h"

enum { SAMPLES = 5 };

/* Whether a candidate is right when checked against the host alone; sets the quartiles of its times. */
static bool is_correct(tuning_task *task, const evaluator *by, search_candidate *candidate, uint64_t quartiles[3])
{
    uint64_t times[SAMPLES];
    if (by->compile(by->state, candidate) != EVALUATION_GOOD)
        return false;
    const bool correct = tuff__evaluator_verify_baseline(task, candidate) == EVALUATION_GOOD &&
                         by->sample(by->state, candidate, SAMPLES, 0, times) == EVALUATION_GOOD;
    by->release(by->state, candidate);
    if (correct)
        tuff__times_quartiles(times, SAMPLES, quartiles);
    return correct;
}

void tuff__session_choose_fallback(tuning_task *task)
{
    const evaluator by = tuff__evaluator_for_task(task);
    for (int i = 0; tuff__fallbacks[i] != NULL && !by.is_over(by.state); ++i) {
        search_candidate candidate = {.slot = 0};
        candidate_info shown;
        search_result found = {.samples = SAMPLES, .is_final = true, .end = SEARCH_EXHAUSTED};
        if (tuff__config_parse(tuff__fallbacks[i], &candidate.config) != TUFF_OK ||
            by.lower(by.state, &candidate.config, &shown) != EVALUATION_GOOD ||
            !is_correct(task, &by, &candidate, found.nanoseconds))
            continue;
        tuff__log(TUFF_LOG_WARNING,
                  "tune: the default kernel of %s gives wrong results on this device: %s is used instead", task->text,
                  tuff__fallbacks[i]);
        task->chosen = found.winner = candidate.config;
        tuff__session_record_result(task, &found);
        return;
    }
    tuff__log(TUFF_LOG_WARNING,
              "tune: the default kernel of %s gives wrong results on this device, and no fallback was found that gives "
              "correct "
              "ones: do not trust its results, and please report this",
              task->text);
}
