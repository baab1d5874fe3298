/* Reports a test program that skipped all its tests as skipped, not as passed. The linker puts these functions in place
   of cmocka's (cmake/Tests.cmake), so that the programs need no change. */
#ifndef TESTS_SKIPPING_H
#define TESTS_SKIPPING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Called by skip(). */
void __wrap__skip(const char *file, int line);
/* Called by cmocka_run_group_tests. Returns the number of failed tests, or 77, which ctest reports as "skipped", if
   every test was skipped. */
int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
                                   CMFixtureFunction set_up, CMFixtureFunction tear_down);

#endif
