/* What earlier processes died of, from their journals (tunedb/journal.h) into the stores of what they ran on. */
#ifndef TUFF_AUTOTUNE_CRASH_HISTORY_H
#define TUFF_AUTOTUNE_CRASH_HISTORY_H

#include "tunedb/journal.h"
#include "tunedb/store.h"

/* The family of keys that stand for a race of devices (fastest.c): a strike there is the device's. */
#define RACE_FAMILY "race"

/* Remembers candidates, and devices in races, that the processes of journals in our folder died of. own, where not
   NULL, is an open store of ours, of an environment: strikes of that are added to it. A default that processes died of
   three times is struck like any candidate. *strikes, where not NULL, becomes how many there were. Only
   host memory can be lacking: what else fails is a warning. */
tuff_status tuff__crash_history_recover(tune_store *own, const char *own_environment, int *strikes);

#endif
