/* Blocks of matmuls in local memory: the largest that leave work for all processors of the device, and the groups that
   share the last ones (stream-k). */
#include "base/checked.h"
#include "compile/schedule/matmul_schedule.h"

/* A candidate. cost: of a lane's sums relative to those of large blocks, in tenths; small blocks spend more time on
   loads. */
typedef struct block_shape {
    int rows, columns, thread_rows, thread_columns, cost;
} block_shape;

uint32_t tuff__block_bytes(const matmul_blocks *blocks)
{
    enum { PITCH = 8 }; /* padding: one more vector in each line of both tiles */
    return (uint32_t)(4 * blocks->step_k * (blocks->rows + blocks->columns + PITCH));
}

int64_t tuff__count_blocks(const matmul_problem *problem, int rows, int columns)
{
    return tuff__divide_up(problem->rows, rows) * tuff__divide_up(problem->columns, columns) * problem->batches;
}

tile_shares tuff__share_blocks(const kernel_policy *policy, const matmul_problem *problem, const matmul_blocks *blocks)
{
    enum { MAX_SUMS = 1 << 26 }; /* elements of all partial sums */
    const int64_t count = tuff__count_blocks(problem, blocks->rows, blocks->columns);
    const tile_shares apart = {.whole = count};
    if (blocks->sharers == 0)
        return apart;
    const tile_shares shares =
        tuff__share_tiles(count, problem->inner, blocks->sharers * tuff__processors_or_usual(policy));
    return (shares.sharers + count - shares.whole) * blocks->rows * blocks->columns <= MAX_SUMS ? shares : apart;
}

/* Returns the cost of the busiest processor, whose sums cost so much: less if groups share the last blocks, as far as
   that pays. Sets *sharers to how many should, per processor. In deterministic mode none do: how blocks are shared
   would make the order of sums depend on their size. */
static double cost_of_blocks(const kernel_policy *policy, const matmul_problem *problem, matmul_blocks blocks, int cost,
                             int *sharers)
{
    const double enough = 0.9; /* of the time, because the model may be wrong */
    const target *device = &policy->target;
    const int64_t sums = (int64_t)blocks.rows * blocks.columns;
    const int64_t count = tuff__count_blocks(problem, blocks.rows, blocks.columns);
    const double whole = (double)tuff__divide_up(count, tuff__processors_or_usual(policy)) * (double)sums * cost;
    *sharers = 0;
    if (device->avoids_local_memory || policy->is_deterministic)
        return whole;
    blocks.sharers = SHARERS_OF_UNIT;
    const tile_shares shares = tuff__share_blocks(policy, problem, &blocks);
    if (shares.sharers == 0)
        return whole;
    const double second_of_cost = 0.2 * (double)problem->inner / tuff__cost_parameters(device).rate;
    const double shared =
        tuff__cost_shared_tiles(device, &shares, count, sums, (double)sums * cost * second_of_cost) / second_of_cost;
    if (shared >= enough * whole)
        return whole;
    *sharers = SHARERS_OF_UNIT;
    return shared / enough;
}

/* Returns the cost of a shape; 0 if the blocks do not fit into local memory or the group is too large. */
static double cost_of_shape(const kernel_policy *policy, const matmul_problem *problem, const block_shape *shape,
                            int step_k)
{
    const matmul_blocks blocks = {.rows = shape->rows, .columns = shape->columns, .step_k = step_k};
    const uint32_t bytes = tuff__block_bytes(&blocks);
    const uint64_t room = policy->target.info->local_memory_size;
    const uint32_t lanes = (uint32_t)(shape->rows * shape->columns / (shape->thread_rows * shape->thread_columns));
    int sharers;
    if (bytes > room || lanes > policy->target.info->max_group_size)
        return 0;
    return cost_of_blocks(policy, problem, blocks, shape->cost, &sharers) * (2 * (uint64_t)bytes > room ? 1.5 : 1);
}

/* Returns the table's blocks if they make enough tiles, else smaller ones. */
static block_shape choose_shape(const kernel_policy *policy, const matmul_problem *problem, int step_k)
{
    static const block_shape smaller[] = {
        {64, 64, 4, 4, 16}, {32, 128, 4, 8, 16}, {32, 64, 4, 4, 18}, {32, 32, 4, 4, 22}, {16, 64, 4, 4, 22}};
    const block_shape table = {tuff__tunable_device_default(policy, TUNABLE_matmul_local_block_rows),
                               tuff__tunable_device_default(policy, TUNABLE_matmul_local_block_columns),
                               tuff__tunable_device_default(policy, TUNABLE_matmul_local_thread_rows),
                               tuff__tunable_device_default(policy, TUNABLE_matmul_local_thread_columns), 10};
    block_shape best = table;
    double least = cost_of_shape(policy, problem, &table, step_k);
    for (size_t i = 0; i < sizeof smaller / sizeof *smaller; ++i) {
        const double cost = cost_of_shape(policy, problem, &smaller[i], step_k);
        if (cost > 0 && (least == 0 || cost < least)) {
            least = cost;
            best = smaller[i];
        }
    }
    return best;
}

/* Groups that run together should read as few rows and columns of blocks as possible, so a band is about as many blocks
   wide as high: the square root of the groups that the device runs at a time, about two per processor. */
int tuff__choose_band(const kernel_policy *policy)
{
    const int64_t processors = tuff__processors_or_usual(policy);
    int band = 4;
    while (band < 32 && (int64_t)band * band < processors)
        band *= 2;
    return band;
}

matmul_blocks tuff__choose_blocks(const kernel_policy *policy, const matmul_problem *problem)
{
    matmul_blocks made = {.step_k = tuff__tunable_value(policy, TUNABLE_matmul_local_step_k),
                          .band = tuff__choose_band(policy)};
    const block_shape shape = choose_shape(policy, problem, made.step_k);
    int sharers;
    made.rows = tuff__tunable_value_or(policy, TUNABLE_matmul_local_block_rows, shape.rows);
    made.columns = tuff__tunable_value_or(policy, TUNABLE_matmul_local_block_columns, shape.columns);
    made.thread_rows = tuff__tunable_value_or(policy, TUNABLE_matmul_local_thread_rows, shape.thread_rows);
    made.thread_columns = tuff__tunable_value_or(policy, TUNABLE_matmul_local_thread_columns, shape.thread_columns);
    const int buffers = tuff__tunable_value(policy, TUNABLE_matmul_local_buffers);
    made.buffers = 2 * tuff__block_bytes(&made) <= policy->target.info->local_memory_size ? buffers : 1;
    (void)cost_of_blocks(policy, problem, made, shape.cost, &sharers);
    made.sharers = tuff__tunable_value_or(policy, TUNABLE_matmul_local_sharers, sharers);
    return made;
}
