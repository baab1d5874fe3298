/* Assembles a kernel: the language's prelude, the mathematical functions it uses, the buffers, the body NAME.k with its
   tunables, and the statements of the chain in place of the body's placeholders. */
#ifndef TUFF_KERNELS_ASSEMBLE_H
#define TUFF_KERNELS_ASSEMBLE_H

#include "kernels/emit.h"

#define MAX_PARAMETERS 80

typedef struct assembly_request {
    const char *body;         /* "map": src/kernels/bodies/map.k */
    const char *name;         /* name of the kernel function */
    const fused_chain *chain; /* NULL for bodies without placeholders */
    walk walk;
    bool glsl;           /* else OpenCL C */
    bool narrow_storage; /* the device can store single 8-bit and 16-bit elements */
    bool aligned;        /* OpenCL C: vectors of four or eight elements at multiples of them are accessed whole */
    int vec;             /* lanes of a vector: 1, 4, 8, 16; GLSL has 4 */
    uint32_t local_size;
    int private_bytes; /* bytes of a row that an item may keep for later passes; 0 if private memory is slow. If it is
                          not, division is exact, and one reciprocal replaces many divisions by one value. With
                          row_steps: bytes of registers, from which nothing follows about division */
    int row_steps;     /* row shared by lanes: vectors that each lane keeps in registers; 0: too many */
    bool prefetches;   /* row body: prefetches the next row while one is computed */
    uint32_t subgroup_size; /* width required by a body that shuffles; else 0 */
    uint32_t exchange_form; /* a tuff_exchange_form: lanes read each other's registers as exchange.cl says; else 0 */
    uint32_t cooperative;   /* form of matrix units that the body uses, a tuff_matrix_units; else 0 */
    bool pairs;             /* loads eight 16-bit elements at multiples of eight at once, as LOADP; vec is 4 */
    const char *defines;    /* the tunables, as #define lines; may be NULL */
    const chain_buffer *buffers;
    int buffer_count;
    int64_t parameters[MAX_PARAMETERS]; /* values of the body's @parameters, in order */
    int parameter_count;
} assembly_request;

typedef struct assembly {
    text source;
    int32_t *parameters; /* the values that the kernel reads through PARAM */
    int parameter_count;
} assembly;

tuff_status tuff__assemble(const assembly_request *request, assembly *out);
void tuff__assembly_free(assembly *self);
/* Counts the bytes of registers that a lane needs for a row that lanes share: what it keeps then, and a vector for each
   other load, because compilers issue the loads of a step together. */
tuff_status tuff__count_row_bytes(const fused_chain *chain, int vec, int private_bytes, int row_steps, int *bytes);

/* Returns the type of a buffer's elements in the kernel's language. */
const char *tuff__memory_type(tuff_dtype dtype, const assembly_request *request);

/* Writes the functions that compute the elements of operand 0 or 1 as its producer says (assemble_producer.c):
   `PRODUCE_x(row, column)` for one element, PRODUCEV_x for a vector of columns that starts there, PRODUCEI_x for the
   columns in an ivec, where x is the operand's name. Each is written only if the request's defines use it. The
   functions go to into_header; statements that are the same for all elements, and passed to the functions, go to
   into_body. Parameters are added to `self`. */
tuff_status tuff__assemble_producer(const assembly_request *request, int operand, emitter *self, text *into_body,
                                    text *into_header);

/* Returns the embedded text of a file, or NULL if there is none. */
const char *tuff__kernel_text(const char *file_name);

#endif
