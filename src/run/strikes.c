/* Strikes are written where a lookup of their environment asks first, whoever finds the journal. */
#include "run/strikes.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "tune/folder.h"
#include "tune/generator.h"
#include "tune/key.h"

typedef struct recovering {
    tune_store *own;
    const char *own_environment;
} recovering;

/* The default is not struck, since whoever ends a process at a bad moment should not pay for it for good; unless the
   whole machine went down. In a race it is not the default that is meant, but the device. */
static bool is_meant(const journal_strike *what, const tune_key *key)
{
    return what->candidate[0] != '\0' || what->rebooted || strcmp(key->family, RACE_FAMILY) == 0;
}

static void warn(const journal_strike *what, const tune_key *key)
{
    if (strcmp(key->family, RACE_FAMILY) == 0)
        tuff__log(TUFF_LOG_WARNING,
                  "fastest: a process ended while %.200s was in a race: it is left out of that race from now on. tuff "
                  "cache verify --retry allows it again",
                  what->environment);
    else
        tuff__log(TUFF_LOG_WARNING, "tune: a process ended while it tried %s for %s: it is not tried again",
                  what->candidate[0] == '\0' ? "the default" : what->candidate, what->op);
}

static tuff_status add(const recovering *self, const char *environment, const tune_record *record)
{
    tune_store *store;
    if (self->own != NULL && strcmp(environment, self->own_environment) == 0)
        return tuff__store_add(self->own, record);
    TRY(tuff__tune_open(environment, &store));
    const tuff_status status = tuff__store_add(store, record);
    tuff__store_close(store);
    return status;
}

static tuff_status remember(const journal_strike *what, void *state)
{
    tune_key key;
    char generator[GENERATOR_SIZE];
    if (tuff__key_parse(what->op, &key) != TUFF_OK || !is_meant(what, &key))
        return TUFF_OK;
    tune_record record = tuff__record_of(RECORD_BAD, what->environment, what->op, what->candidate);
    record.generator = tuff__generator_of(key.family, generator);
    record.reason = what->rebooted ? "reboot" : "crash";
    record.phase = tuff__journal_phase_text(what->phase);
    record.time = what->time;
    warn(what, &key);
    return add(state, what->environment, &record);
}

tuff_status tuff__strikes_recover(tune_store *own, const char *own_environment)
{
    recovering self = {own, own_environment};
    char folder[FOLDER_SIZE];
    journal_counts counts;
    if (tuff__tune_folder(folder, sizeof folder) != TUFF_OK)
        return TUFF_OK;
    const tuff_status status = tuff__journal_recover(folder, remember, &self, &counts);
    if (status == TUFF_E_OOM_HOST)
        return status;
    if (status != TUFF_OK)
        tuff__log(TUFF_LOG_WARNING, "tune: journals of earlier processes: %s", tuff_error());
    return TUFF_OK;
}
