/* Golden cases of ops and of optimizers, and the functions that both share. */
#ifndef TUFF_TESTS_GOLDEN_OPS_H
#define TUFF_TESTS_GOLDEN_OPS_H

#include <jansson.h>

#include "golden_common.h"

#define GOLDEN_INPUTS_MAX 8

/* A case under construction. */
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
        tuff_tensor *raw, *tensor; /* the input, and the tensor to use: a cast to bool if the file has u8 */
    } inputs[GOLDEN_INPUTS_MAX];
} golden_case;

/* Returns an input by its name in the file; NULL if it is missing. */
tuff_tensor *golden_input(const golden_case *self, const char *name);

/* Attributes; `absent` is the value if it is missing. */
int64_t golden_whole(const golden_case *self, const char *name, int64_t absent);
double golden_real(const golden_case *self, const char *name, double absent);
bool golden_flag(const golden_case *self, const char *name);
const char *golden_text(const golden_case *self, const char *name);
/* Gets a list of integers; returns its length. */
int golden_list(const golden_case *self, const char *name, int64_t *out);

/* Builds the result of the case's op. */
typedef tuff_tensor *(*golden_builder)(const golden_case *self);
golden_builder golden_find_builder(const char *op);

/* Returns the largest error of got's elements relative to the tolerance; if that is 0, any difference is infinite. */
double golden_excess(const golden_case *self, const char *quantity, const tuff_file_tensor *wanted, const double *got);

/* Runs a case of optimizers, clipping or loss scaling with tuff's optimizers. Returns false for another op. */
bool golden_optimizer(golden_case *self);

#endif
