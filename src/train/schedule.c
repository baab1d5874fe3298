/* The learning rate as a function of the step, built into the graph: the step is device data, so that one recording
   serves all steps and no step needs the host. */
#include "train/train.h"

static tuff_tensor *number(tuff_tensor *beside, double value)
{
    return tuff_constant(tuff_tensor_graph(beside), TUFF_F32, value);
}

/* Cosine from the rate to its final fraction: f + (1 - f) (1 + cos(pi p)) / 2 with the part p done, written with the
   square of cos(pi p / 2), which does not lose digits near the end. */
static tuff_tensor *cosine(const tuff_optimizer_options *options, tuff_tensor *step)
{
    const double length = (double)(options->total_steps - options->warmup_steps);
    tuff_tensor *done = tuff_sub(step, number(step, (double)options->warmup_steps));
    tuff_tensor *part = tuff_min(tuff_div(done, number(step, length)), number(step, 1));
    tuff_tensor *half_turn = tuff_cos(tuff_mul(part, number(step, 1.5707963267948966)));
    const double rate = options->learning_rate, last = options->final_fraction;
    return tuff_add(number(step, rate * last),
                    tuff_mul(number(step, rate * (1 - last)), tuff_mul(half_turn, half_turn)));
}

tuff_tensor *tuff__learning_rate(const tuff_optimizer_options *options, tuff_tensor *step)
{
    tuff_tensor *rate = options->total_steps > 0 ? cosine(options, step) : number(step, options->learning_rate);
    if (options->warmup_steps <= 0)
        return rate;
    const double warmup = (double)options->warmup_steps;
    tuff_tensor *rising = tuff_mul(tuff_add(step, number(step, 1)), number(step, options->learning_rate / warmup));
    return tuff_where(tuff_less(step, number(step, warmup)), rising, rate);
}
