// The same as gelu.c in C++17: objects in unique_ptrs, errors as exceptions of the application's own.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <vector>

#include <tuff.h>

namespace
{

constexpr int rows = 64, inner = 48, columns = 32;

template <auto destroy> struct Destroyer {
    template <typename Object> void operator()(Object *object) const
    {
        destroy(object);
    }
};
using Device = std::unique_ptr<tuff_device, Destroyer<tuff_device_close>>;
using Graph = std::unique_ptr<tuff_graph, Destroyer<tuff_graph_destroy>>;
using Plan = std::unique_ptr<tuff_plan, Destroyer<tuff_plan_destroy>>;

void check(tuff_status status)
{
    if (status != TUFF_OK)
        throw std::runtime_error(tuff_error());
}

template <typename Pointer> Pointer check(Pointer pointer)
{
    if (!pointer)
        throw std::runtime_error(tuff_error());
    return pointer;
}

std::vector<float> filled(int count, double scale)
{
    std::vector<float> values(static_cast<std::size_t>(count));
    for (int i = 0; i < count; i++)
        values[static_cast<std::size_t>(i)] = static_cast<float>(scale * std::sin(i * 12.9898 + count));
    return values;
}

double largest_difference(const std::vector<float> &x, const std::vector<float> &w, const std::vector<float> &b,
                          const std::vector<float> &y)
{
    double worst = 0;
    for (std::size_t row = 0; row < rows; row++)
        for (std::size_t column = 0; column < columns; column++) {
            double sum = b[column];
            for (std::size_t k = 0; k < inner; k++)
                sum += static_cast<double>(x[row * inner + k]) * w[k * columns + column];
            const double expected = 0.5 * sum * (1 + std::erf(sum / std::sqrt(2.0)));
            worst = std::max(worst, std::fabs(y[row * columns + column] - expected));
        }
    return worst;
}

double run(const char *name)
{
    const auto x = filled(rows * inner, 1), w = filled(inner * columns, 0.3), b = filled(columns, 0.1);
    std::vector<float> y(rows * columns);

    Device device(check(tuff_device_open(name)));
    Graph graph(check(tuff_graph_create(device.get())));
    tuff_tensor *input = tuff_input(graph.get(), "x", TUFF_F32, TUFF_SHAPE(rows, inner));
    tuff_tensor *weight = tuff_input(graph.get(), "w", TUFF_F32, TUFF_SHAPE(inner, columns));
    tuff_tensor *bias = tuff_input(graph.get(), "b", TUFF_F32, TUFF_SHAPE(columns));
    tuff_output(graph.get(), "y", tuff_gelu(tuff_add(tuff_matmul(input, weight), bias)));

    Plan plan(check(tuff_compile(graph.get(), nullptr)));
    check(tuff_plan_write(plan.get(), "x", x.data(), x.size() * sizeof(float)));
    check(tuff_plan_write(plan.get(), "w", w.data(), w.size() * sizeof(float)));
    check(tuff_plan_write(plan.get(), "b", b.data(), b.size() * sizeof(float)));
    check(tuff_plan_run(plan.get()));
    check(tuff_plan_read(plan.get(), "y", y.data(), y.size() * sizeof(float)));
    return largest_difference(x, w, b, y);
}

} // namespace

int main(int count, char **words)
{
    try {
        const double worst = run(count > 1 ? words[1] : nullptr);
        std::printf("largest difference of %d elements: %.1e\n", rows * columns, worst);
        return worst < 1e-5 ? 0 : 1;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "gelu: %s\n", error.what());
        return 1;
    }
}
