/* Producers: a map that only one operand of a matmul needs (a scale, a mask, an activation) is computed where the
   matmul loads the operand, if that takes less time than a task of its own. They are tried after all other ways to join
   tasks. */
#include "compile/fuse/fuse.h"
#include "compile/schedule/cost.h"
#include "compile/schedule/matmul_schedule.h"

/* Costs in elementwise operations. */
enum { EXPENSIVE_OPS = 20, RANDOM_OPS = 60, GATHER_OPS = 4 };

/* Whether the node has a single reader, and nothing else needs its memory. */
static bool has_single_reader(const struct fusion *fusion, const node *at)
{
    const node_facts *facts = &fusion->facts[at->id];
    return facts->consumer_count == 1 && !facts->is_output && !facts->forced && facts->placed_in == NULL;
}

/* Returns the map under an operand's views that only the operand needs; NULL if there is none. */
static const node *find_producer(const struct fusion *fusion, const tuff_tensor *operand)
{
    const node *at = operand->node;
    while (tuff__op_is_view(at->op) && !fusion->facts[at->id].materialized && !fusion->facts[at->id].is_producer &&
           has_single_reader(fusion, at))
        at = at->inputs[0]->node;
    const node_facts *facts = &fusion->facts[at->id];
    if (!tuff__op_is_elementwise(at->op) || !facts->materialized || facts->has_layout || !has_single_reader(fusion, at))
        return NULL;
    const struct task *task = &fusion->tasks[facts->task];
    return task->kind == TASK_MAP && task->root_count == 1 && task->roots[0] == at ? at : NULL;
}

/* Whether the map's inputs, which then have to stay alive until the matmul is done, are no larger than its result. */
static bool saves_memory(const struct fusion *fusion, const node *at)
{
    const struct task *task = &fusion->tasks[fusion->facts[at->id].task];
    int64_t count = 0;
    for (int i = 0; i < task->read_count; ++i)
        if (!tuff__op_is_source(task->reads[i]->op) && !fusion->facts[task->reads[i]->id].is_output)
            count += tuff_shape_count(task->reads[i]->outputs[0].shape);
    return count <= tuff_shape_count(at->outputs[0].shape);
}

static double ops_of(const chain_value *value)
{
    switch (value->kind) {
    case VALUE_OP:
        return tuff__op_is_expensive(value->op) ? EXPENSIVE_OPS : 1;
    case VALUE_RANDOM:
        return RANDOM_OPS;
    case VALUE_LOOKUP:
        return GATHER_OPS;
    case VALUE_LOAD:
        return value->guard == NO_VALUE ? 1 : GATHER_OPS;
    default:
        return 1;
    }
}

/* Returns the number of operations for one element, not counting loop-invariant ones. */
static double ops_of_element(fused_chain *chain, int operand)
{
    const chain_producer *producer = &chain->producers[operand];
    double ops = 0;
    chain->extent[producer->axis] = producer->extent[0];
    chain->extent[producer->axis + 1] = producer->extent[1];
    tuff__chain_analyse(chain);
    for (int i = producer->begin; i < producer->end; ++i)
        if (chain->values[i].varies >> producer->axis != 0)
            ops += ops_of(&chain->values[i]);
    return ops;
}

/* Whether a producer pays: computing the chain with every load of an element must take less time than a task of its
   own, which costs a dispatch, a pass that stores the elements, one that reads them, and the chain once. */
static bool is_profitable(const struct fusion *fusion, const struct task *task, const node *at, fused_chain *chain,
                          int operand)
{
    const kernel_policy policy = {.target = tuff__device_target(fusion->graph->device),
                                  .family = fusion->family,
                                  .is_deterministic = fusion->is_deterministic};
    const cost_parameters cost = tuff__cost_parameters(&policy.target);
    const tuff_shape *x = &task->core->inputs[0]->shape;
    const double count = (double)tuff_shape_count(at->outputs[0].shape);
    const double loads = tuff__operand_loads(&policy, fusion->graph, chain, operand, x->extent[x->rank - 1]);
    const double chains = count * ops_of_element(chain, operand) / (0.5 * cost.rate * (double)cost.units);
    const double rate = sizeof(float) * count <= cost.cache_size ? cost.cached : cost.bandwidth;
    return loads * chains < cost.launch + 2 * sizeof(float) * count / rate + chains;
}

static tuff_status try_producer(struct fusion *fusion, struct task *task, const node *at, int operand)
{
    node_facts *facts = &fusion->facts[at->id];
    fused_chain chain;
    const node *give_up;
    bool impossible;
    facts->materialized = false;
    facts->is_producer = true;
    TRY(tuff__chain_build(fusion, task, &chain, &give_up, &impossible));
    const bool possible = give_up == NULL && !impossible && tuff__can_bind(fusion, &chain);
    facts->is_producer = possible && tuff__pass_decides(fusion->passes, TUNABLE_fusion_producers,
                                                        is_profitable(fusion, task, at, &chain, operand));
    facts->materialized = !facts->is_producer;
    tuff__chain_free(&chain);
    if (!facts->is_producer)
        return TUFF_OK;
    tuff__free(fusion->tasks[facts->task].reads);
    fusion->tasks[facts->task] = (struct task){.kind = TASK_NONE};
    facts->task = (int)(task - fusion->tasks);
    tuff__free(task->reads);
    return tuff__task_find_reads(fusion, task);
}

/* Whether operands must lie in memory as 16-bit values, because matrix units may read them. */
static bool reads_narrow(const struct fusion *fusion)
{
    const kernel_policy policy = {.target = tuff__device_target(fusion->graph->device), .family = fusion->family};
    return fusion->precision != TUFF_PRECISION_F32 && !tuff__uses_registers(&policy);
}

tuff_status tuff__fuse_producers(struct fusion *fusion)
{
    if (fusion->by_library || fusion->family == TUFF_FAMILY_COOPERATIVE || reads_narrow(fusion))
        return TUFF_OK;
    for (int i = 0; i < fusion->task_count; ++i)
        for (int k = 0; k < 2 && fusion->tasks[i].kind == TASK_MATMUL; ++k) {
            struct task *task = &fusion->tasks[i];
            const node *at = find_producer(fusion, task->core->inputs[k]);
            if (at != NULL && !tuff__task_is_empty(task) && saves_memory(fusion, at))
                TRY(try_producer(fusion, task, at, k));
        }
    return TUFF_OK;
}
