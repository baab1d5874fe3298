/* What the readers of golden files share: comparing results with what a file says, and counting. */
#ifndef TUFF_TESTS_GOLDEN_COMMON_H
#define TUFF_TESTS_GOLDEN_COMMON_H

#include "tuff.h"

typedef struct golden_run {
    tuff_device *device;
    tuff_compile_options compile;
    const tuff_file *file;
    int turn, turns; /* cases of ops whose number, divided by turns, leaves turn; all where turns is 0 */
    int passed, failed, skipped;
} golden_run;

/* One line: the deviation beside its bar; counts it. A deviation that is no number fails. */
void golden_row(golden_run *run, const char *tuning_task, const char *quantity, double deviation, double bar);
/* One line for something that could not be computed, with the library's message. Counts a failure. */
void golden_broken(golden_run *run, const char *tuning_task);
/* One line for something in the file that is not computed. Counts a skip, which fails too unless skips are allowed. */
void golden_skip(golden_run *run, const char *tuning_task, const char *why);

/* The larger of two deviations; NaN where either is. */
double golden_worse(double a, double b);
/* Element of a tensor of any dtype that files hold. */
double golden_element(const tuff_file_tensor *tensor, int64_t index);
int64_t golden_count(const tuff_file_tensor *tensor);
/* Finds "prefix" + "name"; false where there is none. */
bool golden_find(const tuff_file *file, const char *prefix, const char *name, tuff_file_tensor *out);

/* Check a file of one kind: a training run, cases of ops, or a training example in both of its forms (the baseline
   alone if compile.fuse is TUFF_FUSE_NONE). Return false if the file is of another kind. */
bool golden_training(golden_run *run);
bool golden_ops(golden_run *run);
bool golden_workload(golden_run *run);

#endif
