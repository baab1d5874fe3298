/* Fusion: which nodes are materialized, that is, have memory of their own, and which tasks compute them. A task is a
   domain to walk, the nodes it stores, and, by kind, a core: reductions, a matmul, a cumulative sum, a scatter.
   Everything else is inlined into the kernels that need it. */
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
    TASK_ATTENTION, /* a result and its log-sum-exp, or gradients: the nodes that one kernel stores are all roots */
    TASK_NONE
} task_kind;

struct task {
    task_kind kind; /* TASK_NONE: merged into another */
    tuff_shape domain;
    uint32_t loop_axes;   /* of the domain: reduced or walked in order */
    uint32_t column_axes; /* of a ROW's domain: the rows that one item walks and adds up in columns; 0: none */
    uint32_t in_columns;  /* bit i: reduction i is over those instead */
    const node *core;     /* of MATMUL, SCAN, SCATTER, ATTENTION */
    const node *reductions[MAX_REDUCTIONS];
    int reduction_count;
    const node *roots[MAX_OUTPUTS]; /* what it stores */
    int root_count;
    const node **reads; /* what it needs from memory, each once */
    int read_count;
};

/* What fusion knows of each node. */
typedef struct node_facts {
    bool materialized;   /* has memory of its own */
    bool forced;         /* because a chain cannot address what lies behind it */
    bool kept;           /* because it is an output or assigned */
    bool compared;       /* for equality, by more than one kernel: computed once, and stored with all of its bits */
    bool alone;          /* a matmul that takes nothing into its epilogue */
    bool prologue_fused; /* has none, though a matmul's operand: computed where that is loaded */
    bool patches;        /* so are the patches of a convolution, for each matmul that reads them */
    bool in_rows;        /* must be laid out row by row, because a chain cannot address it otherwise */
    bool ordered;        /* its memory is laid out as `layout` says, not row by row */
    view layout;
    int task;               /* that stores or computes it; -1 */
    int consumer_count;     /* uses by live nodes, outputs and assigns */
    const node *consumer;   /* one of them */
    tuff_dtype storage;     /* of its elements in memory, where it has any and is no source */
    tuff_dtype rounding;    /* f16 or bf16: what values are rounded to before they are stored as f32; f32: not at all */
    const node *placed;     /* the concat whose memory it is written into, or NULL */
    int64_t placed_at;      /* its first element, counted in that; `layout` says where the others are */
    const node *next_part;  /* the next one that is written into the same concat, by id; NULL: the last */
    const node *first_part; /* of a concat that is written by parts */
} node_facts;

struct fusion {
    tuff_graph *graph; /* simplified; not owned */
    node_facts *facts; /* by node id */
    int *marks, mark;  /* scratch for walks: a node is marked when its mark is `mark` */
    struct task *tasks;
    int task_count, task_capacity;
    tuff_fuse_mode mode;
    tuff_family family;
    tuff_precision precision;
    tuff_precision matmul_precision; /* that f32 factors are rounded to, where the device has matrix units */
    bool by_library;      /* a library computes matmuls: they have no prologues and epilogues */
    int buffer_limit;     /* of one kernel */
    int *copy_begins;     /* by number of a recomputation: the id of its first node */
    pass_choices *passes; /* borrowed while it is made; may be NULL */
};

/* Groups the nodes of a simplified graph into tasks and orders them. passes may be NULL. */
tuff_status tuff__fuse(tuff_graph *graph, const tuff_compile_options *options, int buffer_limit, pass_choices *passes,
                       struct fusion *out);
void tuff__fusion_free(struct fusion *fusion);
/* What the plan lets f32 factors be rounded to on matrix units: f16, bf16, or f32 for not at all. */
tuff_dtype tuff__factor_precision(const struct fusion *fusion);

/* Recomputes values near their late readers instead of keeping them, where that keeps nothing else alive for longer.
   Where *changed, the graph must be fused anew. */
tuff_status tuff__recompute(struct fusion *fusion, bool *changed);

/* A value that readers from id `late` on get computed again instead of kept. */
typedef struct recomputed {
    int id, late;
} recomputed;
/* Ranks the values that lie idle while most memory is in use: recomputing the first saves memory at the least cost. The
   caller frees *out, after a failure too. */
tuff_status tuff__rank_recomputed(struct fusion *fusion, recomputed **out, int *count);
/* Recomputes the first count values of a ranking; the graph must then be fused anew. */
tuff_status tuff__recompute_ranked(struct fusion *fusion, const recomputed *list, int count);

/* Nodes below this id are computed before the task and never in it: the first node of the recomputation that it belongs
   to; 0 where it belongs to none. */
int tuff__task_begin(const struct fusion *fusion, const struct task *task);
/* The highest id of what a task stores. */
int tuff__task_newest(const struct task *task);

/* The layout of a materialized node's or a source's memory. */
view tuff__fusion_layout(const struct fusion *fusion, const node *at);

/* Writes the chain of a task: its values, reductions, outputs and buffers (ids are node ids). Where a value cannot be
   addressed, *give_up is the node that must be materialised first (the chain is then empty); it is NULL on success.
   *impossible: the task itself cannot be, whatever is materialised. */
tuff_status tuff__chain_build(const struct fusion *fusion, const struct task *task, fused_chain *out,
                              const node **give_up, bool *impossible);

/* Where operand leads through views: its base, and the view of the base's memory. Like tuff__chain_build for what
   fails. */
const node *tuff__operand_view(const struct fusion *fusion, const tuff_tensor *operand, view *out,
                               const node **give_up);
/* The same for an operand of a matmul, which may be behind a cast from f16 or bf16 to f32 too. A node fused as a
   prologue is seen as if it lay in memory row by row. */
const node *tuff__factor_view(const struct fusion *fusion, const tuff_tensor *operand, view *out, const node **give_up);

/* True where a task stores no elements at all. */
bool tuff__task_is_empty(const struct task *task);
/* Fills in what a task reads: sources, and nodes that other tasks store. */
tuff_status tuff__task_find_reads(struct fusion *fusion, struct task *task);
/* Decides with which dtype the values that have memory lie there (facts storage and rounding). */
tuff_status tuff__choose_storage(struct fusion *fusion);
/* Decides which nodes have memory. Called again after a chain gave up on a node (its fact `forced` is then set). */
tuff_status tuff__choose_materialized(struct fusion *fusion);
/* Where a concat has memory, or more parts than one kernel should walk: has its parts written straight into it. */
void tuff__write_parts_in_place(struct fusion *fusion, const node *concat);
/* Joins tasks that walk one domain. */
tuff_status tuff__merge_tasks(struct fusion *fusion);
/* Whether a row task can add up a column task's columns while it passes over the rows. */
typedef enum column_fit {
    COLUMNS_DO_NOT_FIT,
    COLUMNS_FIT,          /* as they are */
    COLUMNS_FIT_IN_BLOCKS /* once the column task is cut into sums of *block_rows rows each */
} column_fit;
column_fit tuff__fit_columns(const struct fusion *fusion, const struct task *row, const struct task *column,
                             int64_t *block_rows);
/* The task that writes a node's memory; for a concat written by parts, and for sources, -1. */
int tuff__task_writer(const struct fusion *fusion, const node *at);
/* Whether neither of two tasks keeps the other from running at its time. */
bool tuff__can_run_together(struct fusion *fusion, int first, int second, bool *seen);
/* Whether tasks may become one: the second reads what the first writes, or both something else, and neither waits for
   the other by way of a third. seen is scratch for all tasks. */
bool tuff__may_join(struct fusion *fusion, int first, int second, bool *seen);
/* Cuts the sums of columns that could join a row task into sums of blocks of rows and the sum of these. After *changed
   the graph must be fused anew. */
tuff_status tuff__cut_columns(struct fusion *fusion, bool *changed);
/* Takes maps that only an operand of a matmul reads into the matmul's loads, where that takes less time. */
tuff_status tuff__fuse_prologues(struct fusion *fusion);
typedef bool (*task_visitor)(struct fusion *fusion, int index, void *state);
/* Calls visit for every task whose results the task reads, until one returns true. */
bool tuff__any_source(struct fusion *fusion, const struct task *task, task_visitor visit, void *state);
/* Sorts tasks into an order of execution that keeps little memory alive, and drops those merged away. */
tuff_status tuff__order_tasks(struct fusion *fusion);

#endif
