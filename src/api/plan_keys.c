/* A plan's keys, hash and manifest: for programs that compare runs, or that fix the configurations of later runs. */
#include <string.h>

#include "base/file/lock.h"
#include "api/tuner.h"
#include "tunedb/environment.h"
#include "tunedb/store.h"

/* Keys are listed by the first call. A list that failed half-way is dropped, so that the next call tries again. */
int tuff_plan_key_count(tuff_plan *plan)
{
    if (plan == NULL) {
        (void)FAIL(TUFF_E_USAGE, "plan: the plan is NULL");
        return -1;
    }
    if (tuff__plan_list_keys(plan) == TUFF_OK)
        return plan->keys.count;
    tuff__plan_keys_free(&plan->keys);
    return -1;
}

tuff_status tuff_plan_key(tuff_plan *plan, int index, tuff_plan_key_info *info)
{
    const int count = info == NULL ? 0 : tuff_plan_key_count(plan);
    if (count < 0)
        return tuff_last_status();
    if (index < 0 || index >= count)
        return FAIL(TUFF_E_USAGE, "plan: no key has index %d", index);
    const plan_key *key = &plan->keys.items[index];
    *info =
        (tuff_plan_key_info){.key = key->text, .candidate = key->candidate, .origin = key->origin, .calls = key->calls};
    return TUFF_OK;
}

/* The environment is part of the hash, because another driver may round the same kernels differently. */
tuff_status tuff_plan_hash(const tuff_plan *plan, uint64_t hash[2])
{
    tune_environment environment;
    if (plan == NULL || hash == NULL)
        return FAIL(TUFF_E_USAGE, "plan: the %s is NULL", plan == NULL ? "plan" : "hash");
    if (plan->reference != NULL)
        return FAIL(TUFF_E_UNSUPPORTED, "plan: a plan on the reference device has no hash");
    tuff__environment_from_info(tuff__device_info(plan->device), &environment);
    const hash128 environment_hash = tuff__hash_text(ENVIRONMENT_TEXT(&environment));
    const hash128 parts[] = {environment_hash, tuff__executable_hash(&plan->executable)};
    const hash128 combined = tuff__hash(parts, sizeof parts);
    hash[0] = combined.high;
    hash[1] = combined.low;
    return TUFF_OK;
}

/* Keys that have their default are pinned as well: a later version may have other defaults. */
static tuff_status add_pins(const tuff_plan *plan, const char *environment, tune_store *store)
{
    TRY(tuff__store_set_environment(store, environment));
    for (int i = 0; i < plan->keys.count; ++i) {
        const plan_key *key = &plan->keys.items[i];
        tune_record pin = tuff__record_make(RECORD_PIN, environment, key->text, key->candidate);
        pin.kernel_hash = key->kernel_hash;
        pin.reason = "lock";
        TRY(tuff__store_add(store, &pin));
    }
    return TUFF_OK;
}

/* Rewrites the file as a whole, durably: a crash leaves the old or the new manifest. */
static tuff_status write_store(const tune_store *store, const char *file)
{
    text lines = {0};
    tuff_status status = TUFF_OK;
    int at = 0;
    for (const tune_record *record; status == TUFF_OK && (record = tuff__store_next(store, &at)) != NULL;)
        status = tuff__record_write(record, &lines);
    if (status == TUFF_OK)
        status = tuff__file_write(file, &(file_part){tuff__text_get(&lines), lines.length}, 1, true, false);
    tuff__text_free(&lines);
    return status;
}

/* Loads the existing manifest, or opens an empty store. */
static tuff_status open_manifest(const char *file, tune_store **out)
{
    struct stat entry;
    if (tuff__file.lstat(file, &entry) != 0)
        return tuff__store_open(NULL, out);
    TRY(tuff__store_load(file, out));
    const store_counts counts = tuff__store_count(*out);
    if (counts.damaged == 0 && counts.unknown == 0)
        return TUFF_OK;
    tuff__store_close(*out);
    *out = NULL;
    return FAIL(TUFF_E_FORMAT, "%s: damaged, or not a manifest of this version", file);
}

/* Locks the manifest, so that concurrent writers do not lose each other's keys. If the file system has no locks, or the
   lock file belongs to another user, continues without a lock. */
static tuff_status lock_manifest(const char *file, file_lock *out)
{
    const uint64_t timeout = UINT64_C(10000000000); /* nanoseconds */
    saved_error before;
    text name = {0};
    tuff__error_save(&before);
    tuff__text_add(&name, "%s.lock", file);
    tuff_status status = tuff__text_status(&name);
    if (status == TUFF_OK)
        status = tuff__file_lock(tuff__text_get(&name), timeout, out);
    tuff__text_free(&name);
    if (status != TUFF_E_UNSUPPORTED && status != TUFF_E_IO)
        return status;
    tuff__error_restore(&before);
    return TUFF_OK;
}

/* Pins of other plans and environments in the file stay, so that one manifest can serve a whole program. */
static tuff_status save_manifest(const tuff_plan *plan, const char *file)
{
    tune_environment environment;
    tune_store *store = NULL;
    TRY(open_manifest(file, &store));
    tuff__environment_from_info(tuff__device_info(plan->device), &environment);
    tuff_status status = add_pins(plan, ENVIRONMENT_TEXT(&environment), store);
    if (status == TUFF_OK)
        status = write_store(store, file);
    tuff__store_close(store);
    return status;
}

tuff_status tuff_plan_save_manifest(tuff_plan *plan, const char *file)
{
    file_lock held = {.fd = -1};
    if (file == NULL || tuff_plan_key_count(plan) < 0)
        return file == NULL ? FAIL(TUFF_E_USAGE, "manifest: the path is NULL") : tuff_last_status();
    TRY(lock_manifest(file, &held));
    const tuff_status status = save_manifest(plan, file);
    tuff__file_unlock(&held);
    return status;
}
