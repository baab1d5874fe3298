/* Compares a task's results with the reference executor's. Large tasks are sampled: instead of the task, a subgraph of
   a few elements along independent axes (compile/subgraph.h) is computed. For odd extents a task of the same structure
   is built, compiled and run. */
#include "measure/oracle.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compile/subgraph.h"
#include "exec/plan.h"
#include "exec/reference.h"
#include "base/rng.h"

/* Terms that the host computes per check: some milliseconds, and some tens of milliseconds for a winner. */
static const double max_terms = 3e6, max_winner_terms = 2e7;
/* The factor on error bounds that results may reach: the bounds are of first order. */
enum { SLACK = 8 };
/* If results are discontinuous, rounding may flip elements although the bounds do not show it: at most one in this
   many. */
enum { ELEMENTS_PER_FLIP = 256 };

/* The host's results for one root. */
typedef struct expectation {
    double *values, *bounds;
    int64_t count;
} expectation;

typedef struct comparison {
    subgraph *part;
    reference_plan *host;
    expectation roots[MAX_OUTPUTS];
} comparison;

static void end_comparison(comparison *self)
{
    for (int i = 0; i < MAX_OUTPUTS; ++i) {
        tuff__free(self->roots[i].values);
        tuff__free(self->roots[i].bounds);
    }
    tuff__reference_destroy(self->host);
    tuff__subgraph_destroy(self->part);
}

/* Returns the 16-bit dtype that a result is rounded to, if there is one, else f32. */
static tuff_dtype narrowest(const subgraph *part)
{
    tuff_dtype found = TUFF_F32;
    for (int i = 0; i < tuff__subgraph_root_count(part); ++i) {
        const tuff_dtype one = tuff__subgraph_rounding(part, tuff__subgraph_root(part, i));
        found = one == TUFF_F16 || one == TUFF_BF16 ? one : found;
    }
    return found;
}

static tuff_status create_reference(comparison *self, tuff_device *device)
{
    tuff_graph *graph;
    TRY(tuff__subgraph_graph(self->part, device, false, &graph));
    const tuff_status status = tuff__reference_create(graph, &self->host);
    if (status != TUFF_OK)
        tuff_graph_destroy(graph);
    TRY(status);
    tuff__reference_enable_bounds(self->host, true);
    tuff__reference_set_slack(self->host, SLACK);
    tuff__reference_set_factors(self->host, tuff__subgraph_factor_dtype(self->part));
    if (tuff__subgraph_reads_roots(self->part))
        tuff__reference_set_storage(self->host, narrowest(self->part));
    return TUFF_OK;
}

static tuff_status run_reference(comparison *self)
{
    char name[16];
    TRY(tuff__reference_run(self->host));
    for (int i = 0; i < tuff__subgraph_root_count(self->part); ++i) {
        expectation *root = &self->roots[i];
        root->count = tuff_shape_count(tuff__subgraph_shape(self->part, tuff__subgraph_root(self->part, i)));
        root->values = tuff__calloc((size_t)root->count + 1, sizeof *root->values);
        root->bounds = tuff__calloc((size_t)root->count + 1, sizeof *root->bounds);
        if (root->values == NULL || root->bounds == NULL)
            return TUFF_E_OOM_HOST;
        TRY(tuff__reference_read_double(self->host, tuff__subgraph_name('o', i, name), root->values));
        TRY(tuff__reference_read_bounds(self->host, name, root->bounds));
    }
    return TUFF_OK;
}

/* Returns the absolute error allowed near 0: half of the least f16 number, or the least normal f32 number. */
static double absolute_error_of(tuff_dtype dtype)
{
    return dtype == TUFF_F16 ? 0x1p-25 : (double)FLT_MIN;
}

/* dtype: the type that the result was rounded to. If the host's value is not finite, anything passes: at the edges of a
   function's domain rounding decides. */
static bool is_within_bounds(tuff_dtype dtype, double got, double value, double bound)
{
    if (!isfinite(value) || !isfinite(bound))
        return true;
    if (!tuff__dtype_is_float(dtype))
        return fabs(got - value) <= bound;
    const double most = dtype == TUFF_F16 ? 65504 : FLT_MAX;
    if (!isfinite(got))
        return fabs(value) + SLACK * bound > most;
    return fabs(got - value) <= SLACK * bound + tuff__dtype_rounding(dtype) * fabs(value) + absolute_error_of(dtype);
}

/* Compares one root; got has its elements in order. */
static void compare_root(const comparison *self, int index, const double *got, char *fault, size_t size)
{
    const expectation *root = &self->roots[index];
    const tuff_dtype dtype = tuff__subgraph_rounding(self->part, tuff__subgraph_root(self->part, index));
    const double share = tuff__subgraph_is_exact(self->part) ? 0 : 1; /* factor on the bound; exact sums need none */
    int64_t failures = 0, first = -1;
    for (int64_t i = 0; i < root->count; ++i)
        if (!is_within_bounds(dtype, got[i], root->values[i], share * root->bounds[i]) && failures++ == 0)
            first = i;
    if (failures == 0 || (tuff__subgraph_is_discontinuous(self->part) && failures <= root->count / ELEMENTS_PER_FLIP))
        return;
    snprintf(fault, size, "%lld of %lld elements are wrong: one is %.9g, on the host %.9g within %.2g",
             (long long)failures, (long long)root->count, got[first], root->values[first],
             share * SLACK * root->bounds[first]);
}

/* Gets an element by its address in the memory of the task. gather() calls it for all elements of a node of the
   subgraph, in order. */
typedef bool (*element_getter)(const test_buffers *from, int buffer, int64_t at, double *out);

static tuff_status gather(const subgraph *part, const struct fusion *fusion, const node *at, const test_buffers *from,
                          element_getter get, double *out)
{
    const tuff_shape shape = tuff__subgraph_shape(part, at);
    const view layout = tuff__fusion_layout(fusion, at);
    const int64_t count = tuff_shape_count(shape);
    int64_t start;
    const int buffer = tuff__test_buffers_root_buffer(fusion, at, &start);
    for (int64_t i = 0; i < count; ++i) {
        int64_t rest = i, address = start;
        for (int axis = shape.rank - 1; axis >= 0; --axis) {
            address += tuff__subgraph_task_index(part, at, axis, rest % shape.extent[axis]) * layout.stride[axis];
            rest /= shape.extent[axis];
        }
        if (!get(from, buffer, address, &out[i]))
            return FAIL(TUFF_E_UNSUPPORTED, "tune: cannot find a value of the task in memory");
    }
    return TUFF_OK;
}

/* A sample may miss elements that were never written, so some that look like it are added. */
static void sample_suspects(subgraph *part, const test_buffers *on)
{
    for (int i = 0; i < tuff__subgraph_root_count(part); ++i) {
        const node *root = tuff__subgraph_root(part, i);
        const tuff_shape *shape = &root->outputs[0].shape;
        int64_t found[MAX_SUSPECTS], place[TUFF_MAX_RANK] = {0};
        const int count = tuff__test_buffers_suspects(on, root, found);
        for (int k = 0; k < count; ++k) {
            for (int axis = shape->rank - 1; axis >= 0; --axis) {
                place[axis] = found[k] % shape->extent[axis];
                found[k] /= shape->extent[axis];
            }
            tuff__subgraph_require_sample(part, root, place);
        }
    }
}

static tuff_status write_reads(const comparison *self, const struct fusion *fusion, const test_buffers *from)
{
    char name[16];
    for (int i = 0; i < tuff__subgraph_read_count(self->part); ++i) {
        const node *at = tuff__subgraph_read(self->part, i);
        const int64_t count = tuff_shape_count(tuff__subgraph_shape(self->part, at));
        double *values = tuff__calloc((size_t)count + 1, sizeof *values);
        tuff_status status = values == NULL ? TUFF_E_OOM_HOST : TUFF_OK;
        if (status == TUFF_OK)
            status = gather(self->part, fusion, at, from, tuff__test_buffers_read_input, values);
        if (status == TUFF_OK)
            status = tuff__reference_write_double(self->host, tuff__subgraph_name('r', i, name), values);
        tuff__free(values);
        TRY(status);
    }
    return TUFF_OK;
}

static tuff_status compare_kept(const comparison *self, const struct fusion *fusion, const test_buffers *buffers,
                                char *fault, size_t size)
{
    for (int i = 0; i < tuff__subgraph_root_count(self->part) && fault[0] == '\0'; ++i) {
        double *got = tuff__calloc((size_t)self->roots[i].count + 1, sizeof *got);
        const tuff_status status = got == NULL ? TUFF_E_OOM_HOST
                                               : gather(self->part, fusion, tuff__subgraph_root(self->part, i), buffers,
                                                        tuff__test_buffers_read_expected, got);
        if (status == TUFF_OK)
            compare_root(self, i, got, fault, size);
        tuff__free(got);
        TRY(status);
    }
    return TUFF_OK;
}

/* Samples as much as the host can compute in reasonable time. */
static tuff_status sample(subgraph *part, const test_buffers *on)
{
    static const int counts[] = {16, 8, 4, 3, 2};
    enum { COUNTS = sizeof counts / sizeof *counts };
    TRY(tuff__subgraph_sample(part, 0));
    if (tuff__subgraph_cost(part) <= max_terms)
        return TUFF_OK;
    sample_suspects(part, on);
    for (int i = 0; i < COUNTS && tuff__subgraph_cost(part) > max_terms; ++i)
        TRY(tuff__subgraph_sample(part, counts[i]));
    if (tuff__subgraph_cost(part) > max_terms)
        return FAIL(TUFF_E_UNSUPPORTED, "tune: the task takes the host too long");
    return TUFF_OK;
}

static tuff_status check_kept_results(comparison *self, tuff_device *device, const test_buffers *buffers,
                                      const struct fusion *fusion, int task, char *fault, size_t size)
{
    TRY(tuff__subgraph_create(fusion, task, &self->part));
    TRY(sample(self->part, buffers));
    TRY(create_reference(self, device));
    TRY(write_reads(self, fusion, buffers));
    TRY(run_reference(self));
    return compare_kept(self, fusion, buffers, fault, size);
}

tuff_status tuff__oracle_check(tuff_device *device, const test_buffers *buffers, const struct fusion *fusion, int task,
                               char *fault, size_t size)
{
    comparison self = {.part = NULL};
    fault[0] = '\0';
    const tuff_status status = check_kept_results(&self, device, buffers, fusion, task, fault, size);
    end_comparison(&self);
    return status;
}

/* Makes up multiples of 1/8, as in test buffers. */
static void make_inputs(const comparison *self, task_kind kind, const node *at, int64_t count, double *out)
{
    const int64_t bound = tuff__subgraph_index_bound(self->part);
    const bool multiplies = kind == TASK_MATMUL || kind == TASK_ATTENTION,
               takes_signs = tuff__subgraph_allows_negative(self->part);
    rng from = {(uint64_t)at->id + 1};
    for (int64_t i = 0; i < count; ++i) {
        const int roll = tuff__rng_below(&from, 1 << 20);
        if (tuff__dtype_is_float(at->outputs[0].dtype))
            out[i] = multiplies                       ? (roll % 17 - 8) / 8.0
                     : takes_signs && roll >> 19 != 0 ? -(1 + roll % 8) / 8.0
                                                      : (1 + roll % 8) / 8.0;
        else
            out[i] = at->outputs[0].dtype == TUFF_BOOL ? roll % 2 : (double)(roll % (bound > 0 ? bound : 64) % 128);
    }
}

static tuff_status write_both(const comparison *self, tuff_plan *plan, task_kind kind)
{
    char name[16];
    for (int i = 0; i < tuff__subgraph_read_count(self->part); ++i) {
        const node *at = tuff__subgraph_read(self->part, i);
        const int64_t count = tuff_shape_count(tuff__subgraph_shape(self->part, at));
        const tuff_dtype dtype = tuff__subgraph_dtype(self->part, at);
        const size_t bytes = (size_t)count * tuff_dtype_size(dtype);
        double *values = tuff__calloc((size_t)count + 1, sizeof *values);
        void *data = tuff__alloc(bytes);
        tuff_status status = values == NULL || data == NULL ? TUFF_E_OOM_HOST : TUFF_OK;
        if (status == TUFF_OK) {
            make_inputs(self, kind, at, count, values);
            tuff__from_double(dtype, values, count, data);
            status = tuff__reference_write_double(self->host, tuff__subgraph_name('r', i, name), values);
        }
        if (status == TUFF_OK) /* a read that the simplified graph does not need is no input of the plan */
            status = tuff_plan_write(plan, name, data, bytes) == TUFF_E_OOM_HOST ? TUFF_E_OOM_HOST : TUFF_OK;
        tuff__free(values);
        tuff__free(data);
        TRY(status);
    }
    return TUFF_OK;
}

/* Lowers all tasks of a kind in the same configuration. */
static tuff_status lower_all(tuff_plan *plan, const tuff_compile_options *options, task_kind kind,
                             const tune_config *config)
{
    const tune_config **choices = tuff__calloc((size_t)plan->fusion.task_count + 1, sizeof(tune_config *));
    if (choices == NULL)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < plan->fusion.task_count; ++i)
        choices[i] = plan->fusion.tasks[i].kind == kind ? config : NULL;
    tuff__launch_list_free(&plan->executable.launches);
    const tuff_status status = tuff__lower(plan->device, &plan->fusion, options, choices, &plan->executable.launches);
    tuff__free(choices);
    return status == TUFF_OK ? tuff__plan_record(plan) : status;
}

static tuff_status compare_plan(const comparison *self, tuff_plan *plan, char *fault, size_t size)
{
    char name[16];
    for (int i = 0; i < tuff__subgraph_root_count(self->part) && fault[0] == '\0'; ++i) {
        const tuff_dtype dtype = tuff__subgraph_dtype(self->part, tuff__subgraph_root(self->part, i));
        const size_t count = (size_t)self->roots[i].count, bytes = count * tuff_dtype_size(dtype);
        double *got = tuff__calloc(count + 1, sizeof *got);
        void *data = tuff__alloc(bytes);
        tuff_status status = got == NULL || data == NULL ? TUFF_E_OOM_HOST : TUFF_OK;
        if (status == TUFF_OK)
            status = tuff_plan_read(plan, tuff__subgraph_name('o', i, name), data, bytes);
        if (status == TUFF_OK) {
            tuff__to_double(dtype, data, (int64_t)count, got);
            compare_root(self, i, got, fault, size);
        }
        tuff__free(got);
        tuff__free(data);
        TRY(status);
    }
    return TUFF_OK;
}

static tuff_status run_both(comparison *self, tuff_plan *plan, const tuff_compile_options *options, task_kind kind,
                            const tune_config *config, char *fault, size_t size)
{
    TRY(lower_all(plan, options, kind, config));
    TRY(write_both(self, plan, kind));
    TRY(run_reference(self));
    TRY(tuff_plan_run(plan));
    TRY(tuff_plan_wait(plan));
    return compare_plan(self, plan, fault, size);
}

/* Shrinks extents to odd ones beyond a few tiles that the host can compute in time. */
static tuff_status shrink(subgraph *part)
{
    static const int64_t sizes[] = {259, 131, 67, 35, 19};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    bool changed = true;
    for (int i = 0; i < SIZES && changed; ++i) {
        changed = tuff__subgraph_shrink(part, sizes[i]);
        if (changed && tuff__subgraph_cost(part) <= max_winner_terms)
            return TUFF_OK;
    }
    return FAIL(TUFF_E_UNSUPPORTED, "tune: cannot shrink the task to small odd extents");
}

static tuff_status check_ragged(comparison *self, tuff_device *device, const struct fusion *fusion,
                                const tuff_compile_options *options, int task, const tune_config *config, char *fault,
                                size_t size)
{
    tuff_graph *graph;
    TRY(tuff__subgraph_create(fusion, task, &self->part));
    TRY(shrink(self->part));
    TRY(create_reference(self, device));
    TRY(tuff__subgraph_graph(self->part, device, true, &graph));
    tuff_compile_options plain = *options;
    plain.memory_budget = 0;
    tuff_plan *plan;
    tuff_status status = tuff__plan_create(graph, &plain, NULL, &plan);
    if (status == TUFF_OK) {
        plan->discards_binaries = true;
        status = run_both(self, plan, &plain, fusion->tasks[task].kind, config, fault, size);
    }
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    return status;
}

/* Products and averages of numbers other than 0 are not all 0, however many there are. */
static void check_zeros(const comparison *self, const test_buffers *kept, char *fault, size_t size)
{
    for (int i = 0; i < tuff__subgraph_root_count(self->part) && fault[0] == '\0'; ++i) {
        const expectation *root = &self->roots[i];
        int64_t others = 0;
        for (int64_t k = 0; k < root->count; ++k)
            others += isfinite(root->values[k]) && fabs(root->values[k]) > SLACK * root->bounds[k];
        if (2 * others > root->count && tuff__test_buffers_is_zero(kept, tuff__subgraph_root(self->part, i)))
            snprintf(fault, size, "all elements of a result are 0");
    }
}

tuff_status tuff__oracle_check_ragged(tuff_device *device, const struct fusion *fusion,
                                      const tuff_compile_options *options, int task, const tune_config *config,
                                      const test_buffers *kept, char *fault, size_t size)
{
    comparison self = {.part = NULL};
    const task_kind kind = fusion->tasks[task].kind;
    fault[0] = '\0';
    const tuff_status status = check_ragged(&self, device, fusion, options, task, config, fault, size);
    if (status == TUFF_OK && kept != NULL && (kind == TASK_MATMUL || kind == TASK_ATTENTION))
        check_zeros(&self, kept, fault, size);
    end_comparison(&self);
    return status;
}
