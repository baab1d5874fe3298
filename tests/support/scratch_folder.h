/* A scratch folder for each test that uses files, in the working folder or TMPDIR. It is removed with its content, even
   if a signal that can be caught ends the test. */
#ifndef TESTS_SCRATCH_FOLDER_H
#define TESTS_SCRATCH_FOLDER_H

#include <stddef.h>

/* cmocka set-up and tear-down. */
int scratch_folder_make(void **state);
int scratch_folder_remove(void **state);

const char *scratch_folder(void);
/* Returns scratch_folder()/name in one of eight rotating buffers. */
const char *scratch_path(const char *name);
/* Returns the sorted names in the folder, each followed by a space; "" if it is empty. */
const char *scratch_list(void);
void scratch_write(const char *name, const void *data, size_t size);
/* Returns the bytes of a file, which the caller frees; NULL if there is none. */
char *scratch_read(const char *name, size_t *size);

#endif
