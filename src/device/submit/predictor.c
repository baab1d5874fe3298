/* Predicts and measures how long submissions take; see the header. */
#include "device/submit/predictor.h"

#include "base/thread.h"

/* Of a shorter submission it is only known that it was short: the measurement includes launching and waiting. */
#define MIN_SECONDS 0.02
/* The smallest scale assumed for a program that has not run, on a device that has been measured: the model's error
   differs by about this factor between kernels. */
#define NEW_PROGRAM_SCALE 4.0
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
    if (!self->is_on)
        return 1;
    const double parts = tuff__predictor_seconds(self, share) / MAX_SUBMISSION_SECONDS;
    const uint64_t most = groups < MAX_DISPATCH_PARTS ? groups : MAX_DISPATCH_PARTS;
    if (!(parts > 1))
        return 1;
    return parts + 1 >= (double)most ? most : (uint64_t)parts + 1;
}

static const work_share *shares_of(const submission_record *submission, int *count)
{
    *count = submission->shares ? submission->count : 1;
    return submission->shares ? submission->shares : &submission->own;
}

static bool is_repeated(const work_share *shares, int index)
{
    for (int i = 0; i < index; i++)
        if (shares[i].seconds > 0 && shares[i].scale == shares[index].scale)
            return true;
    return false;
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

/* Corrects each share of a submission that took `ratio` times as long as predicted. The device's own scale follows the
   slowest share, so that new programs are not assumed to be better than those seen. Very short shares do not raise it,
   or one pause of the whole machine would split everything that follows into single groups. */
static void correct(time_predictor *self, const submission_record *submission, double ratio)
{
    int count;
    const work_share *shares = shares_of(submission, &count);
    double slowest = 0;
    ratio = ratio < MIN_FALL ? MIN_FALL : ratio;
    for (int i = 0; i < count; i++) {
        if (shares[i].seconds <= 0 || is_repeated(shares, i))
            continue;
        const double scale = scale_of(self, &shares[i]) * ratio;
        if (shares[i].scale)
            *shares[i].scale = scale;
        if (shares[i].seconds >= MIN_SHARE)
            slowest = scale > slowest ? scale : slowest;
    }
    self->version++;
    if (slowest == 0 && ratio > 1)
        return;
    slowest = slowest < MAX_TIME_SCALE ? slowest : MAX_TIME_SCALE;
    const double lowest = NEW_PROGRAM_SCALE > slowest ? NEW_PROGRAM_SCALE : slowest, fallen = self->scale * MIN_FALL;
    self->scale = lowest > fallen ? lowest : fallen;
}

/* is_exact: the submission took exactly this long. Otherwise it took at most this long, which can only show that the
   prediction was too high. */
static void learn(time_predictor *self, const submission_record *submission, double seconds, bool is_exact)
{
    const double predicted = predict_all(self, submission);
    const double bounded = seconds < MIN_SECONDS ? MIN_SECONDS : seconds;
    if (predicted <= 0 || (bounded > predicted && (!is_exact || seconds < MIN_SECONDS)))
        return;
    const double ratio = bounded / predicted;
    if (ratio > 1.05 || ratio < 0.95)
        correct(self, submission, ratio);
}

/* A submission began when it was submitted if nothing was ahead of it, else when the one before it was seen to end, if
   that was seen in time. */
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
