/* What runs where the default of a task is wrong on a device: the first of a few plain kernels that is right there. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "run/tuner_parts.h"
#include "tune/times.h"

/* From less to more careful: an item to itself, without local memory; with short vectors; a GPU's kernels. */
static const char *const plain_kernels[] = {"task.family=1", "task.family=1;task.lanes=4", "task.family=2"};
enum { PLAIN_KERNELS = sizeof plain_kernels / sizeof *plain_kernels, SAMPLES = 5 };

/* Whether a candidate is right by the host alone, with its quartiles. */
static bool is_right(subject *of, const judge *by, contender *who, uint64_t quartiles[3])
{
    uint64_t times[SAMPLES];
    if (by->compile(by->state, who) != VERDICT_GOOD)
        return false;
    const bool right =
        tuff__judge_alone(of, who) == VERDICT_GOOD && by->sample(by->state, who, SAMPLES, 0, times) == VERDICT_GOOD;
    by->release(by->state, who);
    if (right)
        tuff__times_quartiles(times, SAMPLES, quartiles);
    return right;
}

void tuff__tuner_take_safer(subject *of)
{
    const judge by = tuff__judge_of(of);
    for (int i = 0; i < PLAIN_KERNELS && !by.is_over(by.state); ++i) {
        contender who = {.slot = 0};
        lowering shown;
        search_result found = {.samples = SAMPLES, .is_final = true, .end = SEARCH_EXHAUSTED};
        if (tuff__choice_parse(plain_kernels[i], &who.what) != TUFF_OK ||
            by.lower(by.state, &who.what, &shown) != VERDICT_GOOD || !is_right(of, &by, &who, found.nanoseconds))
            continue;
        tuff__log(TUFF_LOG_WARNING, "tune: the usual kernel of %s is wrong on this device: %s is used for it", of->text,
                  plain_kernels[i]);
        of->chosen = found.winner = who.what;
        tuff__tuner_remember(of, &found);
        return;
    }
    tuff__log(TUFF_LOG_WARNING,
              "tune: the usual kernel of %s is wrong on this device, and so is what could stand for it: do not trust "
              "its results, and please report it",
              of->text);
}

/* What another kernel than the default is made of, if it can be. */
static bool is_other_kernel(const subject *of, const choice *what)
{
    const tuner *self = of->of;
    const choice none = {.set = {0}};
    task_estimate usual, other;
    return tuff__estimate_task(self->device, self->fusion, self->options, of->task, &none, &usual) == TUFF_OK &&
           tuff__estimate_task(self->device, self->fusion, self->options, of->task, what, &other) == TUFF_OK &&
           usual.kernels != other.kernels;
}

void tuff__tuner_avoid_default(subject *of)
{
    const hash128 environment = tuff__hash_text(of->of->environment_text);
    const tune_record *bad = tuff__store_bad(of->of->store, environment, of->hash, "", of->generator);
    choice what;
    if (tuff__choice_count(&of->chosen) > 0 || !tuff__record_bars(bad, of->generator) ||
        strcmp(bad->reason, "limits") == 0)
        return;
    for (int i = 0; i < PLAIN_KERNELS; ++i)
        if (tuff__choice_parse(plain_kernels[i], &what) == TUFF_OK && is_other_kernel(of, &what)) {
            of->chosen = what;
            return;
        }
}
