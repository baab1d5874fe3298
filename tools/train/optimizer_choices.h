/* The words of the optimizer options that are choices, for other verbs and for reports. */
#ifndef TUFF_TOOLS_TRAIN_OPTIMIZER_CHOICES_H
#define TUFF_TOOLS_TRAIN_OPTIMIZER_CHOICES_H

#include "tools/train/optimizer_flags.h"

/* The choices of an option such as "--optimizer" or "--schedule": "adamw|sgd", in the order of their values. */
const char *optimizer_choices(const char *option);
/* Copies the word of a value to buffer. Returns buffer. */
const char *optimizer_choice(const char *option, int value, char *buffer, size_t size);

#endif
