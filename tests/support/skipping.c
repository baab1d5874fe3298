/* Counts the tests of a group that were skipped. */
#include "skipping.h"

enum { SKIPPED = 77 };

void __real__skip(const char *file, int line);
int __real__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
                                   CMFixtureFunction set_up, CMFixtureFunction tear_down);

static size_t skipped_count;

void __wrap__skip(const char *file, int line)
{
    skipped_count++;
    __real__skip(file, line);
}

int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
                                   CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
    skipped_count = 0;
    const int failed = __real__cmocka_run_group_tests(name, tests, count, set_up, tear_down);
    return failed == 0 && skipped_count == count ? SKIPPED : failed;
}
