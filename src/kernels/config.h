/* A candidate of the tuner: values for some of the tunables of kernels.def. Tunables that are not set keep the value
   that lowering would choose by itself, so the empty configuration is the default. */
#ifndef TUFF_KERNELS_CONFIG_H
#define TUFF_KERNELS_CONFIG_H

#include "base/text.h"
#include "kernels/tunables.h"

enum { CONFIG_WORDS = (TUNABLE_COUNT + 63) / 64 };

/* All zero is the default. Values of tunables that are not set are 0. */
typedef struct tune_config {
    uint64_t set[CONFIG_WORDS];
    int values[TUNABLE_COUNT];
} tune_config;

void tuff__config_set(tune_config *self, tunable parameter, int value);
void tuff__config_unset(tune_config *self, tunable parameter);
bool tuff__config_has(const tune_config *self, tunable parameter);
/* Returns the value, or default_value if the tunable is not set. */
int tuff__config_value(const tune_config *self, tunable parameter, int default_value);
int tuff__config_count(const tune_config *self); /* tunables that are set */
/* Drops tunables that lowering did not read, or whose value is the default anyway. What is left identifies the
   candidate when it is tried and recorded. used_tunables: the tunables that lowering read, with their default values.
   */
void tuff__config_trim(tune_config *self, const tune_config *used_tunables);
bool tuff__config_equal(const tune_config *a, const tune_config *b);
/* Whether no tunable is set that may change results: all that are set have keeps_bits. */
bool tuff__config_keeps_bits(const tune_config *self);
uint64_t tuff__config_hash(const tune_config *self); /* valid within this build only; files contain texts */

/* Appends "matmul_register.local_size=4;matmul_register.tile_rows=8", sorted by name; nothing for the default. */
void tuff__config_format(const tune_config *self, text *out);
/* Parses such a text, in any order and with the names of earlier versions too. Returns TUFF_E_UNSUPPORTED for a tunable
   that this version does not have, TUFF_E_LIMIT for a value that the tunable cannot take, TUFF_E_FORMAT for a malformed
   text or a name that occurs twice; *out is then the default. */
tuff_status tuff__config_parse(const char *source, tune_config *out);

#endif
