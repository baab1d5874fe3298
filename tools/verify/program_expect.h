/* Between the files that check random programs: what is expected of one, and how it is run on the reference. */
#ifndef TUFF_TOOLS_VERIFY_PROGRAM_EXPECT_H
#define TUFF_TOOLS_VERIFY_PROGRAM_EXPECT_H

#include "exec/reference.h"
#include "tools/verify/program_check.h"
#include "train/train.h"

enum { MAX_SLABS = 1 + MOMENTS_MAX, MAX_STEPS = 3 };

/* The elements of a slab before a step, and as they should be after it. */
typedef struct slab_step {
    float *begin;
    double *value;
} slab_step;

typedef struct tensor_place {
    char name[64];
    int64_t offset, count;
} tensor_place;

struct program_expectation {
    int64_t total; /* elements of a slab */
    int slab_count, step_count, tensor_count;
    tensor_place tensors[PROGRAM_PARAMETERS];
    slab_step steps[MAX_STEPS][MAX_SLABS];
    double loss[MAX_STEPS];
    tuff_optimizer_options options; /* with the defaults filled in */
};

/* The parameters' slab is the first, then come the moments'. */
tuff_array *program_slab(const program_state *state, int index);
int program_slab_count(const program_state *state);
/* *out is freed with free, also on failure. */
tuff_status program_read_slab(tuff_array *array, int64_t total, float **out);

/* A plan of the reference with outputs "loss" and "slab0" and so on, and its graph, which belongs to it. */
tuff_status program_reference(const program_recipe *recipe, tuff_device *reference, const program_state *state,
                              reference_plan **out, const tuff_graph **graph);
/* Hands the inputs of a step that the graph has to write. */
tuff_status program_write_inputs(const program_recipe *recipe, const tuff_graph *graph, int step,
                                 tuff_status (*write)(void *to, const program_input *input), void *to);
tuff_status program_write_to_reference(void *plan, const program_input *input);

/* The same program for one step of plain gradients, which are the optimizer's first moment. */
program_recipe program_plain(const program_recipe *recipe);

/* Counts a failure; format has one %s for detail. */
void program_fail(program_report *report, const char *format, const char *detail);

#endif
