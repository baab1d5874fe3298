/* The results of tuning as data, which `tuff tune report` prints as JSON or as a page. */
#ifndef TUFF_TOOLS_TUNE_REPORT_DATA_H
#define TUFF_TOOLS_TUNE_REPORT_DATA_H

#include <jansson.h>

#include "base/text.h"
#include "tools/cache/cache.h"
#include "tools/model/known_plans.h"

/* Collects the data of the wanted files; returns NULL if memory runs out. If plans is not NULL: only the environment
   `here` of their device, and only their keys, with how often each plan calls them and the share of its kernels' time
   that tuning saves.

     {"version": TEXT, "time": SECONDS, "model": whether plans were given, "environments": [
       {"environment": TEXT, "device": TEXT, "driver": TEXT, "backend": TEXT,
        "steps": [{"name": "train", "keys": N, "known": N, "default_nanoseconds": N, "nanoseconds": N}...],
        "keys": [{"key": DIGITS, "op": TEXT, "family": TEXT, "dims": TEXT, "known": whether there is a winner,
                  "candidate": TEXT, "nanoseconds": [q25, median, q75], "samples": N, "default_nanoseconds": N,
                  "gain": X, "timed": N, "spread": [least, q25, median, q75, most], "runners_up": [TEXT...],
                  "source": TEXT, "time": SECONDS, "current": whether for today's kernel texts, "pin": TEXT or null,
                  "rejected": [{"candidate": TEXT, "why": TEXT, "phase": TEXT}...],
                  "calls": [N...], "saved": [X...]}...]}...]}

   Keys are sorted by what they save, then by their gain. calls and saved have one item per step. */
json_t *report_data(const tuff_cache *cache, const model_plans *plans, const tune_environment *here);

/* Formats the data as a self-contained HTML page. */
tuff_status report_page(const json_t *data, text *out);

#endif
