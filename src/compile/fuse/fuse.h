/* Fusion decides which nodes are materialized, that is, get memory of their own, and which tasks compute them. A task
   is a domain to iterate over, the nodes that it stores and, depending on its kind, a core: reductions, a matmul, a
   cumulative sum or a scatter. All other nodes are inlined into the kernels that need them. */
#ifndef TUFF_COMPILE_FUSE_FUSE_H
#define TUFF_COMPILE_FUSE_FUSE_H

#include "compile/rewrite/passes.h"
#include "compile/rewrite/view.h"
#include "kernels/chain.h"

typedef enum task_kind {
    TASK_MAP,
    TASK_ROW,
    TASK_COLUMN,
    TASK_MATMUL,
    TASK_SCAN,
    TASK_SCATTER,
    TASK_ATTENTION, /* a result and its log-sum-exp, or gradients: all nodes that the one kernel stores are roots */
    TASK_NONE
} task_kind;

struct task {
    task_kind kind; /* TASK_NONE: merged into another task */
    tuff_shape domain;
    int64_t count;        /* elements of the domain */
    uint32_t loop_axes;   /* axes of the domain that are reduced, or scanned in order */
    uint32_t column_axes; /* ROW: axes of the rows that one work-item reads and whose columns it sums; 0: none */
    uint32_t in_columns;  /* bit i: reduction i runs over column_axes instead */
    const node *core;     /* MATMUL, SCAN, SCATTER, ATTENTION */
    const node *reductions[MAX_REDUCTIONS];
    int reduction_count;
    const node *roots[MAX_OUTPUTS]; /* the nodes it stores */
    int root_count;
    const node **reads; /* the nodes it reads from memory, each once */
    int read_count;
};

/* What fusion knows about a node. */
typedef struct node_facts {
    bool materialized;   /* has memory of its own */
    bool forced;         /* materialized because a chain cannot address the memory under it */
    bool is_output;      /* materialized because it is an output, or assigned to an array */
    bool compared;       /* several kernels may compare it for equality: computed once, stored at full precision */
    bool computed_once;  /* compared, and another computation of it may round differently */
    bool no_epilogue;    /* a matmul without an epilogue */
    bool is_producer;    /* not materialized though a matmul's operand: computed where the matmul loads it */
    bool patches;        /* a producer that makes a convolution's patches, in each matmul that reads them */
    bool row_major;      /* must be row-major, because a chain cannot address it otherwise */
    bool has_layout;     /* its memory has the layout `layout` instead of a row-major one */
    view layout;
    int task;               /* index of the task that stores or computes it; -1: none */
    int consumer_count;     /* uses as an input of the graph's nodes */
    const node *consumer;   /* one of them */
    tuff_dtype storage;     /* dtype of its elements in memory, unless it is inlined or a source */
    tuff_dtype rounding;    /* f16 or bf16: values are rounded to it before they are stored as f32; f32: not rounded */
    const node *placed_in;  /* the concat into whose memory it is written, or NULL */
    int64_t placed_at;      /* index of its first element in that memory; `layout` places the others */
    const node *next_part;  /* the part of the same concat with the next higher id; NULL: the last one */
    const node *first_part; /* a concat that is written part by part: the part with the lowest id; else NULL */
} node_facts;

struct fusion {
    tuff_graph *graph;       /* simplified; not owned */
    const node **attentions; /* its results and gradients of attention, in the order of their ids */
    int attention_count;
    node_facts *facts; /* by node id */
    int *marks, mark;  /* scratch for traversals: a node is marked when its mark is `mark` */
    struct task *tasks;
    int task_count, task_capacity;
    int task_version; /* counts changes of what tasks read */
    tuff_fuse_mode mode;
    tuff_family family;
    bool is_deterministic;
    tuff_precision precision;
    tuff_precision matmul_precision; /* what f32 factors are rounded to if the device has matrix units */
    bool by_library;                 /* a library computes matmuls, which then have no producers and epilogues */
    int buffer_limit;                /* buffers that one kernel can bind */
    int *recomputation_begins;       /* by recomputation number: the id of its first node */
    pass_choices *passes;            /* borrowed while the fusion is made; may be NULL */
};

/* Groups the nodes of a simplified graph into tasks and orders them. passes may be NULL. */
tuff_status tuff__fuse(tuff_graph *graph, const tuff_compile_options *options, int buffer_limit, pass_choices *passes,
                       struct fusion *out);
void tuff__fusion_free(struct fusion *fusion);
/* Returns what the plan allows the f32 factors of a matmul or an attention to be rounded to on matrix units: f16, bf16,
   or f32 for no rounding. Optimizers compute in f32 whatever the precision of the plan, unless matmul_precision allows
   rounding. */
tuff_dtype tuff__factor_precision(const struct fusion *fusion, const node *core);

/* Recomputes values near their late readers instead of keeping them, if that does not extend the lifetime of anything
   else. If it sets *changed, the graph must be fused again. */
tuff_status tuff__recompute(struct fusion *fusion, bool *changed);

/* A value that is recomputed, instead of being kept, for readers with an id of at least first_late_reader. */
typedef struct recomputed {
    int id, first_late_reader;
} recomputed;
/* Ranks the values that are idle while memory use is at its peak, the one that costs least per byte saved first. The
   caller frees *out, also after a failure. */
tuff_status tuff__rank_recomputed(struct fusion *fusion, recomputed **out, int *count);
/* Recomputes the first count values of a ranking; the graph must then be fused again. */
tuff_status tuff__recompute_ranked(struct fusion *fusion, const recomputed *list, int count);

/* Returns the first node id of the recomputation that the task belongs to: nodes with lower ids are computed before the
   task and never in it. Returns 0 if it belongs to none. */
int tuff__task_recomputation_begin(const struct fusion *fusion, const struct task *task);
/* Returns the highest id of the nodes that a task stores. */
int tuff__task_newest_root(const struct task *task);
/* Whether the task stores the node or computes it on the way, as its core or a reduction. */
bool tuff__task_computes(const struct task *task, const node *at);
/* Whether the task reads the node's memory. */
bool tuff__task_reads(const struct task *task, const node *at);

/* Whether the node has memory: a source, or a materialized node. */
static inline bool tuff__is_materialized(const struct fusion *fusion, const node *at)
{
    return tuff__op_is_source(at->op) || fusion->facts[at->id].materialized;
}

/* Whether a kernel can bind the chain's buffers besides that of its parameters and packed copies of two operands. */
static inline bool tuff__can_bind(const struct fusion *fusion, const fused_chain *chain)
{
    return chain->buffer_count <= fusion->buffer_limit - 3;
}

/* Returns the memory layout of a source or a materialized node. */
view tuff__fusion_layout(const struct fusion *fusion, const node *at);

/* Builds the chain of a task: its values, reductions, outputs and buffers, whose ids are node ids. If a value cannot be
   addressed, *give_up is the node that must be materialized first, and the chain is empty; on success it is NULL. Sets
   *impossible if the task cannot be built whatever is materialized, or if its kernel would compute a value anew that
   must be computed only once. */
tuff_status tuff__chain_build(const struct fusion *fusion, const struct task *task, fused_chain *out,
                              const node **give_up, bool *impossible);

/* Follows an operand through views to its base, which it returns, and computes the operand's view of the base's memory.
   Reports failure in *give_up as tuff__chain_build does. */
const node *tuff__operand_view(const struct fusion *fusion, const tuff_tensor *operand, view *out,
                               const node **give_up);
/* Does the same for an operand of a matmul, which may also be under a cast from f16 or bf16 to f32. A node fused as a
   producer is treated as if it lay in memory row-major. */
const node *tuff__factor_view(const struct fusion *fusion, const tuff_tensor *operand, view *out, const node **give_up);

/* Whether a task stores no elements at all. */
bool tuff__task_is_empty(const struct task *task);
/* Fills in the nodes that a task reads: sources, and nodes that other tasks store. */
tuff_status tuff__task_find_reads(struct fusion *fusion, struct task *task);
/* Chooses the dtype in memory of the values that have memory (facts storage and rounding). */
tuff_status tuff__choose_storage(struct fusion *fusion);
/* Decides which nodes have memory. It is called again after a chain gave up on a node, whose fact `forced` is then
   set. */
void tuff__choose_materialized(struct fusion *fusion);
/* If a concat has memory, or more parts than a kernel should select from, has its parts written straight into its
   memory. */
void tuff__write_parts_in_place(struct fusion *fusion, const node *concat);
/* Joins tasks that iterate over the same domain. */
tuff_status tuff__merge_tasks(struct fusion *fusion);
/* Whether a row task can also compute a column task's sums while it passes over its rows. */
typedef enum column_fit {
    COLUMNS_DO_NOT_FIT,
    COLUMNS_FIT,          /* the tasks can be joined as they are */
    COLUMNS_FIT_IN_BLOCKS /* once the column task is cut into sums of *block_rows rows each */
} column_fit;
column_fit tuff__fit_columns(const struct fusion *fusion, const struct task *row, const struct task *column,
                             int64_t *block_rows);
/* Returns the index of the task that writes a node's memory; -1 for sources and for concats that are written part by
   part. */
int tuff__task_writer(const struct fusion *fusion, const node *at);
/* What is known about the order of one task and the others. Of many tasks that may join the same one, each search goes
   on where the one before it stopped. */
struct task_order {
    int task, version; /* the task; fusion.task_version when the search began */
    bool *needed;      /* by task: whether `task` needs its results through at least one other task */
    char *needs;       /* by task: whether it needs results of `task` */
};
/* Returns false if memory runs out. The caller frees *out in either case. */
bool tuff__task_order_init(const struct fusion *fusion, struct task_order *out);
void tuff__task_order_free(struct task_order *order);
/* Whether the second task can run together with the first: neither waits for the other by way of a third task, the
   first does not wait for the second, and both run at about the same time. Results are cached for the latest
   `second`. */
bool tuff__order_allows_merge(struct fusion *fusion, int first, int second, struct task_order *order);
/* Whether two tasks may become one: they can run together, and the second reads, element by element, what the first
   writes or what both read. */
bool tuff__may_join(struct fusion *fusion, int first, int second, struct task_order *order);
/* Cuts column sums that could join a row task into sums over blocks of rows and a sum of these. If it sets *changed,
   the graph must be fused again. */
tuff_status tuff__cut_columns(struct fusion *fusion, bool *changed);
/* Moves maps that only one operand of a matmul needs into the matmul's loads, if that takes less time. */
tuff_status tuff__fuse_producers(struct fusion *fusion);
typedef bool (*task_visitor)(struct fusion *fusion, int index, void *state);
/* Calls visit for every task whose results the task reads, until a call returns true. Returns whether one did. */
bool tuff__any_source(struct fusion *fusion, const struct task *task, task_visitor visit, void *state);
/* Sorts the tasks into an order of execution that keeps little memory alive, and drops those that were merged away. */
tuff_status tuff__order_tasks(struct fusion *fusion);

#endif
