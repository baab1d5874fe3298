/* The table of golden files of the training examples, for the test workloads.c and for the program golden. */
#ifndef TUFF_TESTS_WORKLOAD_TABLE_H
#define TUFF_TESTS_WORKLOAD_TABLE_H

#include "workload.h"

/* Several rows may use the same file, with other prefixes of its keys and other settings of the model. */
extern const workload workload_table[];
extern const int workload_table_count;

#endif
