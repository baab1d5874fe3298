/* Runs the compiler's first passes on small graphs, for tests of its tasks. */
#include "fusions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile/rewrite/matmul_merge.h"
#include "compile/rewrite/simplify.h"
#include "compile/task_key.h"

static bool is_among(const uint64_t *seen, int count, uint64_t number)
{
    for (int i = 0; i < count; i++)
        if (seen[i] == number)
            return true;
    return false;
}

static void visit_tasks(const struct fusion *fusion, uint64_t (*number)(const tune_key *key), key_visitor visit,
                        void *state)
{
    enum { MOST = 128 };
    uint64_t seen[MOST];
    int count = 0;
    for (int i = 0; i < fusion->task_count; i++) {
        tune_key key;
        if (tuff__task_key(fusion, i, &key) != TUFF_OK || is_among(seen, count, number(&key)))
            continue;
        assert_true(count < MOST);
        seen[count++] = number(&key);
        visit(fusion, i, KEY_TEXT(&key), state);
    }
}

void for_each_task(tuff_graph *graph, const tuff_compile_options *options, uint64_t (*number)(const tune_key *key),
                   key_visitor visit, void *state)
{
    struct fusion fusion;
    assert_non_null(graph);
    tuff_graph *simple = tuff__simplify(graph, false);
    assert_non_null(simple);
    assert_int_equal(tuff__merge_matmuls(simple, options, NULL), TUFF_OK);
    assert_int_equal(tuff__fuse(simple, options, MAX_BINDINGS, NULL, &fusion), TUFF_OK);
    visit_tasks(&fusion, number, visit, state);
    tuff__fusion_free(&fusion);
    tuff_graph_destroy(simple);
    tuff_graph_destroy(graph);
}

tuff_status lower_and_create(tuff_device *device, const struct fusion *fusion, int task, const tune_config *config,
                             test_buffers *buffers, candidate_run **out)
{
    const tuff_compile_options options = {.fuse = TUFF_FUSE_ALL};
    launch_list launches;
    *out = NULL;
    TRY(tuff__lower_task(device, fusion, &options, task, config, NULL, &launches));
    return tuff__candidate_run_create(&launches, buffers, NULL, out);
}
