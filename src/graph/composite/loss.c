/* Losses, scalars from which tuff_gradients can start: cross entropy and mean squared error. Cross entropy takes logits
   rather than probabilities, so that it never takes the logarithm of a probability that was rounded to 0. */
#include <math.h>

#include "graph/builder.h"
#include "tuff/nn.h"

/* Errors name both operands, which usually come from different parts of a model. */
static bool classes_are_legal(tuff_graph *graph, const tuff_tensor *logits, const tuff_tensor *targets,
                              double smoothing)
{
    if (targets->dtype != TUFF_I32 || !tuff__dtype_is_float(logits->dtype)) {
        tuff__graph_fail(graph, TUFF_E_DTYPE, "cross_entropy: %s %s by %s %s: expected float logits and i32 targets",
                         tuff_dtype_name(logits->dtype), SHAPE_TEXT(logits->shape), tuff_dtype_name(targets->dtype),
                         SHAPE_TEXT(targets->shape));
        return false;
    }
    if (logits->shape.rank != 2 || targets->shape.rank != 1 || logits->shape.extent[0] != targets->shape.extent[0]) {
        tuff__graph_fail(graph, TUFF_E_SHAPE, "cross_entropy: %s by %s: expected logits [N, V] and targets [N]",
                         SHAPE_TEXT(logits->shape), SHAPE_TEXT(targets->shape));
        return false;
    }
    if (!(smoothing >= 0 && smoothing <= 1))
        tuff__graph_fail(graph, TUFF_E_USAGE, "cross_entropy: %s: the smoothing %g must be between 0 and 1",
                         SHAPE_TEXT(logits->shape), smoothing);
    return graph->status == TUFF_OK;
}

/* Returns the target's element of each row, as [N, 1]. Selects instead of gathering: the gradient of a gather would be
   a scatter. */
static tuff_tensor *select_target(tuff_tensor *logits, tuff_tensor *column)
{
    tuff_tensor *class_index = tuff_iota(column->graph, logits->shape, 1);
    tuff_tensor *chosen = tuff_where(tuff_equal(class_index, column), logits, tuff__scalar(logits, 0));
    return tuff_sum(chosen, (int[]){1}, 1, true);
}

/* Returns the loss of each row, as [N, 1]; NaN if the target is not a class. Subtracts the logarithm of the sum once
   per row and not from every element, so that a kernel finds the target and the sum in one pass. */
static tuff_tensor *row_losses(tuff_tensor *logits, tuff_tensor *column, double smoothing)
{
    const int64_t classes = logits->shape.extent[1];
    tuff_tensor *log_sum, *shifted = tuff__shifted_logits("cross_entropy", logits, 1, &log_sum);
    if (!tuff__is_valid(shifted) || !tuff__is_valid(log_sum))
        return &logits->graph->failed;
    tuff_tensor *loss = tuff_sub(log_sum, tuff__scale(select_target(shifted, column), 1 - smoothing));
    if (smoothing > 0)
        loss = tuff_sub(loss, tuff__scale(tuff_mean(shifted, (int[]){1}, 1, true), smoothing));
    tuff_tensor *is_class =
        tuff_and(tuff_less(tuff__scalar(column, -1), column), tuff_less(column, tuff__scalar(column, (double)classes)));
    return tuff_where(is_class, loss, tuff__scalar(loss, NAN));
}

/* The mean over the rows that count. Rows of ignore_index have loss 0 and no gradient; if all are ignored, the mean is
   0 / 0, NaN. */
tuff_tensor *tuff_cross_entropy(tuff_tensor *logits, tuff_tensor *targets, int64_t ignore_index, double smoothing)
{
    tuff_tensor *failure;
    tuff_graph *graph = tuff__check_operands("cross_entropy", (tuff_tensor *[]){logits, targets}, 2, &failure);
    if (!graph || !classes_are_legal(graph, logits, targets, smoothing))
        return failure;
    tuff_tensor *column = tuff_reshape(targets, TUFF_SHAPE(targets->shape.extent[0], 1));
    tuff_tensor *losses = row_losses(logits, column, smoothing);
    if (!tuff__is_valid(losses))
        return losses;
    if (ignore_index < INT32_MIN || ignore_index > INT32_MAX)
        return tuff_mean(losses, (int[]){0, 1}, 2, false);
    tuff_tensor *ignored = tuff_equal(column, tuff__scalar(column, (double)ignore_index));
    tuff_tensor *counted = tuff_where(ignored, tuff__scalar(losses, 0), tuff__scalar(losses, 1));
    tuff_tensor *kept = tuff_where(ignored, tuff__scalar(losses, 0), losses);
    return tuff_div(tuff_sum(kept, (int[]){0, 1}, 2, false), tuff_sum(counted, (int[]){0, 1}, 2, false));
}

/* The mean over all axes of the broadcast difference. */
tuff_tensor *tuff_mse(tuff_tensor *x, tuff_tensor *target)
{
    static const int axes[TUFF_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    tuff_tensor *difference = tuff_sub(x, target);
    if (!tuff__is_valid(difference))
        return difference;
    return tuff_mean(tuff_mul(difference, difference), axes, difference->shape.rank, false);
}
