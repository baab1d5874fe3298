/* The training program of the vehicle-routing policy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "each_device.h"
#include "example_program.h"

extern const example route_cost_example;

/* Writes the path of a file of the test to one of eight buffers. */
static const char *at(const char *name)
{
    static char paths[8][256];
    static int next;
    next = (next + 1) % 8;
    snprintf(paths[next], sizeof paths[next], "%s/%s", cache_folder(), name);
    return paths[next];
}

static size_t read_all(const char *path, char *bytes, size_t room)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s was not written", path);
    const size_t size = fread(bytes, 1, room, file);
    assert_int_equal(fclose(file), 0);
    return size;
}

#define RESUMABLE                                                                                        \
    "--device", "reference", "--set", "lr=0.01", "--seed", "1", "--steps", "4", "--validate-every", "2", \
        "--validation-batches", "1"

/* At step 2 the frozen policy is replaced, so that the run from step 3 depends on it and on the temperature. */
static void resumed_run_has_its_frozen_policy(void **state)
{
    static char whole[1 << 17], resumed[1 << 17];
    (void)state;
    example_expect_all(0, NULL, RESUMABLE, "--save", at("all"), NULL);
    example_expect_all(0, NULL, RESUMABLE, "--save", at("some"), "--save-every", "3", NULL);
    example_expect_all(0, NULL, RESUMABLE, "--resume", at("some.prev"), "--save", at("rest"), NULL);
    const size_t size = read_all(at("all"), whole, sizeof whole);
    assert_true(size < sizeof whole);
    assert_int_equal(read_all(at("rest"), resumed, sizeof resumed), size);
    assert_memory_equal(whole, resumed, size);
    assert_true(read_all(at("some.frozen.prev"), whole, sizeof whole) > 0);
    for (int i = 0; i < 3; i++)
        (void)remove(at((const char *[]){"some.frozen", "some.frozen.prev", "some.frozen.best"}[i]));
    example_expect_all(1, "some.frozen does not hold them", RESUMABLE, "--resume", at("some.prev"), NULL);
}

int main(void)
{
    static const char *const tiny[] = {"--set", "B=3",   "--set", "N=2",   "--set", "H=8", "--set",
                                       "h=2",   "--set", "L=1",   "--set", "f=1",   NULL};
    /* Q=9: no vehicle can serve a customer whose demand is 10. */
    return test_example_program(&(example_case){.model = &route_cost_example,
                                                .tiny = tiny,
                                                .refused = "Q=9",
                                                .more = resumed_run_has_its_frozen_policy,
                                                .is_never_accumulated = true,
                                                .is_slow_to_compile = true});
}
