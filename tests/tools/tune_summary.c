/* What tuning prints while it runs and at its end says the same: a candidate that led during a search and did not win
   is called unconfirmed on its progress line, and is counted as such in the summary. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "each_device.h"
#include "exec/plan.h"
#include "tools/tune/tuning.h"

static char printed[4096];
static FILE *captured;
static int error_stream;

/* From here on, what is printed on the error stream goes to a file. */
static void begin_capture(void)
{
    fflush(stderr);
    error_stream = dup(2);
    captured = tmpfile();
    assert_non_null(captured);
    assert_true(dup2(fileno(captured), 2) == 2);
}

static void end_capture(void)
{
    fflush(stderr);
    assert_true(dup2(error_stream, 2) == 2);
    close(error_stream);
    rewind(captured);
    printed[fread(printed, 1, sizeof printed - 1, captured)] = 0;
    fclose(captured);
}

static void expect_printed(const char *words, bool expected)
{
    if ((strstr(printed, words) != NULL) != expected)
        fail_msg("%s \"%s\" in: %s", expected ? "missing:" : "unexpected:", words, printed);
}

/* Reports progress of a key: its best candidate takes half of the default's time; "": the default leads. */
static void report(const tuff_compile_options *options, const char *key, const char *best)
{
    const tuff_tune_progress now = {.key_count = 1,
                                    .key = key,
                                    .best = best,
                                    .default_nanoseconds = 2000000,
                                    .best_nanoseconds = best[0] ? 1000000 : 2000000,
                                    .rejection = ""};
    begin_capture();
    assert_true(options->tuning->progress(options->tuning->user, &now));
    end_capture();
}

static void summarize(tuning *self, tuff_plan *plan, int unconfirmed)
{
    char count[64];
    begin_capture();
    const bool is_right = tuning_end(self, plan);
    end_capture();
    assert_true(is_right);
    expect_printed("tuned: 0 of 1 keys known, 1 measured, ", true);
    snprintf(count, sizeof count, "%d with a fast candidate that was not confirmed", unconfirmed);
    expect_printed(unconfirmed > 0 ? count : "not confirmed", unconfirmed > 0);
}

static void check_summary(tuff_device *device)
{
    static const char lead[] = "matmul_register.rows=2";
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(8, 8));
    tuff_output(graph, "y", tuff_matmul(x, x));
    tuff_plan *plan = tuff_compile(graph, NULL);
    assert_non_null(plan);
    assert_int_equal(tuff_plan_key_count(plan), 1);
    plan->tuning.measured = 1; /* as after a search */

    tuning self = {.mode = TUFF_TUNE_QUICK, .mode_given = true};
    tuff_compile_options options = {.fuse = TUFF_FUSE_ALL};
    tuning_apply(&self, &options);
    const char *key = plan->keys.items[0].text;
    summarize(&self, plan, 0); /* no candidate led */

    report(&options, key, lead);
    expect_printed("2.00x unconfirmed (2.000->1.000 ms)", true);
    report(&options, "another key, of another plan", lead);
    summarize(&self, plan, 1);

    /* The default took the lead again before the end of the search. */
    report(&options, key, "");
    expect_printed("unconfirmed", false);
    summarize(&self, plan, 0);

    /* The candidate won. */
    report(&options, key, lead);
    tuff__free(plan->keys.items[0].candidate);
    plan->keys.items[0].candidate = tuff__strdup(lead);
    assert_non_null(plan->keys.items[0].candidate);
    summarize(&self, plan, 0);

    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
}

static void progress_and_summary_agree_on_leads(void **state)
{
    (void)state;
    for_drawn_drivers(check_summary);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(progress_and_summary_agree_on_leads)};
    (void)unsetenv("TUFF_TUNE");
    return cmocka_run_group_tests(tests, use_empty_cache, drop_cache);
}
