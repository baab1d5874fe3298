/* Instances and tours of vehicle routing. */
#include "routes.h"

#include <math.h>
#include <stdlib.h>

static float distance_of(const float *coords, int64_t i, int64_t j)
{
    const float x = coords[2 * i] - coords[2 * j], y = coords[2 * i + 1] - coords[2 * j + 1];
    return sqrtf(x * x + y * y);
}

/* Whether rounding may move the distance between node i and an earlier node across a multiple of 0.1. */
static bool is_near_edge(const float *coords, int64_t i)
{
    for (int64_t j = 0; j < i; j++) {
        const double tenths = 10 * (double)distance_of(coords, i, j);
        if (fabs(tenths - round(tenths)) < 1e-4)
            return true;
    }
    return false;
}

static void draw_one(example_random *random, int64_t n, bool checks, float *coords, int32_t *demand)
{
    for (int64_t i = 0; i < n; i++) {
        do
            for (int axis = 0; axis < 2; axis++)
                coords[2 * i + axis] =
                    checks ? (float)example_uniform(random, 0, 1) : (float)example_integer(random, 101) / 100;
        while (checks && is_near_edge(coords, i));
        demand[i] = i > 0 ? 1 + (int32_t)example_integer(random, ROUTES_LARGEST_DEMAND) : 0;
    }
}

static void draw_route(example_random *random, int64_t n, const int32_t *demand, int32_t capacity, int64_t T,
                       int32_t *actions)
{
    bool visited[ROUTES_MAX_NODES] = {true};
    int32_t left = capacity;
    int64_t at = 0, waiting = n - 1;
    for (int64_t t = 0; t < T; t++) {
        int64_t next = 0, fitting = 0;
        for (int64_t i = 1; i < n; i++)
            if (!visited[i] && demand[i] <= left && example_integer(random, ++fitting) == 0)
                next = i;
        if (at != 0 && waiting > 0 && example_integer(random, 5) == 0)
            next = 0;
        left = next == 0 ? capacity : left - demand[next];
        waiting -= next != 0;
        visited[next] = true;
        at = next;
        actions[t] = (int32_t)next;
    }
}

void routes_draw(example_random *random, int64_t count, int64_t n, bool checks, float *coords, int32_t *demand)
{
    for (int64_t i = 0; i < count; i++)
        draw_one(random, n, checks, coords + i * n * 2, demand + i * n);
}

void routes_draw_actions(example_random *random, int64_t count, int64_t n, const int32_t *demand, int32_t capacity,
                         int64_t T, int32_t *actions)
{
    for (int64_t i = 0; i < count; i++)
        draw_route(random, n, demand + i * n, capacity, T, actions + i * T);
}

tuff_status routes_upload_distances(tuff_plan *plan, const char *input, int64_t count, int64_t n, const float *coords)
{
    const size_t size = (size_t)(n * n) * sizeof(float);
    float *dist = malloc(size);
    tuff_status status = dist ? TUFF_OK : TUFF_E_OOM_HOST;
    for (int64_t b = 0; b < count && status == TUFF_OK; b++) {
        for (int64_t i = 0; i < n * n; i++)
            dist[i] = distance_of(coords + b * n * 2, i / n, i % n);
        status = tuff_plan_write_at(plan, tuff_plan_find_input(plan, input), (uint64_t)b * size, dist, size);
    }
    free(dist);
    return status;
}

static void count_served(routes_state *self)
{
    static const int nodes[] = {1};
    tuff_graph *graph = tuff_tensor_graph(self->demand);
    const double customers = (double)(tuff_tensor_shape(self->demand).extent[1] - 1);
    self->count = tuff_sum(tuff_cast(self->visited, TUFF_F32), nodes, 1, false);
    self->done = tuff_and(tuff_equal(self->current, tuff_constant(graph, TUFF_I32, 0)),
                          tuff_equal(self->count, tuff_constant(graph, TUFF_F32, customers)));
}

routes_state routes_start(tuff_tensor *demand, tuff_tensor *capacity)
{
    tuff_graph *graph = tuff_tensor_graph(demand);
    const tuff_shape shape = tuff_tensor_shape(demand);
    const int64_t B = shape.extent[0], n = shape.extent[1];
    tuff_tensor *zero = tuff_constant(graph, TUFF_I32, 0);
    routes_state made = {.demand = demand,
                         .capacity = capacity,
                         .node = tuff_iota(graph, TUFF_SHAPE(1, n), 1),
                         .current = tuff_expand(zero, TUFF_SHAPE(B)),
                         .left = capacity,
                         .visited = tuff_expand(tuff_constant(graph, TUFF_BOOL, 0), shape)};
    made.here = tuff_expand(tuff_equal(made.node, zero), shape);
    count_served(&made);
    return made;
}

tuff_tensor *routes_mask(const routes_state *self)
{
    tuff_graph *graph = tuff_tensor_graph(self->demand);
    const tuff_shape shape = tuff_tensor_shape(self->demand), column = TUFF_SHAPE(shape.extent[0], 1);
    tuff_tensor *zero = tuff_constant(graph, TUFF_I32, 0);
    tuff_tensor *some_wait = tuff_less(self->count, tuff_constant(graph, TUFF_F32, (double)(shape.extent[1] - 1)));
    tuff_tensor *stays = tuff_reshape(tuff_and(tuff_equal(self->current, zero), some_wait), column);
    tuff_tensor *too_much = tuff_less(tuff_reshape(self->left, column), self->demand);
    return tuff_or(tuff_or(self->visited, too_much), tuff_and(tuff_equal(self->node, zero), stays));
}

void routes_move(routes_state *self, tuff_tensor *to)
{
    static const int nodes[] = {1};
    tuff_graph *graph = tuff_tensor_graph(to);
    tuff_tensor *zero = tuff_constant(graph, TUFF_I32, 0), *nothing = tuff_constant(graph, TUFF_F32, 0);
    self->here = tuff_equal(self->node, tuff_reshape(to, TUFF_SHAPE(tuff_tensor_shape(to).extent[0], 1)));
    tuff_tensor *taken = tuff_and(self->here, tuff_less(zero, self->node));
    tuff_tensor *load = tuff_sum(tuff_where(taken, self->demand, nothing), nodes, 1, false);
    self->visited = tuff_or(self->visited, taken);
    self->left = tuff_where(tuff_equal(to, zero), self->capacity, tuff_sub(self->left, load));
    self->current = to;
    count_served(self);
}
