/* The launch of attention's gradients on matrix units, in the place of the heavy one of lower_attention_local.c: on
   units whose lanes know which sums they have, as attention_backward_cooperative.k says. Widths beyond MAX_WIDTH,
   attention without softmax, and the gradient of the bias stay with the other kernels. */
#include "base/checked.h"
#include "compile/lower/lower_attention.h"
#include "compile/lower/lower_matmul.h"

enum { SIDE = 16, MAX_WIDTH = 128 }; /* of a block, in each direction */

static int power_of_2(int64_t least)
{
    int power = SIDE;
    while (power < least)
        power *= 2;
    return power;
}

static int64_t local_bytes(const attention_units *use)
{
    const int64_t widths = use->depth + use->width, keys = use->keys, queries = use->queries;
    return (int64_t)sizeof(uint16_t) * (keys * widths + queries * widths + keys * queries) +
           (int64_t)sizeof(float) * 2 * queries;
}

static bool fits(const attention *job, const attention_units *use)
{
    const tuff_device_info *info = job->list->policy.target.info;
    return local_bytes(use) <= (int64_t)info->local_memory_size && use->queries <= use->lanes &&
           use->lanes <= (int)info->max_group_size;
}

static void set_subgroups(const tuff_device_info *info, int subgroups, attention_units *use)
{
    use->keys = subgroups * SIDE;
    use->lanes = subgroups * (int)info->matrix_lanes;
}

/* The table's, smaller where there are few queries or keys, or too little room. */
static bool choose(const attention *job, attention_units *out)
{
    const tuff_device_info *info = job->list->policy.target.info;
    const kernel_policy *policy = &job->list->policy;
    *out = (attention_units){.queries = tuff__tuned(policy, TUNABLE_attention_cooperative_backward_queries),
                             .depth = power_of_2(job->q.width),
                             .width = power_of_2(job->v.width)};
    int subgroups = tuff__tuned(policy, TUNABLE_attention_cooperative_backward_subgroups);
    while (subgroups > 1 && subgroups / 2 * SIDE >= job->k.count)
        subgroups /= 2;
    while (out->queries > SIDE && out->queries / 2 >= job->q.count)
        out->queries /= 2;
    set_subgroups(info, subgroups, out);
    while (!fits(job, out)) {
        if (out->queries > SIDE)
            out->queries /= 2;
        else if (out->keys > SIDE)
            set_subgroups(info, out->keys / SIDE / 2, out);
        else
            return false;
    }
    return true;
}

static bool has_such_units(const tuff_device_info *info)
{
    return info->cooperative_matrix == TUFF_MATRIX_NVIDIA && info->matrix_shape[0] == SIDE &&
           info->matrix_shape[1] == SIDE && info->matrix_shape[2] == SIDE && info->matrix_lanes > 0;
}

bool tuff__attention_backward_units(const attention *job, attention_units *out)
{
    const target *device = &job->list->policy.target;
    const tuff_family family = tuff__family(&job->list->policy);
    const bool asked = family == TUFF_FAMILY_COOPERATIVE, proved = device->has_subgroup_matrices;
    const tuff_dtype dtype = proved ? tuff__attention_factor_dtype(job) : TUFF_F32;
    const struct task *task = job->task;
    return (asked || family == TUFF_FAMILY_DEVICE) && has_such_units(device->info) &&
           (dtype == TUFF_F16 || (dtype == TUFF_BF16 && device->info->matrix_bf16)) &&
           (task->core->attributes.options & ATTENTION_NO_SOFTMAX) == 0 &&
           (tuff__attention_root(task, OP_ATTENTION_DQ) >= 0 || tuff__attention_root(task, OP_ATTENTION_DK) >= 0 ||
            tuff__attention_root(task, OP_ATTENTION_DV) >= 0) &&
           job->q.width <= MAX_WIDTH && job->v.width <= MAX_WIDTH &&
           (asked || (job->q.count >= SIDE && job->k.count >= SIDE)) && choose(job, out);
}

/* How the blocks of a panel's dq are dealt out to subgroups: over the columns, then over the rows. */
static void add_blocks(const attention *job, const attention_units *use, text *defines)
{
    const int subgroups = use->keys / SIDE, columns = use->depth / SIDE, rows = use->queries / SIDE;
    const int side = columns < subgroups ? columns : subgroups, below = subgroups / side;
    tuff__text_add(defines,
                   "#define DQ_SIDE %d\n#define DQ_COLUMNS %d\n#define DQ_ROWS %d\n#define BLOCK_QUERIES %d\n"
                   "#define DEPTH %d\n#define WIDTH %d\n#define KEY_STEPS %d\n#define VALUE_STEPS %d\n"
                   "#define KEY_WIDTH %d\n#define VALUE_WIDTH %d\n#define WHOLE_QUERIES %d\n#define WHOLE_KEYS %d\n",
                   side, columns / side, rows > below ? rows / below : 1, use->queries, use->depth, use->width,
                   (int)tuff__divide_up(job->q.width, SIDE), (int)tuff__divide_up(job->v.width, SIDE),
                   (int)job->q.width, (int)job->v.width, job->q.count % use->queries == 0,
                   job->k.count % use->keys == 0);
}

static void add_units(const attention *job, launch *made, const attention_units *use, text *defines)
{
    const kernel_policy *policy = &job->list->policy;
    tuff__attention_parts(job->list, made, &job->q, "Q", defines);
    tuff__attention_parts(job->list, made, &job->k, "K", defines);
    tuff__attention_parts(job->list, made, &job->v, "V", defines);
    tuff__attention_parts(job->list, made, &job->upstream, "G", defines);
    tuff__text_add(defines,
                   "#define MATRIX_M %d\n#define MATRIX_N %d\n#define MATRIX_K %d\n#define MATRIX_BF16 %d\n#define "
                   "MATRIX_LANES %d\n#define A_K_CONTIGUOUS 1\n#define B_K_CONTIGUOUS 1\n#define BLOCK_COLUMNS %d\n"
                   "#define HARDWARE_EXP2 %d\n",
                   SIDE, SIDE, SIDE, tuff__attention_factor_dtype(job) == TUFF_BF16,
                   (int)policy->target.info->matrix_lanes, use->depth,
                   tuff__tuned(policy, TUNABLE_attention_cooperative_hardware_exp2));
    made->vec = 4;
    made->cooperative = policy->target.info->cooperative_matrix;
    made->local_size = (uint32_t)use->lanes;
    made->local_bytes = (uint32_t)local_bytes(use);
}

/* The copies of dq; they are begun here. */
static void add_copies(const attention *job, launch *made, const attention_rows *copies, text *defines)
{
    if (copies->id < 0) {
        tuff__attention_parameters(made, (int64_t[]){0, 0, 0, 0}, 4);
        return;
    }
    tuff__attention_rows(job->list, made, copies, "DQ", true, defines);
    const int buffer = made->chain.buffer_count - 1;
    made->chain.buffers[buffer].read = false;
    tuff__text_add(defines, "#define DQ_PAIR(i) (*(__global float2 *)(b%d + (i)))\n", buffer);
}

tuff_status tuff__launch_attention_backward(const attention *job, const attention_backward *use,
                                            const attention_units *units, const attention_rows *copies)
{
    const bool dq = use->dq >= 0, dk = use->dk >= 0, dv = use->dv >= 0;
    const int64_t items = use->owners * use->splits;
    launch *made = tuff__launch_add(job->list, "attention_backward_cooperative", WALK_MATMUL, job->index);
    if (made == NULL)
        return TUFF_E_OOM_HOST;
    text defines = {0};
    tuff__attention_operands(job, made, use->blocks, 1, items, &defines);
    tuff__attention_rows(job->list, made, &job->upstream, "G", false, &defines);
    tuff__attention_operand(job, made, &job->lse, "L", &defines);
    tuff__attention_operand(job, made, &job->sums, "S", &defines);
    add_copies(job, made, copies, &defines);
    tuff__attention_result(job, made, use->dk, "DK", &defines);
    tuff__attention_result(job, made, use->dv, "DV", &defines);
    tuff__attention_bias_result(job, made, -1, &defines);
    tuff__attention_options(job, made, &defines);
    tuff__attention_parameters(made, (int64_t[]){job->batches, 1, use->splits, job->batches * copies->batch}, 4);
    tuff__text_add(&defines, "#define DQ %d\n#define DK %d\n#define DV %d\n", dq, dk, dv);
    add_blocks(job, units, &defines);
    add_units(job, made, units, &defines);
    made->groups = (uint64_t)items;
    made->operations = (2.0 + dq + dk + dv) * tuff__attention_pairs(job) * (double)(job->q.width + job->v.width);
    return tuff__keep_defines(made, &defines);
}
