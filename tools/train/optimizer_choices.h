/* The words of those options about the optimizer that are choices, for other verbs and for reports. */
#ifndef TUFF_TOOLS_TRAIN_OPTIMIZER_CHOICES_H
#define TUFF_TOOLS_TRAIN_OPTIMIZER_CHOICES_H

#include "tools/train/optimizer_flags.h"

/* Of "--optimizer" or "--schedule": "adamw|sgd", in the order of their values. */
const char *optimizer_choices(const char *option);
/* The word of one value; returns buffer. */
const char *optimizer_choice(const char *option, int value, char *buffer, size_t size);

#endif
