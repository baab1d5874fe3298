/* What tests of a training example share: it is run as its program is, with a command line. */
#ifndef TUFF_TESTS_EXAMPLE_PROGRAM_H
#define TUFF_TESTS_EXAMPLE_PROGRAM_H

#include "examples/common/example.h"

typedef struct example_case {
    const example *model;
    /* Words that make the configuration tiny, ended by NULL, and a setting that it refuses: "H=9" where that is no
       multiple of the heads. */
    const char *const *tiny;
    const char *refused;
    void (*more)(void **state); /* a further test; NULL: none */
    bool is_never_accumulated;  /* refuses steps of several batches */
    bool is_slow_to_compile;    /* drivers train it in thorough runs only */
    int turns;                  /* more than 1: and in one of so many others */
} example_case;

/* A step on the reference device with one more option: its exit code, and what is printed. For tests of the example's
   own. */
void example_expect(const char *option, const char *value, int code, const char *text);

/* Runs all tests of the program, and returns what main does. In a thorough run every driver trains both forms in every
   precision and is checked with random configurations; otherwise one driver trains one form, or
   none (turns), all else is on the reference device. */
int test_example_program(const example_case *tested);

#endif
