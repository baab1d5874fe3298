/* Golden cases of ops and optimizers, and what their two files share. */
#ifndef TUFF_TESTS_GOLDEN_OPS_H
#define TUFF_TESTS_GOLDEN_OPS_H

#include <jansson.h>

#include "golden_common.h"

#define GOLDEN_INPUTS_MAX 8

/* One case under construction. */
typedef struct golden_case {
    golden_run *run;
    const char *name;
    char prefix[128]; /* "case/NAME/" */
    const json_t *attributes;
    tuff_graph *graph;
    int input_count;
    struct {
        char name[64];
        tuff_file_tensor wanted;   /* as in the file */
        tuff_tensor *raw, *tensor; /* the input, and what it means: a cast to bool where the file has u8 */
    } inputs[GOLDEN_INPUTS_MAX];
} golden_case;

/* An input by its name in the file; an absent one gives NULL. */
tuff_tensor *golden_input(const golden_case *self, const char *name);

/* Attributes, with what they are where absent. */
int64_t golden_whole(const golden_case *self, const char *name, int64_t absent);
double golden_real(const golden_case *self, const char *name, double absent);
bool golden_flag(const golden_case *self, const char *name);
const char *golden_text(const golden_case *self, const char *name);
/* A list of whole numbers; answers how many. */
int golden_list(const golden_case *self, const char *name, int64_t *out);

/* Builds the result of the case's op; NULL where the table has no such op. */
typedef tuff_tensor *(*golden_builder)(const golden_case *self);
golden_builder golden_find_builder(const char *op);

/* Largest error over its bar among the elements of got; a bar of no tolerance makes every difference infinite. */
double golden_excess(const golden_case *self, const char *quantity, const tuff_file_tensor *wanted, const double *got);

/* Cases of optimizers, clipping and loss scaling, by tuff's optimizers. Returns false for another op. */
bool golden_optimizer(golden_case *self);

#endif
