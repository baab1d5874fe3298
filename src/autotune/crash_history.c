/* Turns journals of dead processes into rejections, in the stores of the environments in which the candidates ran: a
   lookup for these reads them first, whichever process found the journal. */
#include "autotune/crash_history.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "tunedb/folder.h"
#include "tunedb/kernel_hash.h"
#include "tunedb/key.h"

typedef struct recovery {
    tune_store *own;
    const char *own_environment;
    int crashes;
} recovery;

/* A default is only suspected at first, unless the whole machine went down: a process that is killed at an unlucky
   moment should not rule it out for good. In a race the empty candidate means the device, not a default. */
static bool is_certain_cause(const journal_crash *crash, const tune_key *key)
{
    return crash->candidate[0] != '\0' || crash->rebooted || strcmp(key->family, RACE_FAMILY) == 0;
}

const char *tuff__crash_history_reason(const tune_store *store, const tune_record *record)
{
    const tune_record *before = tuff__store_superseded(store, record);
    if (before == NULL)
        return tuff__suspicions[0];
    for (int i = 0; i + 1 < SUSPICIONS; ++i)
        if (strcmp(before->reason, tuff__suspicions[i]) == 0)
            return tuff__suspicions[i + 1];
    return "crash";
}

static void warn(const journal_crash *crash, const char *reason)
{
    tune_key key;
    if (tuff__key_parse(crash->op, &key) == TUFF_OK && strcmp(key.family, RACE_FAMILY) == 0)
        tuff__log(TUFF_LOG_WARNING,
                  "fastest: a process ended while it raced %.200s: that device is left out of the race from now on. "
                  "'tuff cache verify --retry' allows it again",
                  crash->environment);
    else
        tuff__log(TUFF_LOG_WARNING,
                  "tune: a process ended (%s) while it tried %s for %s: this candidate is not tried again", reason,
                  crash->candidate[0] == '\0' ? "the default" : crash->candidate, crash->op);
}

static tuff_status add_to_store(tune_store *store, const journal_crash *crash, bool is_certain, tune_record *record)
{
    if (!is_certain)
        record->reason = tuff__crash_history_reason(store, record);
    if (!tuff__record_is_suspicion(record))
        warn(crash, record->reason);
    return tuff__store_add(store, record);
}

static tuff_status add(const recovery *self, const journal_crash *crash, bool is_certain, tune_record *record)
{
    tune_store *store;
    if (self->own != NULL && strcmp(crash->environment, self->own_environment) == 0)
        return add_to_store(self->own, crash, is_certain, record);
    TRY(tuff__tune_open(crash->environment, &store));
    const tuff_status status = add_to_store(store, crash, is_certain, record);
    tuff__store_close(store);
    return status;
}

static tuff_status record_crash(const journal_crash *crash, void *state)
{
    recovery *self = state;
    tune_key key;
    char kernel_hash[KERNEL_HASH_SIZE];
    if (tuff__key_parse(crash->op, &key) != TUFF_OK)
        return TUFF_OK;
    tune_record record = tuff__record_make(RECORD_REJECTION, crash->environment, crash->op, crash->candidate);
    record.kernel_hash = tuff__kernel_hash(key.family, kernel_hash);
    record.reason = crash->rebooted ? "reboot" : "crash";
    record.phase = tuff__journal_phase_text(crash->phase);
    record.time = crash->time;
    self->crashes++;
    return add(self, crash, is_certain_cause(crash, &key), &record);
}

tuff_status tuff__crash_history_recover(tune_store *own, const char *own_environment, int *crashes)
{
    recovery self = {.own = own, .own_environment = own_environment};
    char folder[FOLDER_SIZE];
    journal_counts counts;
    if (crashes != NULL)
        *crashes = 0;
    if (tuff__tune_folder(folder, sizeof folder) != TUFF_OK)
        return TUFF_OK;
    const tuff_status status = tuff__journal_recover(folder, record_crash, &self, &counts);
    if (crashes != NULL)
        *crashes = self.crashes;
    if (status == TUFF_E_OOM_HOST)
        return status;
    if (status != TUFF_OK)
        tuff__log(TUFF_LOG_WARNING, "tune: cannot read the journals of earlier processes: %s", tuff_error());
    return TUFF_OK;
}
