/* Lowering: tasks become launches (one kernel each, in order) over planned memory. */
#ifndef TUFF_COMPILE_LOWER_H
#define TUFF_COMPILE_LOWER_H

#include "compile/fuse.h"
#include "kernels/assemble.h"
#include "tune/choice.h"

/* A stretch of memory that launches use. Ids below the graph's node count are nodes, the rest scratch. */
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

typedef enum launch_kind { LAUNCH_KERNEL, LAUNCH_COPY, LAUNCH_PRODUCT } launch_kind;

/* One dispatch to be. */
typedef struct launch {
    launch_kind kind;
    int task; /* index of the task it serves, -1: none */
    const char *body;
    walk walk;
    fused_chain chain; /* owned; for plain bodies it holds the buffers only */
    int vec;
    uint32_t local_size;
    int private_bytes;      /* of a row that an item may keep, as assemble.h says */
    int64_t array_bytes;    /* of an item's own arrays, where a choice makes them large; of whole vectors */
    int64_t unrolled;       /* values computed behind a matmul's tile in registers, each written out */
    bool asks_ahead;        /* as assemble.h says */
    uint32_t subgroup_size; /* that the body needs; 0: any */
    uint32_t cooperative;   /* form of matrix units, as tuff_device_info says; 0: none */
    char defines[3072];
    int64_t fixed[MAX_FIXED];
    int fixed_buffer[MAX_FIXED]; /* chain buffer whose element offset is added, or -1 */
    int fixed_count;
    uint64_t groups;
    double operations;
    int tile_rows, tile_columns; /* sums that an item keeps at a time, in vectors; 0: not known */
    double terms;                /* that are added to each of them */
    uint32_t local_bytes;        /* of a group, where a choice says how many */
    double traffic;              /* bytes that blocks in local memory read, again and again */
    int copy_from, copy_to;      /* COPY: buffer ids */
    library_product product;     /* PRODUCT: of the chain's operands */
    bool setup;                  /* runs before the first step, and again when what it reads changed */
} launch;

/* A copy of a matmul's operand in panels (lower_pack.c). */
typedef struct packed_copy {
    int source, target; /* buffer ids */
    bool produced;      /* not copied but computed, from several buffers maybe: shared with no other matmul */
    int sources[MAX_CHAIN_BUFFERS], source_count; /* buffers that it is made from */
    int64_t lines, inner, width, line_stride, inner_stride;
    affine from, to;
    storage *kept; /* owned, where the copy outlives a run; else NULL */
} packed_copy;

typedef struct named_buffer {
    const char *name; /* belongs to the graph */
    int buffer;
    tuff_dtype dtype;
    tuff_shape shape;
} named_buffer;

typedef struct lowered {
    tuff_device *device;
    const struct fusion *fusion;
    tuff_family family;
    tuff_matmul_library library;
    const struct lowered *like; /* while it is lowered: whose storages are taken over; NULL: nobody's */
    const choice *choice;       /* of the task that is being lowered; NULL: the defaults */
    const choice *usual;        /* values that shorten its loops, in the place of the usual ones; NULL: none */
    choice *consulted;          /* where not NULL: gets what tasks asked for, with the usual values */
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
} lowered;

/* Makes launches of all tasks, outputs and assigns, and places all memory. out is valid only with TUFF_OK; where the
   peak is above the options' budget no temporary gets memory, and nothing but `peak` is of use. choices: by task, NULL
   where it has none; NULL: the defaults everywhere. */
tuff_status tuff__lower(tuff_device *device, const struct fusion *fusion, const tuff_compile_options *options,
                        const choice *const *choices, lowered *out);
/* The same by other choices: inputs, outputs and constants are the storages of like, which was lowered from the same
   fusion or one borrowed from it, and temporaries get its blocks where these are large enough: runs of the two must not
   overlap. like is read while this works. */
tuff_status tuff__lower_like(const lowered *like, const struct fusion *fusion, const tuff_compile_options *options,
                             const choice *const *choices, lowered *out);
/* Makes the launches of one task by a choice, without memory: of what they read and write arrays alone have theirs.
   consulted gets the tunables that were asked for, with the values they have without a choice. TUFF_E_LIMIT,
   TUFF_E_UNSUPPORTED: no such kernel can be. out is valid only with TUFF_OK. */
tuff_status tuff__lower_alone(tuff_device *device, const struct fusion *fusion, const tuff_compile_options *options,
                              int task, const choice *what, choice *consulted, lowered *out);
void tuff__lowered_free(lowered *of);

/* Between the files of this folder. */
int tuff__buffer_add(lowered *with, tuff_dtype dtype, int64_t count);            /* scratch; -1 where memory ran out */
launch *tuff__launch_add(lowered *with, const char *body, walk order, int task); /* NULL where memory ran out */
tuff_status tuff__lower_task(lowered *with, int index, const choice *what);      /* what: NULL for the defaults */
tuff_status tuff__lower_matmul(lowered *with, int index, fused_chain *chain);
tuff_status tuff__lower_scatter(lowered *with, int index);
tuff_status tuff__lower_attention(lowered *with, int index);
/* The launch of a chain without reductions; takes the chain. */
tuff_status tuff__lower_map(lowered *with, int task, fused_chain *chain);
/* Copies source's elements to target converted to its dtype. */
tuff_status tuff__lower_convert(lowered *with, int source, int target);
tuff_status tuff__plan_memory(lowered *with);
/* The same without memory, for the launches of one task: as aligned, and buffers that would be the same memory are, in
   storages that nobody may look into. */
void tuff__plan_on_paper(lowered *with);
uint64_t tuff__buffer_size(const memory_buffer *of);
/* What the task that is being lowered is to use, by the options and its choice. */
tuff_family tuff__family(const lowered *with);
tuff_matmul_library tuff__library(const lowered *with);
/* Whether kernels keep to one item a row or tile, without local memory. */
bool tuff__uses_registers(const lowered *with);
/* The value of a tunable for the device; a CPU device that is asked for the local family gets a GPU's. */
int tuff__tuned(const lowered *with, tunable of);
/* Bytes of arrays that an item may have where local_size of them are a group. */
int64_t tuff__most_array_bytes(const lowered *with, uint32_t local_size);
/* How often loops of an item go round in a launch, at most; and the first launch from there on in which that is more
   than the driver allows, or NULL. */
double tuff__loop_steps(const launch *of);
const launch *tuff__find_long_loop(const lowered *with, int first);
/* Usual values for another attempt, from 0 on, at a task whose loops are too long; false: there are no more. */
bool tuff__shorten_loops(int attempt, choice *usual);
/* TUFF_E_LIMIT, with the op, its extents and the driver's limit. */
tuff_status tuff__refuse_long_loop(const lowered *with, const launch *of);
/* Lanes of the device's own float vectors: 4, 8 or 16. */
int tuff__native_lanes(const lowered *with);
/* Registers of a vector of so many lanes: several, where the device's own vectors have fewer. */
int tuff__vector_registers(const lowered *with, int lanes);
/* Lanes of a vector where extent is walked by vectors. */
int tuff__vector_width(const lowered *with, int64_t extent);
bool tuff__is_vulkan(const lowered *with);
int64_t tuff__divide_up(int64_t a, int64_t b);

#endif
