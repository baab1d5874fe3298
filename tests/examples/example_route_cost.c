/* The training program of the vehicle-routing policy. */
#include "example_program.h"

extern const example route_cost_example;

int main(void)
{
    static const char *const tiny[] = {"--set", "B=3",   "--set", "N=2",   "--set", "H=8", "--set",
                                       "h=2",   "--set", "L=1",   "--set", "f=1",   NULL};
    /* Q=9: no vehicle can serve a customer whose demand is 10. */
    return test_example_program(&(example_case){.model = &route_cost_example,
                                                .tiny = tiny,
                                                .refused = "Q=9",
                                                .is_never_accumulated = true,
                                                .is_slow_to_compile = true});
}
