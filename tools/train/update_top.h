/* Steps that update only the parameters with the largest gradients. */
#ifndef TUFF_TOOLS_TRAIN_UPDATE_TOP_H
#define TUFF_TOOLS_TRAIN_UPDATE_TOP_H

#include "tuff/train.h"

/* A tuff_update_chooser; user: an int64_t, how many parameters a step updates. The optimizer needs tensor_norms. The
   device chooses, in the step's own plan. TUFF_E_USAGE where there are fewer that are trained. */
tuff_status update_top_choose(void *user, const tuff_update_choice *choice);

#endif
