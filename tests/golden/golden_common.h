/* Functions that the readers of golden files share: comparing results with those in a file, and counting. */
#ifndef TUFF_TESTS_GOLDEN_COMMON_H
#define TUFF_TESTS_GOLDEN_COMMON_H

#include "tuff.h"

typedef struct golden_run {
    tuff_device *device;
    tuff_compile_options compile;
    const tuff_file *file;
    int turn, turns; /* runs the cases of ops whose number modulo turns is turn; turns 0: all */
    int passed, failed, skipped;
} golden_run;

/* Prints the deviation next to its tolerance, and counts it. NaN fails. */
void golden_row(golden_run *run, const char *tuning_task, const char *quantity, double deviation, double bar);
/* Prints the library's message about something that could not be computed, and counts a failure. */
void golden_broken(golden_run *run, const char *tuning_task);
/* Prints a line about something in the file that is not computed, and counts a skip, which fails too unless skips are
   allowed. */
void golden_skip(golden_run *run, const char *tuning_task, const char *why);

/* Returns the larger of two deviations; NaN if either is. */
double golden_worse(double a, double b);
/* Returns an element of a tensor of any dtype that files contain. */
double golden_element(const tuff_file_tensor *tensor, int64_t index);
int64_t golden_count(const tuff_file_tensor *tensor);
/* Finds "prefix" + "name"; returns false if it is missing. */
bool golden_find(const tuff_file *file, const char *prefix, const char *name, tuff_file_tensor *out);

/* Check a file of one kind: a training run, cases of ops, or a training example in both of its forms (only the baseline
   if compile.fuse is TUFF_FUSE_NONE). Return false if the file is of another kind. */
bool golden_training(golden_run *run);
bool golden_ops(golden_run *run);
bool golden_workload(golden_run *run);

#endif
