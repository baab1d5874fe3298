/* Shared by the files that check random programs: the expected values of a program, and how to run it on the
   reference. */
#ifndef TUFF_TOOLS_VERIFY_PROGRAM_EXPECT_H
#define TUFF_TOOLS_VERIFY_PROGRAM_EXPECT_H

#include "exec/reference.h"
#include "tools/verify/program_check.h"
#include "tools/verify/program_rounding.h"
#include "train/state.h"
#include "train/train.h"

enum { PROGRAM_STEPS = 3 };

/* The role of a tensor of the state. */
typedef enum state_kind {
    STATE_WEIGHTS,
    STATE_FIRST, /* moments */
    STATE_SECOND,
    STATE_ROW, /* of Adafactor's second moments */
    STATE_COLUMN,
    STATE_AVERAGE,
    STATE_EXACT /* counters and scales */
} state_kind;

typedef struct tensor_location {
    char name[64]; /* of the parameter or the exact tensor */
    state_kind kind;
    int parameter; /* index in the set; -1: none */
    tuff_shape shape;
    int64_t offset, count; /* among the elements of all tensors */
} tensor_location;

typedef struct tensor_list {
    tensor_location *tensors;
    int count;
    int64_t total; /* number of elements of all tensors */
} tensor_list;

/* Outputs of a step. */
typedef enum step_scalar { SCALAR_LOSS, SCALAR_NORM, SCALAR_RATE, STEP_SCALARS } step_scalar;
extern const char *const program_scalars[STEP_SCALARS];

/* All tensors of the state, concatenated: before a step, and as expected after it. Noise is the most that rounding
   moves an element or a scalar; 0 if that was not measured. */
typedef struct step_values {
    double *begin, *value;
    double *noise; /* per tensor */
    /* For rules whose moments do not contain them: the gradients after clipping, concatenated by parameter. */
    double *gradient, *gradient_noise;
    double scalars[STEP_SCALARS], scalar_noise[STEP_SCALARS];
} step_values;

struct program_expectation {
    program_recipe recipe;
    tuff_device *reference;
    int step_count, parameter_count;
    int noise_count; /* number of steps, from the first, whose noise was measured */
    tensor_list state;
    int64_t gradient_offsets[PROGRAM_PARAMETERS];
    step_values steps[PROGRAM_STEPS];
    tuff_optimizer_options options; /* with defaults filled in, without groups */
    /* By parameter: the tuff_optimizer_kind that updates it, or -1 if frozen; and its rate relative to SCALAR_RATE. */
    int rules[PROGRAM_PARAMETERS];
    double rate_factors[PROGRAM_PARAMETERS];
};

/* Measures the noise of all steps up to this one, unless that was done. */
tuff_status program_measure_noise(program_expectation *self, int step);

/* The tensor of a parameter, or NULL. */
const tensor_location *program_find_tensor(const tensor_list *list, int owner, state_kind kind);

/* Reads the elements of all tensors of a state on any device as doubles into `into`, which has room for their total.
   *gaps, unless NULL: whether elements between the tensors are not 0. */
tuff_status program_read_state(const program_state *state, double *into, bool *gaps);
tuff_status program_write_state(const program_state *state, const double *values);

/* The plans of a step on the reference. */
typedef struct program_reference {
    program_recipe recipe;
    reference_plan *plans[PROGRAM_GRAPHS];
    const tuff_graph *graphs[PROGRAM_GRAPHS]; /* owned by the plans */
} program_reference;
tuff_status program_reference_make(const program_recipe *recipe, tuff_device *reference, const program_state *state,
                                   program_reference *out);
void program_reference_free(program_reference *self);
/* Runs a step. If it accumulates, each of its runs has another batch. */
tuff_status program_reference_step(program_reference *self, int step);
/* Reads the outputs of the last step. */
tuff_status program_reference_read(const program_reference *self, double scalars[STEP_SCALARS]);

/* Passes each input of a batch that the graph has to write. */
tuff_status program_write_inputs(const program_recipe *recipe, const tuff_graph *graph, int batch,
                                 tuff_status (*write)(void *to, const program_input *input), void *to);

/* The same program for one step of plain gradients, which then are the optimizer's first moment. */
program_recipe program_plain(const program_recipe *recipe);

/* Counts a failure. format has one %s, for detail. */
void program_add_failure(program_report *report, const char *format, const char *detail);

#endif
