/* Random numbers on the host: for data, initial weights and drawn configurations. */
#include <math.h>

#include "example.h"

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

example_random example_random_stream(uint64_t seed, uint64_t stream)
{
    return (example_random){.state = mix(mix(seed + 0x9e3779b97f4a7c15u) + stream)};
}

uint64_t example_random_bits(example_random *self)
{
    self->state += 0x9e3779b97f4a7c15u;
    return mix(self->state);
}

double example_uniform(example_random *self, double low, double high)
{
    return low + (high - low) * (double)(example_random_bits(self) >> 11) * 0x1p-53;
}

/* Box-Muller transform (1958). The second number is discarded, so that one word is the whole state. */
double example_normal(example_random *self)
{
    const double radius = sqrt(-2 * log(1 - example_uniform(self, 0, 1)));
    return radius * cos(6.283185307179586 * example_uniform(self, 0, 1));
}

int64_t example_integer(example_random *self, int64_t count)
{
    return (int64_t)(example_random_bits(self) % (uint64_t)(count > 0 ? count : 1));
}

int64_t example_pick(example_random *self, const int64_t *choices, int count)
{
    return choices[example_integer(self, count)];
}

int64_t example_random_extent(example_random *self, int64_t most)
{
    static const int64_t primes[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37}, tiles[] = {4, 8, 16, 32};
    int64_t extent = 1;
    switch (example_integer(self, 4)) {
    case 0:
        break;
    case 1:
        extent = example_pick(self, primes, 12);
        break;
    default:
        extent = example_pick(self, tiles, 4) * (1 + example_integer(self, 2)) - 1 + example_integer(self, 3);
    }
    return extent <= most ? extent : 1 + extent % most;
}
