/* A program of tests none of which could run is a skipped test, not a passed one: the linker puts these functions in
   the place of cmocka's (cmake/Tests.cmake), so that nothing in the programs has to know of them. */
#ifndef TESTS_SKIPPING_H
#define TESTS_SKIPPING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* What skip() calls. */
void __wrap__skip(const char *file, int line);
/* What cmocka_run_group_tests calls: the number of failed tests, or 77, which ctest takes for "skipped", where every
   test was skipped. */
int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
                                   CMFixtureFunction set_up, CMFixtureFunction tear_down);

#endif
