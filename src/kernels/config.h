/* A candidate of the tuner: values for some of the tunables of kernels.def, by name. What is not set has the value that
   lowering would take by itself, so the empty choice is the default. */
#ifndef TUFF_KERNELS_CONFIG_H
#define TUFF_KERNELS_CONFIG_H

#include "base/text.h"
#include "kernels/tunables.h"

enum { CONFIG_WORDS = (TUNABLE_COUNT + 63) / 64 };

/* Zero is the default. Values of what is not set are 0. */
typedef struct tune_config {
    uint64_t set[CONFIG_WORDS];
    int values[TUNABLE_COUNT];
} tune_config;

void tuff__config_set(tune_config *self, tunable parameter, int value);
void tuff__config_unset(tune_config *self, tunable parameter);
bool tuff__config_has(const tune_config *self, tunable parameter);
/* The value, or default_value where the choice has none. */
int tuff__config_value(const tune_config *self, tunable parameter, int default_value);
int tuff__config_count(const tune_config *self); /* of what is set */
/* Drops what lowering did not ask for, or has by default anyway: what is left is the name that a candidate is tried and
   remembered by. consulted: what was asked for, with its default values. */
void tuff__config_trim(tune_config *self, const tune_config *consulted);
bool tuff__config_equal(const tune_config *a, const tune_config *b);
/* Whether nothing is set that may change results by more than nothing: tuff__tunable_keeps_bits of all. */
bool tuff__config_keeps_bits(const tune_config *self);
uint64_t tuff__config_hash(const tune_config *self); /* of this build: texts are for files */

/* Appends "matmul_register.local_size=4;matmul_register.tile_rows=8": sorted by name, nothing for the default. */
void tuff__config_format(const tune_config *self, text *out);
/* Reads such a text, in any order, with the names of earlier versions too. TUFF_E_UNSUPPORTED: a tunable that this
   version does not have; TUFF_E_LIMIT: a value that it may not take; TUFF_E_FORMAT: no such text, or a name twice. *out
   is the default then. */
tuff_status tuff__config_parse(const char *source, tune_config *out);

#endif
