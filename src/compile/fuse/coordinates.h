/* Addresses that strides cannot express: if a reshape joins axes that do not follow each other in memory, as in the
   patches of a convolution, the coordinates are quotients and remainders of the domain's. build_chain.c turns them into
   values of a chain. */
#ifndef TUFF_COMPILE_FUSE_COORDINATES_H
#define TUFF_COMPILE_FUSE_COORDINATES_H

#include "compile/rewrite/view.h"
#include "kernels/chain.h"

/* Adds a value to a chain unless the chain has an equal one. Returns its index, or NO_VALUE if memory ran out. */
typedef struct value_sink {
    void *state;
    int (*add)(void *state, const chain_value *value);
} value_sink;

#define MAX_TERMS_OF_COORDINATE 16

/* A linear combination of the domain's coordinates (`linear`) and of i32 values with their factors. */
typedef struct coordinate {
    affine linear;
    int values[MAX_TERMS_OF_COORDINATE];
    int64_t factors[MAX_TERMS_OF_COORDINATE];
    int value_count;
} coordinate;

/* Computes the coordinates of a tensor of shape `inner` from those of the domain to which `along` leads; the shape of
   the domain is that of the last step. Returns false if they have too many terms or memory ran out. */
bool tuff__coordinates_along(const value_sink *sink, tuff_shape inner, const path *along, coordinate *out);
/* Computes to += factor · from. Returns false if the sum has too many terms. */
bool tuff__coordinate_add(coordinate *to, const coordinate *from, int64_t factor);
/* Returns the coordinate as a single i32 value. */
int tuff__coordinate_value(const value_sink *sink, const coordinate *from);
/* Returns the value of an op on index operands; NO_VALUE if an operand is missing or memory ran out. */
int tuff__index_op(const value_sink *sink, op_code op, tuff_dtype dtype, int x, int y);
/* Returns an i32 or u32 constant. */
int tuff__index_constant(const value_sink *sink, tuff_dtype dtype, int64_t number);

#endif
