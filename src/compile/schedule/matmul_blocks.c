/* Blocks of matmuls in local memory: the largest that leave work for all processors of the device. */
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

/* Returns the work of the busiest processor; 0 if the blocks do not fit into local memory or the group is too large. */
static double cost_of_shape(const kernel_policy *policy, const matmul_problem *problem, const block_shape *shape,
                            int step_k)
{
    const int64_t processors = tuff__processors_or_usual(policy);
    const int64_t groups = tuff__divide_up(problem->rows, shape->rows) *
                           tuff__divide_up(problem->columns, shape->columns) * problem->batches;
    const uint32_t bytes =
        tuff__block_bytes(&(matmul_blocks){.rows = shape->rows, .columns = shape->columns, .step_k = step_k});
    const uint64_t room = policy->target.info->local_memory_size;
    const uint32_t lanes = (uint32_t)(shape->rows * shape->columns / (shape->thread_rows * shape->thread_columns));
    if (bytes > room || lanes > policy->target.info->max_group_size)
        return 0;
    return (double)tuff__divide_up(groups, processors) * shape->rows * shape->columns * shape->cost *
           (2 * (uint64_t)bytes > room ? 1.5 : 1);
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
    made.rows = tuff__tunable_value_or(policy, TUNABLE_matmul_local_block_rows, shape.rows);
    made.columns = tuff__tunable_value_or(policy, TUNABLE_matmul_local_block_columns, shape.columns);
    made.thread_rows = tuff__tunable_value_or(policy, TUNABLE_matmul_local_thread_rows, shape.thread_rows);
    made.thread_columns = tuff__tunable_value_or(policy, TUNABLE_matmul_local_thread_columns, shape.thread_columns);
    const int buffers = tuff__tunable_value(policy, TUNABLE_matmul_local_buffers);
    made.buffers = 2 * tuff__block_bytes(&made) <= policy->target.info->local_memory_size ? buffers : 1;
    return made;
}
