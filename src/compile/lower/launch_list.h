/* Launch lists: the kernels, copies and library calls that lowering generates for tasks, in order, and the buffers they
   use. Lowering builds a list, verify_launches.h checks it, and a plan assembles, compiles and records it. */
#ifndef TUFF_COMPILE_LOWER_LAUNCH_LIST_H
#define TUFF_COMPILE_LOWER_LAUNCH_LIST_H

#include "compile/fuse/fuse.h"
#include "compile/schedule/kernel_policy.h"
#include "kernels/assemble.h"

/* A region of memory that launches use. Ids below the graph's node count are nodes, the others scratch. */
typedef struct memory_buffer {
    bool used;
    tuff_dtype dtype; /* of the elements in memory; for temporaries 32-bit, or the 16-bit one of the plan's precision */
    int64_t count;
    storage *storage; /* set for inputs, outputs and arrays; for temporaries once memory is planned */
    uint64_t offset;  /* in bytes, into the storage */
    bool fixed;       /* has its storage from the start, so it is not planned */
    int first, last;  /* the launches between which its contents are live */
    int parent;       /* the buffer it is a part of, or -1 */
    int64_t parent_at;
    uint64_t planned; /* in bytes, into the plan's blocks: block number · 2^48 + offset */
} memory_buffer;

typedef enum launch_kind { LAUNCH_KERNEL, LAUNCH_COPY, LAUNCH_LIBRARY_GEMM } launch_kind;

/* One dispatch, before it is assembled and compiled. */
typedef struct launch {
    launch_kind kind;
    int task; /* index of the task it belongs to, or -1 */
    const char *body;
    walk walk;
    fused_chain chain; /* owned; bodies without a chain use only its buffers */
    int vec;
    bool aligned; /* see assemble.h */
    uint32_t local_size;
    int row_steps;          /* see assemble.h */
    int private_bytes;      /* see assemble.h */
    int64_t array_bytes;    /* of an item's private arrays, in whole vectors; set if a tunable can make them large */
    int64_t unrolled;       /* values computed in the epilogue of a register tile, which is fully unrolled */
    bool prefetches;        /* see assemble.h */
    uint32_t subgroup_size; /* width that the body requires; 0: any */
    uint32_t exchange_form; /* see assemble.h */
    register_count registers; /* the text has FEW_REGISTERS or MANY_REGISTERS, too */
    uint32_t cooperative;   /* form of the matrix units, a tuff_matrix_units; 0: none */
    bool pairs;             /* see assemble.h */
    char defines[3072];
    int64_t parameters[MAX_PARAMETERS];    /* values of the body's @parameters, in order */
    int parameter_buffers[MAX_PARAMETERS]; /* the chain buffer whose element offset is added to each, or -1 */
    int parameter_count;
    uint64_t groups;
    double operations;
    int tile_rows, tile_columns; /* accumulators of an item, in vectors; 0: unknown */
    double k;                    /* steps of each accumulator along k */
    uint32_t local_bytes;        /* local memory of a group, if a tunable determines it */
    double traffic;              /* bytes read into blocks in local memory, repeated reads included */
    int copy_from, copy_to;      /* LAUNCH_COPY: buffer ids */
    library_product product;     /* LAUNCH_LIBRARY_GEMM: the product of the chain's operands */
    bool setup;                  /* runs before the first step, and again if its inputs changed */
} launch;

/* A copy of a matmul's operand in panels (lower_pack.c). */
typedef struct packed_copy {
    int source, target; /* buffer ids */
    bool produced;      /* computed by a producer, maybe from several buffers, and not shared with other matmuls */
    int sources[MAX_CHAIN_BUFFERS], source_count; /* the buffers it is made from */
    int64_t lines, inner, width, line_stride, inner_stride;
    affine from, to;
    bool is_kept;  /* stays valid between runs */
    storage *kept; /* its memory if it is kept, allocated with the plan's; owned */
} packed_copy;

typedef struct named_buffer {
    const char *name; /* owned by the graph */
    int buffer_id;
    tuff_dtype dtype;
    tuff_shape shape;
} named_buffer;

/* What a plan runs and the memory it uses, for one task or for all. Owns everything but device and fusion. */
typedef struct launch_list {
    tuff_device *device;
    const struct fusion *fusion;
    kernel_policy policy;           /* holds the configuration of a task only while that task is lowered */
    const struct launch_list *reuse_from; /* during lowering: the list whose storages are reused, or NULL */
    memory_buffer *buffers;
    int buffer_count, buffer_capacity;
    launch *launches;
    int launch_count, launch_capacity;
    named_buffer *inputs, *outputs;
    int input_count, output_count;
    storage **blocks; /* memory of the temporaries */
    int block_count;
    storage *constants;
    packed_copy *copies;
    int copy_count, copy_capacity;
    uint64_t budget; /* bytes that temporaries may use */
    uint64_t peak, unplanned, constant_size;
} launch_list;

void tuff__launch_list_free(launch_list *list);

int tuff__buffer_add(launch_list *list, tuff_dtype dtype, int64_t count);            /* scratch; -1 if out of memory */
/* Returns a buffer of the list as a chain reads or writes it. */
chain_buffer tuff__chain_buffer(const launch_list *list, int id, bool written);
launch *tuff__launch_add(launch_list *list, const char *body, walk order, int task); /* NULL if out of memory */
uint64_t tuff__buffer_size(const memory_buffer *buffer);
/* Sets the parameters of a body that has no address among them. */
void tuff__set_parameters(launch *kernel, const int64_t *values, int count);
/* Moves the macros in `defines` into the launch. */
tuff_status tuff__set_defines(launch *kernel, text *defines);

/* Equal kernels over equal grids have equal hashes. Sets *items to the size of the largest work-group. */
uint64_t tuff__launch_list_hash(const launch_list *list, uint32_t *items);
/* Bytes that a run moves, plus an eighth of a byte per operation: the weight of a task before anything is timed. */
double tuff__launch_list_traffic(const launch_list *list);
/* Estimated cycles of the launches of one task (compile/schedule/cost.h); 0 if unknown, as for library calls. */
double tuff__launch_list_cost(const launch_list *list);

#endif
