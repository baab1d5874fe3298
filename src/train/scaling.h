/* Loss scaling as part of the graph of a step. */
#ifndef TUFF_TRAIN_SCALING_H
#define TUFF_TRAIN_SCALING_H

#include "train/train.h"

/* bool, rank 0: whether any element of the slabs, as many as the parameters have, is an infinity or a NaN; NULL entries
   count as finite. */
tuff_tensor *tuff__any_not_finite(tuff_graph *graph, tuff_tensor *const *slabs, int count);
/* Adds the scale's next value and the counts; sets what made says of them. skip: the bool of above. */
void tuff__scale_update(const tuff_optimizer *optimizer, tuff_tensor *skip, tuff_optimizer_tensors *made);

#endif
