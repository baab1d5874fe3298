/* A test program that is its own worker: called with "tune worker" it is one, and with TUFF_TEST_FAULT a faulty one. */
#ifndef TESTS_FAULTY_WORKER_H
#define TESTS_FAULTY_WORKER_H

#include <stdbool.h>

#include "tuff.h"

extern char own_program[500];
/* Sets own_program; returns false if it cannot be found. */
bool find_own_program(void);
/* Whether the program was called as a worker; then it does nothing else. */
bool is_worker(int count, char **arguments);
int run_faulty_worker(void);

/* Sets up an empty cache and this program as the worker, with a fault that occurs so many times:
     crash, hang   the first candidate kills or stops it
     begin         opening its device kills it
     stuck         OpenCL never returns while it opens its device
     refuse        it has another device
     lost, nonsense, lacking   its replies after measuring: the last one has results for no key
     other, silent, noisy   its greeting: of another build, none, no valid message
     NULL          no fault */
void begin_with_worker(const char *fault, const char *times);
void set_variable(const char *name, const char *value); /* NULL unsets it */

/* For tuff_set_log: stores the lines that were logged since begin_with_worker. */
void record_log_line(void *user, tuff_log_level level, const char *line);
/* Fails if lines with these words were not logged exactly so many times. */
void expect_logged(const char *subject, int times);
/* Returns the number of candidates in the device's store that killed a process. */
int count_crashes(tuff_device *device);

#endif
