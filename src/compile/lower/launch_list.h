/* Launch lists: the kernels, copies and library calls that lowering makes of tasks, in order, and the buffers they use.
   Lowering fills them in, verify.h checks them, and a plan assembles, compiles and records them. */
#ifndef TUFF_COMPILE_LOWER_LAUNCH_LIST_H
#define TUFF_COMPILE_LOWER_LAUNCH_LIST_H

#include "compile/fuse/fuse.h"
#include "compile/schedule/kernel_policy.h"
#include "kernels/assemble.h"

/* A region of memory that launches use. Ids below the graph's node count are nodes, the rest scratch. */
typedef struct memory_buffer {
    bool used;
    tuff_dtype dtype; /* of its elements in memory; temporaries are 32-bit */
    int64_t count;
    storage *storage; /* set for inputs, outputs, arrays; for temporaries after planning */
    uint64_t offset;  /* bytes into the storage */
    bool fixed;       /* has its storage from the start */
    int first, last;  /* launches between which its contents matter */
    int parent;       /* the buffer it is a part of, or -1 */
    int64_t parent_at;
    uint64_t planned; /* bytes into the plan's blocks: block number · 2^48 + offset */
} memory_buffer;

typedef enum launch_kind { LAUNCH_KERNEL, LAUNCH_COPY, LAUNCH_LIBRARY_GEMM } launch_kind;

/* One dispatch, before it is assembled and compiled. */
typedef struct launch {
    launch_kind kind;
    int task; /* index of the task it serves, -1: none */
    const char *body;
    walk walk;
    fused_chain chain; /* owned; for plain bodies it holds the buffers only */
    int vec;
    bool aligned; /* as assemble.h says */
    uint32_t local_size;
    int row_steps;          /* of a row that lanes share, as assemble.h says */
    int private_bytes;      /* of a row that an item may keep, as assemble.h says */
    int64_t array_bytes;    /* of an item's own arrays, where a choice makes them large; of whole vectors */
    int64_t unrolled;       /* values computed behind a matmul's tile in registers, each written out */
    bool prefetches;        /* as assemble.h says */
    uint32_t subgroup_size; /* that the body needs; 0: any */
    bool many_registers;    /* lanes need more than others, where there are such (MANY_REGISTERS in the text, too) */
    uint32_t cooperative;   /* form of matrix units, as tuff_device_info says; 0: none */
    char defines[3072];
    int64_t fixed[MAX_FIXED];
    int fixed_buffer[MAX_FIXED]; /* chain buffer whose element offset is added, or -1 */
    int fixed_count;
    uint64_t groups;
    double operations;
    int tile_rows, tile_columns; /* accumulators of an item, in vectors; 0: not known */
    double k;                    /* steps of each of them */
    uint32_t local_bytes;        /* of a group, where a choice says how many */
    double traffic;              /* bytes that blocks in local memory read, again and again */
    int copy_from, copy_to;      /* COPY: buffer ids */
    library_product product;     /* LIBRARY_GEMM: of the chain's operands */
    bool setup;                  /* runs before the first step, and again when what it reads changed */
} launch;

/* A copy of a matmul's operand in panels (lower_pack.c). */
typedef struct packed_copy {
    int source, target; /* buffer ids */
    bool produced;      /* not copied but computed, from several buffers maybe: shared with no other matmul */
    int sources[MAX_CHAIN_BUFFERS], source_count; /* buffers that it is made from */
    int64_t lines, inner, width, line_stride, inner_stride;
    affine from, to;
    bool is_kept;  /* it outlives a run */
    storage *kept; /* owned; its memory then, from when memory is planned */
} packed_copy;

typedef struct named_buffer {
    const char *name; /* belongs to the graph */
    int buffer;
    tuff_dtype dtype;
    tuff_shape shape;
} named_buffer;

/* What a plan runs, and the memory it runs over; of one task or of all. Owns everything but device and fusion. */
typedef struct launch_list {
    tuff_device *device;
    const struct fusion *fusion;
    kernel_policy policy;           /* with the configuration of a task only while that is lowered */
    const struct launch_list *like; /* while it is made: whose storages are taken over; NULL: nobody's */
    memory_buffer *buffers;
    int buffer_count, buffer_capacity;
    launch *launches;
    int launch_count, launch_capacity;
    named_buffer *inputs, *outputs;
    int input_count, output_count;
    storage **blocks; /* of temporaries */
    int block_count, block_capacity;
    storage *constants;
    packed_copy *copies;
    int copy_count, copy_capacity;
    uint64_t budget; /* bytes of temporaries that may be allocated */
    uint64_t peak, unplanned, constant_size;
} launch_list;

void tuff__launch_list_free(launch_list *list);

int tuff__buffer_add(launch_list *list, tuff_dtype dtype, int64_t count); /* scratch; -1 where memory ran out */
launch *tuff__launch_add(launch_list *list, const char *body, walk order, int task); /* NULL where memory ran out */
uint64_t tuff__buffer_size(const memory_buffer *buffer);
/* The parameters that a body names, none of them an address. */
void tuff__set_fixed(launch *kernel, const int64_t *values, int count);
/* Moves a launch's macros into it. */
tuff_status tuff__keep_defines(launch *kernel, text *defines);

/* Equal kernels over equal grids have equal hashes. *items: of the largest work-group. */
uint64_t tuff__launch_list_hash(const launch_list *list, uint32_t *items);
/* Bytes that a run moves, an operation counted as an eighth of one: the weight of a task before anything is timed. */
double tuff__launch_list_traffic(const launch_list *list);
/* About how many cycles the launches of one task take (compile/schedule/cost.h); 0: not known, as for what a library
   computes. */
double tuff__launch_list_cost(const launch_list *list);

#endif
