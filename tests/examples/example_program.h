/* Fixture for tests of a training example, which is run like its program, with a command line. */
#ifndef TUFF_TESTS_EXAMPLE_PROGRAM_H
#define TUFF_TESTS_EXAMPLE_PROGRAM_H

#include "examples/common/example.h"

typedef struct example_case {
    const example *model;
    /* Words that make the configuration tiny, ended by NULL, and a setting that it must refuse, such as "H=9" if that
       is no multiple of the number of heads. */
    const char *const *tiny;
    const char *refused;
    void (*more)(void **state); /* a further test; NULL: none */
    bool is_never_accumulated;  /* refuses steps of several batches */
    bool is_slow_to_compile;    /* drivers train it in thorough runs only */
    int turns;                  /* greater than 1: and in one of so many other runs */
} example_case;

/* Runs a step on the reference device with one more option, and checks the exit code and the output. For tests of a
   single example. */
void example_expect(const char *option, const char *value, int code, const char *text);
/* The same with all words up to NULL, on any device. */
void example_expect_all(int code, const char *text, const char *first, ...);
/* Checks that the last program printed one line. */
void example_expect_one_line(void);

/* Runs all tests of the program, and returns main's exit code. In a thorough run every driver trains both forms in
   every precision and is checked with random configurations. Otherwise one driver trains one form, or none (turns);
   everything else runs on the reference device. */
int test_example_program(const example_case *tested);

#endif
