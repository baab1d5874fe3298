/* A folder of its own for each test that touches files, in the working folder or TMPDIR; removed with all that is in
   it, also where a signal that can be caught ends the test. */
#ifndef TESTS_SCRATCH_FOLDER_H
#define TESTS_SCRATCH_FOLDER_H

#include <stddef.h>

/* Set-up and tear-down of cmocka. */
int scratch_folder_make(void **state);
int scratch_folder_remove(void **state);

const char *scratch_folder(void);
/* scratch_folder()/name, in one of eight buffers that take turns. */
const char *scratch_path(const char *name);
/* Names in the folder, sorted, one blank behind each; "" when empty. */
const char *scratch_list(void);
void scratch_write(const char *name, const void *data, size_t size);
/* The bytes of a file, freed by the caller; NULL where there is none. */
char *scratch_read(const char *name, size_t *size);

#endif
