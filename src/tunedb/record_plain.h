/* Between the files of records: the quick way for lines as this version writes them. */
#ifndef TUFF_TUNEDB_RECORD_PLAIN_H
#define TUFF_TUNEDB_RECORD_PLAIN_H

#include "tunedb/record.h"

/* Reads the JSON of a line that has the members of its kind in the order of record.c, plain ASCII and nothing else,
   into out, which is a record of nothing before. body is writable, one byte more too, and lives as long as the record.
   False where the line is another: body is changed then, and so is out. */
bool tuff__record_read_plain(char *body, size_t size, tune_record *out);
/* Digits of a hash; false where they are none. */
bool tuff__hash_read(const char *digits, hash128 *out);

#endif
