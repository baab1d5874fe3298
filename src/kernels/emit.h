/* Writes the statements of a chain in the kernel dialect, for the places that a body (NAME.k) leaves open. */
#ifndef TUFF_KERNELS_EMIT_H
#define TUFF_KERNELS_EMIT_H

#include "base/text.h"
#include "kernels/chain.h"

/* What a body walks, and so which axis vectors lie along. */
typedef enum walk {
    WALK_MAP,    /* the innermost axis */
    WALK_ROW,    /* the innermost loop axis */
    WALK_COLUMN, /* the innermost outer axis, each vector over all loop axes */
    WALK_MATMUL, /* the columns of the result */
    WALK_SCAN    /* the loop axis, element by element */
} walk;

/* The statements of one pass over the domain, by the name of the splice that asks for them. */
typedef struct pass_texts {
    text row; /* once before the pass */
    text run; /* inside the outer loop axes (or, for columns, before them) */
    text vector, scalar;
    /* Columns in vectors, several of which an item owns (number j of them): arrays over them; what varies along rows
       alone, once a row; what each vector needs of both, and hands back. */
    text declare, each_run, open, fetch, close;
    text clear, reset_vector, reset_scalar, add_vector, add_scalar, combine;
    text prefetch; /* of a matmul: asks for what a vector of its epilogue reads */
} pass_texts;

typedef enum emit_mode { EMIT_BOTH, EMIT_VECTOR, EMIT_SCALAR } emit_mode;

typedef struct emitter {
    const fused_chain *chain;
    walk walk;
    int vec;
    bool aligned_only;    /* whole vectors need aligned addresses (GLSL) */
    int *first_pass;      /* per value of a row in vectors: the pass that computes it first; -1 */
    int *last_pass;       /* and the last one found to need it; -1 */
    bool *kept;           /* per value: kept from its first pass for later ones */
    int row_steps;        /* of a row that lanes share: vectors that each keeps in registers; 0: none */
    bool *expensive;      /* per value of a row in vectors: worth keeping */
    bool has_reciprocals; /* x / y as x times 1/y where many x meet one y */
    bool prefetches;      /* a row asks for the elements of the next one */
    int pass;
    int vector_axis;     /* -1 where the domain has none */
    int32_t *parameters; /* what PARAM(i) gives */
    int parameter_count, parameter_capacity;
    unsigned char *named;  /* per value: the places in which it has a name */
    unsigned char *placed; /* per address: the parts written so far */
    bool *uniform;         /* per value: the same for all lanes of a vector, though it varies from vector to vector */
    bool *exact;           /* per value: the kernel computes something from it that jumps */
    bool vector;           /* writing vectors now */
    bool gathers;          /* vectors of elements anywhere: `column` is an ivec */
    int loop_depth;        /* > 0 while writing what varies along the loop of columns alone */
    pass_texts *texts;
    tuff_status status;
} emitter;

tuff_status tuff__emitter_create(const fused_chain *chain, walk walk, int vec, bool aligned_only, emitter *out);
void tuff__emitter_free(emitter *self);

/* Finds the values of a row that are expensive, and needed in a later pass than the first: an item keeps them, as long
   as they fit private_bytes. Of a row that lanes share, row_steps vectors each, they are kept in registers, and so is
   what is loaded in more than one pass. */
void tuff__find_kept(emitter *self, int private_bytes, int row_steps);

/* Has later passes over a row ask for what the first one over the next row will read. */
void tuff__emit_prefetch(emitter *self, int pass);
/* Has a matmul's tile ask for what its epilogue will read. */
void tuff__emit_epilogue_prefetch(emitter *self);

/* Adds a parameter and answers its number. */
int tuff__emit_parameter(emitter *self, int64_t value);
/* Coordinates of the outer axes from the flat index in variable `from`. */
void tuff__emit_coordinates(emitter *self, const char *from, text *out);
/* Coordinates of the loop axes but the vector axis from the flat index in variable `from`. */
void tuff__emit_loop_coordinates(emitter *self, const char *from, text *out);
/* The base address of extra operand number index, as `const int NAME_base`. */
void tuff__emit_operand(emitter *self, int index, text *out);
/* The number of passes: the highest stage and one. */
int tuff__emit_pass_count(const emitter *self);
/* Fills texts (zero, freed by tuff__pass_texts_free) with pass number pass. */
tuff_status tuff__emit_pass(emitter *self, int pass, emit_mode mode, pass_texts *texts);
/* The stores that happen once after the last pass. */
tuff_status tuff__emit_finish(emitter *self, bool vector, text *out);
void tuff__pass_texts_free(pass_texts *texts);

#endif
