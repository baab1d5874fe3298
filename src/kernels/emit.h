/* Writes the statements of a chain in the kernel dialect, in place of the placeholders of a body (NAME.k). */
#ifndef TUFF_KERNELS_EMIT_H
#define TUFF_KERNELS_EMIT_H

#include "base/text.h"
#include "kernels/chain.h"

/* The order in which a body iterates over its domain, and so the axis along which its vectors lie. */
typedef enum walk {
    WALK_MAP,    /* the innermost axis */
    WALK_ROW,    /* the innermost loop axis */
    WALK_COLUMN, /* the innermost outer axis; each vector covers all loop axes */
    WALK_MATMUL, /* the columns of the result */
    WALK_SCAN    /* the loop axis, element by element */
} walk;

/* The statements of one pass over the domain. Fields are named after the placeholders that they replace. */
typedef struct pass_texts {
    text row; /* once before the pass */
    text run; /* inside the outer loop axes (for columns: before them) */
    text vector, scalar;
    /* Columns in vectors, several of which an item owns (vector j). declare: arrays over the vectors; each_run: what
       varies along rows alone, once per row; open and fetch: what a vector reads from both; close: what it writes
       back. */
    text declare, each_run, open, fetch, close;
    text clear, reset_vector, reset_scalar, add_vector, add_scalar, combine;
    text prefetch; /* matmul: prefetches what a vector of its epilogue reads */
} pass_texts;

typedef enum emit_mode { EMIT_BOTH, EMIT_VECTOR, EMIT_SCALAR } emit_mode;

/* What is known of a value, and of an output's address. Passes: of a row in vectors, -1: none. */
typedef struct value_state {
    int first_pass;       /* computes it */
    int last_pass;        /* found so far to need it */
    unsigned char named;  /* bit set of the places where it has a name */
    unsigned char placed; /* bit set of the parts of its address written so far */
    bool uniform;         /* the same for all lanes of a vector, though it varies between vectors */
    bool exact;           /* a discontinuous op depends on it */
    bool kept;            /* saved by its first pass for later ones */
    bool expensive;       /* worth keeping */
} value_state;

typedef struct emitter {
    const fused_chain *chain;
    walk walk;
    int vec;
    bool aligned_only;    /* vectors may only be accessed whole at aligned addresses (GLSL, and OpenCL on GPUs) */
    value_state *states;  /* of the values, and after them of the outputs */
    int row_steps;        /* row shared by lanes: vectors that each lane keeps in registers; 0: none */
    bool has_reciprocals; /* x / y is computed as x * (1 / y) if many x share one y */
    bool prefetches;      /* rows prefetch the elements of the next row */
    int pass;
    int vector_axis;     /* -1 if the domain has none */
    int32_t *parameters; /* the values of PARAM(i) */
    int parameter_count, parameter_capacity;
    bool vector;    /* vectors are being written */
    bool gathers;   /* vectors of elements at arbitrary columns: `column` is an ivec */
    int loop_depth; /* > 0 while writing what varies only along the loop of WALK_COLUMN */
    pass_texts *texts;
    tuff_status status;
} emitter;

tuff_status tuff__emitter_create(const fused_chain *chain, walk walk, int vec, bool aligned_only, emitter *out);
void tuff__emitter_free(emitter *self);

/* Finds the values of a row that are expensive and needed again after the first pass that computes them. An item keeps
   them as long as they fit in private_bytes. If lanes share a row, row_steps vectors each, the values are kept in
   registers (private_bytes are those of registers), and so are those loaded in more than one pass. */
void tuff__find_kept_values(emitter *self, int private_bytes, int row_steps);

/* Makes the later passes over a row prefetch what the first pass over the next row will read. */
void tuff__emit_prefetch(emitter *self, int pass);
/* Makes a matmul's tile prefetch what its epilogue will read. */
void tuff__emit_epilogue_prefetch(emitter *self);

/* Adds a parameter and returns its number. */
int tuff__emit_parameter(emitter *self, int64_t value);
/* Writes the coordinates of the outer axes, computed from the flat index in variable `from`. */
void tuff__emit_coordinates(emitter *self, const char *from, text *out);
/* Writes the coordinates of the loop axes except the vector axis, computed from the flat index in variable `from`. */
void tuff__emit_loop_coordinates(emitter *self, const char *from, text *out);
/* Writes the base address of an operand as `const int NAME_base`. */
void tuff__emit_operand(emitter *self, int index, text *out);
/* Writes one pass into texts, which must be zero; the caller frees it with tuff__pass_texts_free. */
tuff_status tuff__emit_pass(emitter *self, int pass, emit_mode mode, pass_texts *texts);
/* Writes the stores that happen once, after the last pass. */
tuff_status tuff__emit_finish(emitter *self, bool vector, text *out);
void tuff__pass_texts_free(pass_texts *texts);

#endif
