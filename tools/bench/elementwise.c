/* Chains of elementwise ops over arrays larger than any cache, against the copy kernel. Inputs and outputs are counted
   once. */
#include "tools/bench/plan.h"

typedef struct chain chain;
struct chain {
    const char *name;
    int operands; /* number of inputs */
    tuff_tensor *(*build)(bench_plan *self, tuff_tensor *const *x);
    int64_t count; /* elements */
};

static tuff_tensor *gelu_tanh(bench_plan *self, tuff_tensor *const *x)
{
    (void)self;
    return tuff_gelu_tanh(x[0]);
}

static tuff_tensor *gelu_erf(bench_plan *self, tuff_tensor *const *x)
{
    (void)self;
    return tuff_gelu(x[0]);
}

static tuff_tensor *gelu_backward(bench_plan *self, tuff_tensor *const *x)
{
    return bench_backward(self, tuff_gelu_tanh(x[0]), x, 1);
}

static tuff_tensor *silu(bench_plan *self, tuff_tensor *const *x)
{
    (void)self;
    return tuff_silu(x[0]);
}

static tuff_tensor *sum_of_two(bench_plan *self, tuff_tensor *const *x)
{
    (void)self;
    return tuff_add(x[0], x[1]);
}

static tuff_tensor *scaled_gelu(bench_plan *self, tuff_tensor *const *x)
{
    tuff_tensor *scale = tuff_constant(self->graph, TUFF_F32, 1.5);
    return tuff_mul(tuff_gelu_tanh(tuff_add(tuff_mul(x[0], scale), x[1])), x[2]);
}

static void build_chain(bench_plan *self, const void *problem)
{
    const chain *links = problem;
    tuff_tensor *x[4];
    for (int i = 0; i < links->operands; i++)
        x[i] = bench_input(self, TUFF_F32, TUFF_SHAPE(links->count), (uint32_t)i + 1);
    self->result = links->build(self, x);
}

static tuff_status measure_chain(bench *self, const chain *links, bool backward)
{
    bench_work work;
    if (!bench_begin(self, &work, "elementwise", "%s %d KiB", links->name, (int)(links->count / 256)))
        return TUFF_OK;
    work.bytes = 4.0 * (double)links->count * (links->operands + 1 + backward);
    return bench_run_work(self, &work, bench_plan_add_both(self, &work, build_chain, links));
}

tuff_status bench_elementwise(bench *self)
{
    static const chain chains[] = {{"gelu tanh", 1, gelu_tanh, 1 << 24},
                                   {"gelu erf", 1, gelu_erf, 1 << 24},
                                   {"gelu tanh", 1, gelu_tanh, 1 << 26},
                                   {"silu", 1, silu, 1 << 24},
                                   {"x + y", 2, sum_of_two, 1 << 24},
                                   {"gelu(1.5 x + y) z", 3, scaled_gelu, 1 << 24},
                                   {"gelu tanh backward", 1, gelu_backward, 1 << 24}};
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        chain links = chains[i];
        if (self->quick && links.count > 1 << 24)
            continue;
        links.count = self->quick ? 1 << 12 : links.count;
        TRY(measure_chain(self, &links, links.build == gelu_backward));
    }
    return TUFF_OK;
}
