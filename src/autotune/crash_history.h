/* Candidates that crashed earlier processes. Their journals (tunedb/journal.h) become records, so that no candidate
   crashes a second process. A crash is recorded for each candidate, and each device in a race, that was in the middle
   of a step when its process died. */
#ifndef TUFF_AUTOTUNE_CRASH_HISTORY_H
#define TUFF_AUTOTUNE_CRASH_HISTORY_H

#include "tunedb/journal.h"
#include "tunedb/store.h"

/* The family of keys for races of devices (api/device_race.c), in which a crash counts against the device. */
#define RACE_FAMILY "race"

/* Records the candidates, and the devices in races, that killed a process with a journal in the user's folder. own (may
   be NULL) is the user's open store of own_environment, to which the crashes of that environment are added. A default
   is recorded as the cause only after three processes died of it. *crashes (may be NULL) is set to the number of
   crashes. The only error is TUFF_E_OOM_HOST; other failures are logged. */
tuff_status tuff__crash_history_recover(tune_store *own, const char *own_environment, int *crashes);
/* Returns the reason for a rejection of a default whose process may have ended for other causes: a suspicion, or
   "crash" if the store already has two of them. */
const char *tuff__crash_history_reason(const tune_store *store, const tune_record *record);

#endif
