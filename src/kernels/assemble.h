/* Puts a kernel together: the language's prelude, the maths that is used, the buffers, the body NAME.k with its
   tunables, and the statements of the chain in the body's open places. */
#ifndef TUFF_KERNELS_ASSEMBLE_H
#define TUFF_KERNELS_ASSEMBLE_H

#include "kernels/emit.h"

#define MAX_FIXED 80

typedef struct assembly_request {
    const char *body;         /* "map": src/kernels/bodies/map.k */
    const char *name;         /* of the kernel function */
    const fused_chain *chain; /* NULL for bodies without open places */
    walk walk;
    bool glsl;           /* else OpenCL C */
    bool narrow_storage; /* the device stores single 8-bit and 16-bit elements */
    bool aligned; /* OpenCL C: vectors of four are accessed whole, where they lie at multiples of four elements */
    int vec;      /* lanes of a vector: 1, 4, 8, 16; GLSL has 4 */
    uint32_t local_size;
    int private_bytes; /* what an item may keep of a row for later passes; 0 where such memory is slow. Where it is not,
                          division is exact, so that its reciprocal will do for many divisions by one value */
    int row_steps;     /* of a row that lanes share: vectors that each keeps in registers; 0: too many */
    bool prefetches;   /* of a row body: while one row is computed, the next is asked for from memory */
    uint32_t subgroup_size; /* of a body that shuffles: the width it needs; else 0 */
    uint32_t cooperative;   /* of a body on matrix units: their form, a tuff_matrix_units; else 0 */
    const char *defines;    /* the tunables, as #define lines; may be NULL */
    const chain_buffer *buffers;
    int buffer_count;
    int64_t fixed[MAX_FIXED]; /* values of the body's @parameters, in order */
    int fixed_count;
} assembly_request;

typedef struct assembly {
    text source;
    int32_t *parameters; /* what the kernel reads through PARAM */
    int parameter_count;
} assembly;

tuff_status tuff__assemble(const assembly_request *request, assembly *out);
void tuff__assembly_free(assembly *assembly);

/* The type of a buffer's elements in the kernel's language. */
const char *tuff__memory_type(tuff_dtype dtype, const assembly_request *request);

/* The functions that make the elements of operand 0 or 1 where its chain says how (assemble_producer.c):
   `PRODUCE_x(row, column)`, PRODUCEV_x for a vector of columns from there on, PRODUCEI_x for columns in an ivec, where
   x is the operand's name; each if the request's defines use it. into_body gets what is the same for all elements and
   known to the functions, into_header the functions. Parameters are added to `with`. */
tuff_status tuff__add_producer(const assembly_request *request, int operand, emitter *self, text *into_body,
                               text *into_header);

/* The embedded text of a file, NULL where there is none. */
const char *tuff__kernel_text(const char *file_name);

#endif
