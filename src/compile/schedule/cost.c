/* The cost model: see the header. Parameters are those of average processors, and the formulas are textbook ones: waves
   of groups, latency hidden by occupancy, arithmetic intensity of tiles, and memory traffic. */
#include "compile/schedule/cost.h"

#include "base/checked.h"

/* CPU: vector registers, of ordinary cores and of cores with 16 lanes; items that share a vector, one per lane; cycles
   to start a group; bytes from memory per cycle. */
enum { CPU_REGISTERS = 16, WIDE_REGISTERS = 32, CPU_ITEMS = 8, GROUP_START = 400, CPU_BYTES = 8 };
/* CPU: bytes of a matmul's operands that stay in a core's own cache, and how many times as long a tile takes if they do
   not. An operand that so many lines of the other read is packed (matmul_schedule.c). */
enum { CPU_NEAR_BYTES = 512 << 10, CPU_FAR_TIMES = 2, CPU_PACKED_LINES = 128 };
/* GPU: registers of a lane for accumulators and operands. Per compute unit: lanes that execute at once, resident lanes
   and groups, accumulators that are needed to hide the latency of loads, counting at most GPU_SUMS of a lane, and bytes
   per cycle from memory and from caches. */
enum { GPU_REGISTERS = 128, GPU_LANES = 128, GPU_RESIDENT = 2048, GPU_GROUPS = 32, GPU_HIDES = 1024, GPU_SUMS = 4 };
enum { GPU_BYTES = 12, GPU_CACHE_BYTES = 32 };

static double min(double a, double b)
{
    return a < b ? a : b;
}

static double max(double a, double b)
{
    return a > b ? a : b;
}

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

cost_parameters tuff__cost_parameters(const target *device)
{
    const int64_t units = tuff__processor_count(device->info);
    if (!device->is_cpu)
        return (cost_parameters){.launch = 5e-6,
                                 .bandwidth = 200e9,
                                 .cached = 200e9,
                                 .rate = 60e9,
                                 .units = units > 0 ? units : 16,
                                 .tile_rows = 64,
                                 .tile_columns = 64};
    return (cost_parameters){.launch = device->items_are_lanes ? 40e-6 : 5e-6,
                             .bandwidth = 15e9,
                             .cached = 60e9,
                             .cache_size = 1 << 20,
                             .rate = device->items_are_lanes ? 10e9 : 80e9,
                             .units = units > 0 ? units : 2,
                             .tile_rows = 12,
                             .tile_columns = 32};
}

/* Whether the tiles of a product with so many terms read their operands from memory or a shared cache each time. A
   panel of a packed y stays in the core's cache while tiles of x pass; lines of operands in place do so only if all of
   both fit, because their strides defeat prefetching. */
static bool streams_operands(const target *device, const matmul_batch *product, int64_t terms)
{
    const bool packed = product->rows >= CPU_PACKED_LINES && product->columns >= CPU_PACKED_LINES;
    const int64_t lines = packed ? tuff__cost_parameters(device).tile_columns : product->rows + product->columns;
    return device->is_cpu && !device->items_are_lanes && product->has_strides &&
           (int64_t)sizeof(float) * lines * terms > CPU_NEAR_BYTES;
}

/* Returns the seconds of a second launch, and of storing and loading so many partial sums for it. */
static double seconds_to_join(const cost_parameters *cost, double sums)
{
    return cost->launch + 8.0 * sums / cost->bandwidth;
}

double tuff__cost_split_matmul(const target *device, const matmul_batch *product, int64_t split_k)
{
    const cost_parameters cost = tuff__cost_parameters(device);
    const int64_t terms = product->inner / split_k, tiles = product->batches * split_k *
                                                            tuff__divide_up(product->rows, cost.tile_rows) *
                                                            tuff__divide_up(product->columns, cost.tile_columns);
    const double tile = 2.0 * (double)(cost.tile_rows * cost.tile_columns * terms) / cost.rate *
                        (streams_operands(device, product, terms) ? CPU_FAR_TIMES : 1);
    const double sums = (double)(product->batches * product->rows * product->columns) * (double)split_k;
    return (double)tuff__divide_up(tiles, cost.units) * tile + (split_k > 1 ? seconds_to_join(&cost, sums) : 0);
}

tile_shares tuff__share_tiles(int64_t tiles, int64_t terms, int64_t wave)
{
    enum { MIN_TERMS = 128, MAX_PARTS = 64 }; /* terms of a group; groups that share one tile, as they add up later */
    const int64_t rest = tiles % wave, whole = tiles - rest;
    const int64_t most = lesser(rest * terms / MIN_TERMS, rest * MAX_PARTS), sharers = lesser(wave, most);
    return sharers > rest && rest * terms <= INT32_MAX ? (tile_shares){whole, sharers} : (tile_shares){tiles, 0};
}

double tuff__cost_shared_tiles(const target *device, const tile_shares *shares, int64_t tiles, int64_t tile_elements,
                               double tile_seconds)
{
    const cost_parameters cost = tuff__cost_parameters(device);
    const int64_t rest = tiles - shares->whole;
    if (shares->sharers == 0)
        return (double)tuff__divide_up(tiles, cost.units) * tile_seconds;
    const double waves =
        (double)shares->whole / (double)cost.units + (double)rest / (double)lesser(shares->sharers, cost.units);
    return waves * tile_seconds + seconds_to_join(&cost, (double)((shares->sharers + rest) * tile_elements));
}

/* With fewer groups than compute units, the other units are idle, for arithmetic as for memory traffic. */
double tuff__cost_seconds(const target *device, double operations, double bytes, uint64_t groups)
{
    const cost_parameters cost = tuff__cost_parameters(device);
    const double share = groups > 0 ? min(1, (double)groups / (double)cost.units) : 1;
    const double computing = operations / (cost.rate * (double)cost.units * share);
    return cost.launch + max(computing, bytes / (cost.bandwidth * share));
}

int tuff__vector_registers(const target *device, int lanes)
{
    const int own = (int)device->info->vector_width;
    return !device->items_are_lanes && own > 0 && lanes > own ? lanes / own : 1;
}

int tuff__cpu_registers(int lanes)
{
    return lanes >= 16 ? WIDE_REGISTERS : CPU_REGISTERS;
}

/* Loads of one step: the operands, and accumulators that are spilled, which are also stored again. */
static double loads_of_step(double rows, double vectors, int registers)
{
    return rows + vectors + 2 * max(0, rows * vectors + vectors + 1 - registers);
}

/* Two multiply-adds and two loads start in each cycle, and a multiply-add takes four cycles. */
double tuff__cost_tile_step(double rows, double vectors, int registers)
{
    return max(max(rows * vectors, loads_of_step(rows, vectors, registers)) / 2, 4) + 0.5;
}

/* On a GPU a load from local memory takes as long as two multiply-adds. */
static double cycles_of_step(const target *device, const kernel_work *work)
{
    const double rows = work->tile_rows;
    if (!device->is_cpu)
        return max(rows * work->tile_columns, 2 * loads_of_step(rows, work->tile_columns, GPU_REGISTERS));
    return tuff__cost_tile_step(rows, work->tile_columns * tuff__vector_registers(device, work->vec),
                                tuff__cpu_registers((int)device->info->vector_width));
}

static double cycles_of_item(const target *device, const kernel_work *work)
{
    if (work->tile_rows > 0)
        return work->k * cycles_of_step(device, work);
    return work->multiply_adds / (double)work->groups / work->local_size / work->vec;
}

/* Returns how many groups of a kernel a compute unit of a GPU keeps resident, at most those that it gets. */
static double resident_groups(const target *device, const kernel_work *work, int64_t units)
{
    const double room = (double)device->info->local_memory_size;
    double most = min((double)GPU_RESIDENT / work->local_size, GPU_GROUPS);
    most = min(most, (double)tuff__divide_up((int64_t)work->groups, units));
    most = work->local_bytes > 0 ? min(most, room / work->local_bytes) : most;
    return most < 1 ? 1 : (double)(int)most;
}

/* Returns the cycles of one wave: the groups that a compute unit works on at once. */
static double cycles_of_wave(const target *device, const kernel_work *work, double resident)
{
    const double item = cycles_of_item(device, work);
    if (device->is_cpu)
        return item * (double)tuff__divide_up(work->local_size, device->items_are_lanes ? CPU_ITEMS : 1) + GROUP_START;
    const double lanes = resident * work->local_size, sums = work->tile_rows * work->tile_columns;
    const double hidden = lanes * max(1, min(sums, GPU_SUMS)) / GPU_HIDES;
    return item * lanes / GPU_LANES / min(1, hidden);
}

/* The largest of the time of all waves, of memory traffic and of cache traffic. */
double tuff__cost_kernel(const target *device, const kernel_work *work)
{
    const int64_t known = tuff__processor_count(device->info), units = known > 0 ? known : 1;
    const double resident = device->is_cpu ? 1 : resident_groups(device, work, units);
    const int64_t waves = tuff__divide_up((int64_t)work->groups, units * (int64_t)resident);
    const double cycles = (double)waves * cycles_of_wave(device, work, resident);
    if (device->is_cpu)
        return max(cycles, work->bytes / CPU_BYTES);
    return max(cycles, max(work->bytes / GPU_BYTES, work->local_traffic / GPU_CACHE_BYTES) / (double)units);
}
