/* The part of emit.c that writes single values. */
#ifndef TUFF_KERNELS_EMIT_VALUE_H
#define TUFF_KERNELS_EMIT_VALUE_H

#include "kernels/emit.h"

/* Where a value is computed: the outermost place in which all it depends on is known. */
enum {
    PLACE_ROW = 1,
    PLACE_RUN = 2,
    PLACE_ELEMENT = 4,
    PLACE_LOOP = 8,     /* columns in vectors: once a row of all vectors */
    PLACE_FETCHED = 16, /* and known to each vector */
    PLACE_INVERSE = 32  /* beside the value: the reciprocal of its divisor is known */
};

/* A short piece of text, by value. */
typedef struct snippet {
    char text[320];
} snippet;

/* Whether the pass reduces, for each row or column on its own, what reduction number index is of. */
bool tuff__reduces_in(const emitter *self, int index, int pass);
/* Adds what the sums of columns at an output's address are of, into out. */
void tuff__emit_column_sum(emitter *self, int index, text *out);
/* The length of the array in which an item keeps a value of its row, in vectors. */
int tuff__kept_vectors(const emitter *self);
/* Finds the values that a whole vector shares: bounds of pads and concats that fall between vectors, and what is
   computed from them alone. */
void tuff__find_uniform(emitter *self);
/* Finds the values that must have the bits that their ops say, for something that jumps is computed from them. */
void tuff__find_exact(emitter *self);
/* True where the value is a vector in the current mode. */
bool tuff__is_vector(const emitter *self, const chain_value *value);
/* Writes what value number index needs and answers an expression of it: a vector if wide (and the mode writes
   vectors). */
snippet tuff__emit_value(emitter *self, int index, bool wide);
/* The address of an output or value, numbered after all values: base expression without the vector axis. */
snippet tuff__emit_base(emitter *self, int number, const affine *address, int buffer);
/* The whole address, vector axis included. */
snippet tuff__emit_address(emitter *self, int number, const affine *address, int buffer);
/* The store of a value at an output's address, into out. */
void tuff__emit_store(emitter *self, int index, text *out);
/* Its value alone: what of a pass is emitted before any of it is stored. */
void tuff__emit_stored_value(emitter *self, int index);
/* Writes a value by itself, its statements in texts->vector or texts->scalar, those that forms share in texts->row;
   answers an expression of it. gathers: of a vector, as emitter says; such a form comes last. */
snippet tuff__emit_form(emitter *self, int value, bool vector, bool gathers, pass_texts *texts);
const char *tuff__type_name(tuff_dtype dtype, bool vector);
const char *tuff__prefix(tuff_dtype dtype); /* "", "I", "U", "B" */
snippet tuff__format(const char *format, ...) PRINTF_LIKE(1, 2);

#endif
