/* Loss scaling as part of the graph of a step. */
#ifndef TUFF_TRAIN_SCALING_H
#define TUFF_TRAIN_SCALING_H

#include "train/train.h"

/* Returns bool of rank 0: whether any element of the slabs (one for each of the parameters' slabs) is infinite or NaN.
   NULL entries count as finite. */
tuff_tensor *tuff__any_not_finite(tuff_graph *graph, tuff_tensor *const *slabs, int count);
/* Adds the next loss scale and its counts to the graph, and sets the fields of *made about them. skip: the result of
   tuff__any_not_finite. */
void tuff__update_loss_scale(const tuff_optimizer *optimizer, tuff_tensor *skip, tuff_optimizer_tensors *made);

#endif
