/* Updates only the parameters with the largest gradients in a step. */
#ifndef TUFF_TOOLS_TRAIN_UPDATE_TOP_H
#define TUFF_TOOLS_TRAIN_UPDATE_TOP_H

#include "tuff/train.h"

/* A tuff_update_chooser. user: an int64_t, the number of parameters to update per step. The optimizer needs
   tensor_norms. The device makes the choice, in the step's own plan. TUFF_E_USAGE if fewer parameters are trained. */
tuff_status update_top_choose(void *user, const tuff_update_choice *choice);

#endif
