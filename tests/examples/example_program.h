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
} example_case;

/* Runs all tests of the program, and returns what main does. In a thorough run every driver trains both forms in every
   precision and is checked with random configurations; otherwise one driver trains one form, all else is on the
   reference device. */
int test_example_program(const example_case *tested);

#endif
