/* The learning rate as a function of the step, built into the graph. The step is device data, so one recording serves
   all steps, and no step needs the host. */
#include "train/train.h"

#define HALF_PI 1.5707963267948966
#define CYCLE_START (1.0 / 25)   /* of the peak rate, at the start of the cycle */
#define CYCLE_END (1.0 / 250000) /* of the peak rate, at its end unless the options set it */
#define CYCLE_RISE 0.3           /* of all steps: the rising part */

/* from + (to - from) (1 - cos(pi p)) / 2, written as to + (from - to) cos(pi p / 2)^2, which loses no digits near the
   end. */
static tuff_tensor *cosine(tuff_tensor *part, double from, double to)
{
    tuff_tensor *half_turn = tuff_cos(tuff_mul(part, tuff__f32(part, HALF_PI)));
    return tuff_add(tuff__f32(part, to), tuff_mul(tuff__f32(part, from - to), tuff_mul(half_turn, half_turn)));
}

/* Returns the fraction of the steps from `begin` to the last that is done, at most 1. */
static tuff_tensor *part_done(const tuff_optimizer_options *options, tuff_tensor *step, double begin)
{
    tuff_tensor *done = tuff_sub(step, tuff__f32(step, begin));
    tuff_tensor *length = tuff__f32(step, (double)options->total_steps - begin);
    return tuff_min(tuff_div(done, length), tuff__f32(step, 1));
}

static tuff_tensor *linear(tuff_tensor *part, double from, double to)
{
    return tuff_add(tuff__f32(part, from), tuff__scaled(part, to - from));
}

/* Smith & Topin 2018, with cosines as in PyTorch's OneCycleLR. */
static tuff_tensor *one_cycle(const tuff_optimizer_options *options, tuff_tensor *step)
{
    const double top = options->learning_rate, total = (double)options->total_steps;
    const double last = options->final_fraction > 0 ? options->final_fraction : CYCLE_END;
    const double peak = options->warmup_steps > 0 ? (double)options->warmup_steps : CYCLE_RISE * total;
    tuff_tensor *rising = cosine(tuff_div(step, tuff__f32(step, peak)), top * CYCLE_START, top);
    tuff_tensor *falling = cosine(part_done(options, step, peak), top, top * last);
    return tuff_where(tuff_less(step, tuff__f32(step, peak)), rising, falling);
}

/* The kind of schedule is fixed when the graph is built; only the step is data. */
static tuff_tensor *after_warmup(const tuff_optimizer_options *options, tuff_tensor *step)
{
    const double rate = options->learning_rate, last = rate * options->final_fraction;
    const double warmup = (double)options->warmup_steps;
    switch (options->schedule) {
    case TUFF_SCHEDULE_LINEAR:
        return linear(part_done(options, step, warmup), rate, last);
    case TUFF_SCHEDULE_COSINE:
        return cosine(part_done(options, step, warmup), rate, last);
    default:
        return tuff__f32(step, rate);
    }
}

/* Warm-up and what follows are both computed, and one is selected: a graph has no branches, and these are a few
   scalars. Warm-up counts from 1, since a step with rate 0 would be lost. */
tuff_tensor *tuff__learning_rate(const tuff_optimizer_options *options, tuff_tensor *counter, tuff_tensor *step)
{
    if (options->steps_per_epoch > 0) { /* whole numbers are exact beyond 2^24, where those of `step` are not */
        tuff_tensor *length = tuff_constant(tuff_tensor_graph(step), TUFF_I32, (double)options->steps_per_epoch);
        step = tuff_cast(tuff_div(counter, length), TUFF_F32);
    }
    if (options->schedule == TUFF_SCHEDULE_ONE_CYCLE)
        return one_cycle(options, step);
    tuff_tensor *rate = after_warmup(options, step);
    if (options->warmup_steps <= 0)
        return rate;
    const double warmup = (double)options->warmup_steps;
    tuff_tensor *rising =
        tuff_mul(tuff_add(step, tuff__f32(step, 1)), tuff__f32(step, options->learning_rate / warmup));
    return tuff_where(tuff_less(step, tuff__f32(step, warmup)), rising, rate);
}
