/* The part of emit.c that writes single values. */
#ifndef TUFF_KERNELS_EMIT_VALUE_H
#define TUFF_KERNELS_EMIT_VALUE_H

#include "kernels/emit.h"

/* Where a value is computed: the outermost place where all its inputs are known. */
enum {
    PLACE_ROW = 1,
    PLACE_RUN = 2,
    PLACE_ELEMENT = 4,
    PLACE_LOOP = 8,     /* column walk in vectors: once per row, for all vectors of an item */
    PLACE_FETCHED = 16, /* the same, and loaded for each vector */
    PLACE_INVERSE = 32  /* in addition: the reciprocal of the value's divisor is written */
};

/* A short piece of text, by value. */
typedef struct snippet {
    char text[320];
} snippet;

/* Whether the pass computes the reduction along each row or down each column (in_columns reductions are excluded). */
bool tuff__reduces_in(const emitter *self, int index, int pass);
/* Appends to out the statements that add to the column sums of an output. */
void tuff__emit_column_sum(emitter *self, int index, text *out);
/* Returns the length, in vectors, of the array in which an item keeps a value of its row. */
int tuff__kept_vectors(const emitter *self);
/* Finds the values that are the same for all lanes of a vector: bounds of pads and concats that fall between vectors,
   and whatever is computed from them alone. */
void tuff__find_uniform(emitter *self);
/* Finds the values that must have exactly the bits that their ops define, since a discontinuous op depends on them. */
void tuff__find_exact(emitter *self);
/* Emits the value with everything that it depends on and returns an expression for it: a vector if wide is set and the
   mode writes vectors. */
snippet tuff__emit_value(emitter *self, int index, bool wide);
/* Returns the whole address, including the vector axis. */
snippet tuff__emit_address(emitter *self, int number, const affine *address, int buffer);
/* Appends to out the store of a value at an output's address. */
void tuff__emit_store(emitter *self, int index, text *out);
/* Emits the value of an output without its store, so that all values of a pass can be computed before any is stored. */
void tuff__emit_stored_value(emitter *self, int index);
/* Emits a value on its own: its statements go to texts->vector or texts->scalar, those that several forms share to
   texts->row. Returns an expression for it. gathers: see emitter; a form that gathers must be emitted last. */
snippet tuff__emit_form(emitter *self, int value, bool vector, bool gathers, pass_texts *texts);
const char *tuff__type_name(tuff_dtype dtype, bool vector);
const char *tuff__dtype_prefix(tuff_dtype dtype); /* "", "I", "U", "B" */

#endif
