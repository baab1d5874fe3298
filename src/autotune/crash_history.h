/* What earlier processes died of: journals (tunedb/journal.h) become records, so that no candidate kills twice. */
#ifndef TUFF_AUTOTUNE_CRASH_HISTORY_H
#define TUFF_AUTOTUNE_CRASH_HISTORY_H

#include "tunedb/journal.h"
#include "tunedb/store.h"

/* The family of keys for races of devices (api/device_race.c), where a strike counts against the device. */
#define RACE_FAMILY "race"

/* Records the candidates, and the devices in races, that processes with a journal in our folder died of. own (may be
   NULL) is our open store of own_environment, which strikes of that environment are added to. A default is struck only
   after three processes died of it. *strikes (may be NULL): how many there were. The only error is TUFF_E_OOM_HOST;
   other failures are logged. */
tuff_status tuff__crash_history_recover(tune_store *own, const char *own_environment, int *strikes);
/* The reason of a BAD record of a default, whose time may have ended for other causes: a suspicion, and "crash" where
   the store has two of them. */
const char *tuff__crash_history_suspect(const tune_store *store, const tune_record *record);

#endif
