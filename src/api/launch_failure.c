/* Records a candidate that compiles but that the driver refuses to launch, so that later plans do not use it. */
#include <string.h>

#include "base/log.h"
#include "api/launch_failure.h"
#include "compile/task_key.h"
#include "tunedb/environment.h"
#include "tunedb/folder.h"
#include "tunedb/lookup.h"

/* Returns the key of a launch if its candidate was found by the tuner and is not the default; NULL otherwise. Launches
   that copy a value to an output or an array belong to no task. */
static const plan_key *find_key(const tuff_plan *plan, int index)
{
    tune_key parts;
    char key_text[TUNE_KEY_SIZE];
    const int task = plan->executable.launches.launches[index].task;
    if (task < 0 || tuff__task_key(&plan->fusion, task, &parts) != TUFF_OK)
        return NULL;
    tuff__key_text(&parts, key_text);
    for (int i = 0; i < plan->keys.count; ++i)
        if (strcmp(plan->keys.items[i].text, key_text) == 0)
            return plan->keys.items[i].candidate[0] != '\0' ? &plan->keys.items[i] : NULL;
    return NULL;
}

/* Only later plans profit. This run cannot be repeated with another candidate, because commands before the refused one
   may have run and assigned arrays. */
static tuff_status record_failure(const tuff_plan *plan, const plan_key *key)
{
    tune_environment parts;
    tune_store *store;
    tuff__environment_from_info(tuff__device_info(plan->device), &parts);
    const char *environment = ENVIRONMENT_TEXT(&parts);
    tune_record rejection = tuff__record_make(RECORD_REJECTION, environment, key->text, key->candidate);
    rejection.kernel_hash = key->kernel_hash;
    rejection.reason = "limits";
    rejection.phase = "launch";
    TRY(tuff__tune_open(environment, &store));
    const tuff_status status = tuff__store_add(store, &rejection);
    tuff__store_close(store);
    return status;
}

/* Whether the user chose the candidate, by a pin or a manifest. Only the user may remove such a choice. */
static bool is_user_choice(const plan_key *key)
{
    return strcmp(key->origin, tuff__tier_text(TIER_OVERRIDE)) == 0;
}

tuff_status tuff__report_refused_launch(const tuff_plan *plan, const recording *recorded, tuff_status why)
{
    bool was_merged;
    const int refused = tuff__executable_refused_launch(&plan->executable, recorded, &was_merged);
    const plan_key *key = refused < 0 ? NULL : find_key(plan, refused);
    if (key == NULL)
        return was_merged ? FAIL(why, "%s; with TUFF_PERSISTENT_KERNELS=0 launches are not merged", tuff_error()) : why;
    saved_error reason;
    tuff__error_save(&reason);
    const bool is_chosen = is_user_choice(key);
    if (!is_chosen && record_failure(plan, key) != TUFF_OK)
        tuff__log(TUFF_LOG_WARNING, "tune: cannot record a candidate that the driver refuses to launch: %s",
                  tuff_error());
    return FAIL(why, "run: %.200s: the driver refuses to launch candidate %.200s: %.200s; %s", key->text,
                key->candidate, reason.message,
                is_chosen ? "it was chosen by a pin or a manifest" : "compile the plan again to run without it");
}
