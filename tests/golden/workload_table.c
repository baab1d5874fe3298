/* The golden files of the training examples, and the values to compare for each model. A new example needs a row of the
   table, and a function if names in its configuration differ from the file's. */
#include "workload_table.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden_common.h"

extern const example dotgat_example, vision_bdh_example, ragged_sequence_example, k1_tree_example, route_cost_example;

static bool configure_dotgat(const tuff_file *file, void *config)
{
    const char *shared = tuff_file_metadata(file, "shared_v"), *loss = tuff_file_metadata(file, "loss");
    return example_set(&dotgat_example, config, "own_values", shared && strcmp(shared, "false") == 0) &&
           example_set(&dotgat_example, config, "argmax", loss && strcmp(loss, "mse") != 0);
}

static bool configure_vision(const tuff_file *file, void *config)
{
    const char *softmax = tuff_file_metadata(file, "use_softmax");
    return example_set(&vision_bdh_example, config, "use_softmax", softmax && strcmp(softmax, "true") == 0);
}

static bool configure_query(const tuff_file *file, void *config)
{
    (void)file;
    return example_set(&ragged_sequence_example, config, "read_query", 1);
}

/* The numbers of schedules, and the actions of the greedy rollout, which ends early. */
static bool bind_route_cost(const tuff_file *file, const void *config, const char *name, void *values, size_t size)
{
    const char *metadata = tuff_file_metadata(file, name);
    tuff_file_tensor tensor;
    (void)config;
    if (metadata && size == sizeof(float)) {
        const float number = strtof(metadata, NULL);
        memcpy(values, &number, sizeof number);
        return true;
    }
    if (strcmp(name, "greedy_actions") != 0 || !golden_find(file, "greedy.", "actions", &tensor) || tensor.size != size)
        return false;
    memcpy(values, tensor.data, size);
    return true;
}

/* A batch in which every sample is the end of a region, so that none has an action. */
static bool bind_ends_alone(const tuff_file *file, const void *config, const char *name, void *values, size_t size)
{
    const bool is_type = strcmp(name, "target_type") == 0;
    (void)file;
    (void)config;
    for (size_t i = 0; i < size / sizeof(int32_t) && (is_type || strcmp(name, "target_action") == 0); i++)
        ((int32_t *)values)[i] = is_type ? 2 : -1;
    return is_type || strcmp(name, "target_action") == 0;
}

/* A step must update exactly the nodes that the file lists. The file's scores are of clipped gradients, ordered by
   number; the model's are of unclipped gradients, in the order of the published list. */
static double compare_choice(const tuff_file *file, const void *config, const example_test_step *trial, int64_t step)
{
    enum { NODES = 13, KEPT = 5 };
    static const int listed[NODES] = {0, 1, 4, 5, 6, 2, 7, 8, 9, 3, 10, 11, 12};
    double l2 = 0, subtree = 0, worst = 0, most = 0;
    int64_t count = 0, same = 0;
    char key[32];
    tuff_file_tensor scores, kept;
    (void)example_get(&k1_tree_example, config, "l2", &l2);
    (void)example_get(&k1_tree_example, config, "subtree", &subtree);
    snprintf(key, sizeof key, "%s.%s", l2 > 0 ? "l2" : "sum", subtree > 0 ? "subtree" : "own");
    float *got = example_test_step_read(trial, "out.scores", false, &count);
    float *updated = example_test_step_read(trial, "out.kept", false, &same);
    if (!golden_find(file, "scores10.", key, &scores) || !golden_find(file, "kept10.", key, &kept) || !got ||
        !updated || count != NODES || same != NODES)
        worst = NAN;
    const double clip = fmin(1, 1 / (trial->gradient_norm + 1e-6));
    for (int i = 0; i < NODES && !isnan(worst); i++) {
        const double wanted = golden_element(&scores, step * NODES + listed[i]);
        most = fmax(most, wanted);
        worst = fmax(worst, fabs(clip * (double)got[i] - wanted));
    }
    worst /= 2e-5 * most;
    for (int v = 0; v < NODES && !isnan(worst); v++) {
        float wanted = 0;
        for (int i = 0; i < KEPT; i++)
            wanted += (int)golden_element(&kept, step * KEPT + i) == v;
        worst = wanted == updated[v] ? worst : INFINITY;
    }
    free(got);
    free(updated);
    return worst;
}

#define BARS_OF_MOST                                                                                                 \
    {                                                                                                                \
        .out = 2e-5, .gradient = 2e-5, .loss = 1e-5, .norm = 1e-5, .noise = 1e-5, .threshold = 1e-4, .close1 = 0.01, \
        .far1 = 2.1, .close10 = 0.05, .far10 = 21                                                                    \
    }
#define BARS_OF_RAGGED                                                                                               \
    {                                                                                                                \
        .out = 1e-5, .gradient = 1e-5, .loss = 1e-5, .norm = 1e-5, .noise = 1e-5, .threshold = 1e-4, .close1 = 0.01, \
        .far1 = 2.1, .close10 = 0.02, .far10 = 21                                                                    \
    }
/* Softmax is invariant to the bias of keys, which is the second third. */
#define K1_TREE                                                                                               \
    .model = &k1_tree_example, .prefix = "", .zero_endings = "in_proj.bias", .zero_part = 1, .zero_parts = 3, \
    .bars = BARS_OF_MOST
const workload workload_table[] = {
    {.file = "1_dotgat", .model = &dotgat_example, .prefix = "", .configure = configure_dotgat, .bars = BARS_OF_MOST},
    {.file = "2_vision_bdh",
     .model = &vision_bdh_example,
     .prefix = "",
     .configure = configure_vision,
     .bars = BARS_OF_MOST},
    {.file = "3_ragged_sequence",
     .model = &ragged_sequence_example,
     .prefix = "",
     .zero_endings = "in_proj.bias",
     .zero_part = 1,
     .zero_parts = 3,
     .decaying_endings = "Eq,pos",
     .bars = BARS_OF_RAGGED},
    {.file = "3_ragged_sequence",
     .model = &ragged_sequence_example,
     .prefix = "alt.",
     .configure = configure_query,
     .zero_endings = "in_proj.bias",
     .zero_part = 1,
     .zero_parts = 3,
     .decaying_endings = "Eq,pos",
     .bars = BARS_OF_RAGGED},
    {.file = "3_ragged_sequence",
     .model = &ragged_sequence_example,
     .prefix = "edge.",
     .bind = bind_ends_alone,
     .forward_only = true,
     .bars = BARS_OF_RAGGED},
    {.file = "5_k1_a", .numbers = {{"tree", 0}}, K1_TREE},
    {.file = "5_k1_b", .numbers = {{"tree", 1}}, .compare = compare_choice, K1_TREE},
    {.file = "5_k1_b",
     .variant = "_sum_subtree",
     .numbers = {{"tree", 1}, {"subtree", 1}},
     .compare = compare_choice,
     K1_TREE},
    {.file = "5_k1_b", .variant = "_l2_own", .numbers = {{"tree", 1}, {"l2", 1}}, .compare = compare_choice, K1_TREE},
    {.file = "5_k1_b",
     .variant = "_l2_subtree",
     .numbers = {{"tree", 1}, {"l2", 1}, {"subtree", 1}},
     .compare = compare_choice,
     K1_TREE},
    {.file = "4_route_cost",
     .model = &route_cost_example,
     .prefix = "",
     .bind = bind_route_cost,
     .also = "greedy.",
     .zero_endings = ".k.bias,.head_bias,.p2.bias",
     .zero_parts = 1,
     .decaying_endings = ".table",
     .bars = {.out = 5e-5,
              .gradient = 5e-5,
              .loss = 1e-5,
              .norm = 1e-4,
              .noise = 1e-6,
              .threshold = 1e-3,
              .close1 = 0.01,
              .far1 = 2.1,
              .close10 = 0.02,
              .far10 = 21}},
};
const int workload_table_count = sizeof workload_table / sizeof *workload_table;

bool golden_workload(golden_run *run)
{
    const char *name = tuff_file_metadata(run->file, "workload");
    bool is_one = false;
    for (int i = 0; name && i < workload_table_count; i++) {
        if (strcmp(workload_table[i].file, name) != 0)
            continue;
        is_one = true;
        for (int optimized = 0; optimized < 2; optimized++) {
            if (optimized && run->compile.fuse == TUFF_FUSE_NONE)
                continue;
            const workload_counts counts = workload_check(&workload_table[i], run->file, run->device, optimized == 1);
            run->passed += counts.compared - counts.failed;
            run->failed += counts.failed;
        }
    }
    return is_one;
}
