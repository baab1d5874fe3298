/* Predicts and measures how long submissions take; see the header. */
#include "device/submit/predictor.h"

#include "base/thread.h"

/* Of a shorter submission it is only known that it was short: the measurement includes launching and waiting. */
#define MIN_SECONDS 0.02
/* A program that has not run is assumed to be this many times as slow, compared with the model, as what was measured:
   the model's error differs by about this factor between kernels. */
#define NEW_PROGRAM_FACTOR 4.0
/* Shares of fewer modelled seconds do not raise the device's scale: their time is mostly launch cost, which says
   nothing about other programs. */
#define MIN_SHARE 1e-4
/* The smallest factor by which one submission can lower a scale. */
#define MIN_FALL 0.7

uint64_t (*tuff__predictor_clock)(void) = tuff__nanoseconds;

void tuff__predictor_init(time_predictor *self, bool is_on)
{
    *self = (time_predictor){.is_on = is_on, .scale = INITIAL_TIME_SCALE};
}

static double scale_of(const time_predictor *self, const work_share *share)
{
    return share->scale && *share->scale > 0 ? *share->scale : self->scale;
}

double tuff__predictor_seconds(const time_predictor *self, const work_share *share)
{
    return share->seconds * scale_of(self, share);
}

uint64_t tuff__predictor_parts(const time_predictor *self, const work_share *share, uint64_t groups)
{
    const double seconds = tuff__predictor_seconds(self, share);
    if (!self->is_on || !(seconds > MAX_SUBMISSION_SECONDS))
        return 1;
    /* Counted by the groups that fit into a part: equal parts of few groups differ by one group. */
    const double fitting = MAX_SUBMISSION_SECONDS / seconds * (double)groups;
    const uint64_t size = fitting >= 1 ? (uint64_t)fitting : 1, parts = (groups + size - 1) / size;
    return parts < MAX_DISPATCH_PARTS ? parts : MAX_DISPATCH_PARTS;
}

static const work_share *shares_of(const submission_record *submission, int *count)
{
    *count = submission->shares ? submission->count : 1;
    return submission->shares ? submission->shares : &submission->own;
}

static double predict_all(const time_predictor *self, const submission_record *submission)
{
    int count;
    const work_share *shares = shares_of(submission, &count);
    double seconds = 0;
    for (int i = 0; i < count; i++)
        seconds += tuff__predictor_seconds(self, &shares[i]);
    return seconds;
}

void tuff__predictor_submitted(const time_predictor *self, submission_record *submission, bool is_idle)
{
    submission->submitted = self->is_on ? tuff__predictor_clock() : 0;
    submission->was_idle = is_idle;
}

static bool is_repeated(const work_share *shares, int index)
{
    for (int i = 0; i < index; i++)
        if (shares[i].seconds > 0 && shares[i].scale == shares[index].scale)
            return true;
    return false;
}

/* Returns the modelled seconds of all shares of a program; scale: its scale. */
static double modelled_seconds(const work_share *shares, int count, const time_scale *scale)
{
    double seconds = 0;
    for (int i = 0; i < count; i++)
        seconds += shares[i].scale == scale ? shares[i].seconds : 0;
    return seconds;
}

/* A submission took `ratio` times as long as predicted: any of its programs may be slower, so all count as slower. New
   programs are not assumed to be faster than these. Very short shares do not count for them, or one pause of the whole
   machine would split everything that follows into single groups. */
static void raise_scales(time_predictor *self, const submission_record *submission, double ratio)
{
    int count;
    const work_share *shares = shares_of(submission, &count);
    double slowest = 0;
    for (int i = 0; i < count; i++) {
        if (shares[i].seconds <= 0 || is_repeated(shares, i))
            continue;
        const double scale = scale_of(self, &shares[i]) * ratio;
        if (shares[i].scale)
            *shares[i].scale = scale;
        if (shares[i].seconds >= MIN_SHARE)
            slowest = scale > slowest ? scale : slowest;
    }
    slowest = slowest < MAX_TIME_SCALE ? slowest : MAX_TIME_SCALE;
    self->scale = slowest > self->scale ? slowest : self->scale;
    self->version++;
}

/* Lowers a scale to `limit`, step by step. Small changes are left out, because each may split recordings anew. */
static bool lower_scale(double *scale, double limit)
{
    const double fallen = *scale * MIN_FALL, next = limit > fallen ? limit : fallen;
    if (next > 0.95 * *scale)
        return false;
    *scale = next;
    return true;
}

/* A submission took these seconds, less than predicted. A program did not take longer than the whole submission, and
   nothing else is certain. If all scales fell by the same ratio, a slow program among fast ones would be taken for a
   fast one, and submitted alone it would exceed the limit. */
static void lower_scales(time_predictor *self, const submission_record *submission, double seconds)
{
    int count;
    const work_share *shares = shares_of(submission, &count);
    double modelled = 0;
    bool changed = false;
    for (int i = 0; i < count; i++) {
        modelled += shares[i].seconds;
        if (!shares[i].scale || shares[i].seconds <= 0 || is_repeated(shares, i))
            continue;
        *shares[i].scale = scale_of(self, &shares[i]);
        changed |= lower_scale(shares[i].scale, seconds / modelled_seconds(shares, count, shares[i].scale));
    }
    const double average = seconds / modelled;
    changed |= lower_scale(&self->scale, NEW_PROGRAM_FACTOR * (average > 1 ? average : 1));
    self->version += changed;
}

/* is_exact: the submission took exactly this long. Otherwise it took at most this long, which can only show that the
   prediction was too high. */
static void learn(time_predictor *self, const submission_record *submission, double seconds, bool is_exact)
{
    const double predicted = predict_all(self, submission);
    const double bounded = seconds < MIN_SECONDS ? MIN_SECONDS : seconds;
    if (predicted <= 0 || (bounded > predicted && (!is_exact || seconds < MIN_SECONDS)))
        return;
    if (bounded > 1.05 * predicted)
        raise_scales(self, submission, bounded / predicted);
    else if (bounded < 0.95 * predicted)
        lower_scales(self, submission, bounded);
}

/* A submission began when it was submitted if nothing was ahead of it, else when the one before it was seen to end, if
   that was seen in time. On a shared queue others' work, and semaphores that others signal, may come before it, so the
   time seen by the host is only an upper bound, which never raises a prediction. */
void tuff__predictor_ended(time_predictor *self, const submission_record *submission, bool waited)
{
    if (!self->is_on)
        return;
    const uint64_t now = tuff__predictor_clock();
    const bool is_exact = waited && !self->is_shared && (submission->was_idle || self->is_last_end_exact);
    const bool follows_another = is_exact && !submission->was_idle && self->last_end > submission->submitted;
    const uint64_t begin = follows_another ? self->last_end : submission->submitted;
    if (submission->submitted > 0)
        learn(self, submission, (double)(now - begin) * 1e-9, is_exact);
    self->last_end = now;
    self->is_last_end_exact = waited;
}

void tuff__predictor_measured(time_predictor *self, const submission_record *submission, double seconds)
{
    if (!self->is_on)
        return;
    if (submission->submitted > 0)
        learn(self, submission, seconds, true);
}
