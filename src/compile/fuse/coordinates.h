/* Addresses that strides cannot say: where a reshape joins axes that do not follow each other in memory, as the patches
   of a convolution do, coordinates are quotients and remainders of the domain's. build_chain.c makes them values of a
   chain. */
#ifndef TUFF_COMPILE_FUSE_COORDINATES_H
#define TUFF_COMPILE_FUSE_COORDINATES_H

#include "compile/rewrite/view.h"
#include "kernels/chain.h"

/* Adds a value to a chain, or finds its equal: its number, or NO_VALUE where memory ran out. */
typedef struct value_sink {
    void *state;
    int (*add)(void *state, const chain_value *value);
} value_sink;

#define MAX_TERMS_OF_COORDINATE 16

/* A sum: of the domain's coordinates by strides, and of i32 values by factors. */
typedef struct coordinate {
    affine walked;
    int values[MAX_TERMS_OF_COORDINATE];
    int64_t factors[MAX_TERMS_OF_COORDINATE];
    int value_count;
} coordinate;

/* The coordinates of a tensor of shape `inner`, from which `along` leads to the domain, whose shape is the last step's.
   False where they have too many terms, or memory ran out. */
bool tuff__coordinates_along(const value_sink *sink, tuff_shape inner, const path *along, coordinate *out);
/* to += factor · from. False where it has too many terms. */
bool tuff__coordinate_add(coordinate *to, const coordinate *from, int64_t factor);
/* The coordinate as one i32 value. */
int tuff__coordinate_value(const value_sink *sink, const coordinate *from);
/* A value of an op on i32 operands. */
int tuff__index_op(const value_sink *sink, op_code op, tuff_dtype dtype, int x, int y);
/* An i32 or u32 constant. */
int tuff__index_constant(const value_sink *sink, tuff_dtype dtype, int64_t number);

#endif
