/* Updates that the program masks, on every device found: masked elements keep their bits, the others are updated as
   without masks, for every optimizer; and the device can choose by norms without the host. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "train_fixture.h"

/* The mask of a parameter: none, the scalar one, or the one by rows. */
typedef enum masking { FREE, WHOLE, ROWS } masking;
enum { SPEC_COUNT = 8, NODES_MAX = 9 };

/* Rows of multiples of 16 elements and others, several ranks, one without elements, one frozen. */
typedef struct layout {
    tuff_parameter_spec specs[SPEC_COUNT];
    masking maskings[SPEC_COUNT];
    int64_t nodes;
} layout;

static layout draw_layout(int number, bool whole_blocks)
{
    const int64_t nodes = 2 + drawn_turn("nodes", number, NODES_MAX - 1), wide = 1 + drawn_turn("wide", number, 37);
    const int64_t row = whole_blocks ? 16 * (1 + wide % 5) : wide;
    return (layout){.specs = {{"free", {.rank = 2, .extent = {5, wide}}},
                              {"nodes.kernel", {.rank = 3, .extent = {nodes, 3, row}}},
                              {"whole.bias", {.rank = 1, .extent = {wide + 3}}},
                              {"nodes.weight", {.rank = 2, .extent = {nodes, row}}},
                              {"whole.weight", {.rank = 2, .extent = {17, 2 * wide}}},
                              {"empty", {.rank = 2, .extent = {0, 3}}},
                              {"frozen", {.rank = 1, .extent = {nodes}}},
                              {"nodes.bias", {.rank = whole_blocks ? 2 : 1, .extent = {nodes, 16}}}},
                    .maskings = {FREE, ROWS, WHOLE, ROWS, WHOLE, FREE, ROWS, ROWS},
                    .nodes = nodes};
}

static tuff_status use_inputs(void *user, const tuff_update_choice *choice)
{
    const layout *of = user;
    tuff_tensor *rows = tuff_input(choice->graph, "rows", TUFF_I32, TUFF_SHAPE(of->nodes));
    tuff_tensor *whole = tuff_input(choice->graph, "whole", TUFF_F32, TUFF_SCALAR);
    assert_int_equal(choice->count, SPEC_COUNT);
    const bool has_frozen = choice->group_count == 2;
    for (int i = 0; i < SPEC_COUNT; i++) {
        assert_null(choice->masks[i]);
        assert_true((choice->gradients[i] == NULL) == (has_frozen && strcmp(of->specs[i].name, "frozen") == 0));
        if (choice->gradients[i])
            assert_true(tuff_shape_equal(tuff_tensor_shape(choice->gradients[i]), of->specs[i].shape));
        choice->masks[i] = of->maskings[i] == ROWS ? rows : of->maskings[i] == WHOLE ? whole : NULL;
    }
    return TUFF_OK;
}

static trainer make(tuff_device *device, layout *of, tuff_optimizer_kind kind, bool is_masked)
{
    static const char *const patterns[] = {"frozen"};
    const tuff_parameter_group groups[] = {{0}, {.frozen = true}};
    const tuff_loss_scaling scaling = {.initial = 64};
    const tuff_optimizer_options options = {.kind = kind,
                                            .learning_rate = 0.01,
                                            .momentum = 0.9,
                                            .weight_decay = 0.1,
                                            .clip_norm = 1,
                                            .accumulate = kind % 2 == 0 ? 2 : 0,
                                            .average_decay = 0.5,
                                            .loss_scaling = &scaling,
                                            .groups = groups,
                                            .group_count = 2,
                                            .choose = is_masked ? use_inputs : NULL,
                                            .choose_user = of};
    return trainer_make(device, of->specs, SPEC_COUNT,
                        &(trainer_options){.optimizer = &options, .patterns = patterns, .pattern_count = 1});
}

static state_list read_state(trainer *self)
{
    state_list state;
    assert_int_equal(tuff__list_state(self->parameters, self->optimizer, &state), TUFF_OK);
    assert_int_equal(tuff__state_read(&state), TUFF_OK);
    return state;
}

typedef struct masks {
    int32_t rows[NODES_MAX + 1];
    float whole;
    bool is_first; /* the averages are initialized */
} masks;

/* Whether an element of a state tensor is updated: of a parameter, or of its moments or average. */
static bool moves(const layout *of, const masks *given, const state_tensor *tensor, int64_t element)
{
    for (int i = 0; i < SPEC_COUNT; i++) {
        const size_t length = strlen(of->specs[i].name), whole = strlen(tensor->name);
        if (whole < length || strcmp(tensor->name + whole - length, of->specs[i].name) != 0)
            continue;
        if (strcmp(of->specs[i].name, "frozen") == 0)
            return false;
        if ((given->is_first && strstr(tensor->name, "average.")) || of->maskings[i] == FREE)
            return true;
        if (of->maskings[i] == WHOLE)
            return given->whole != 0;
        bool any = false;
        for (int64_t row = 0; row < of->nodes; row++)
            any = any || given->rows[row] != 0;
        if (strstr(tensor->name, "column.") && of->specs[i].shape.rank == 2)
            return any;
        return given->rows[element / (tuff_shape_count(tensor->shape) / of->nodes)] != 0;
    }
    return true; /* scalars */
}

static void compare(const layout *of, const masks *given, const state_list *before, const state_list *after,
                    const state_list *plain)
{
    assert_int_equal(after->tensor_count, plain->tensor_count);
    for (int t = 0; t < after->tensor_count; t++) {
        const state_tensor *tensor = &after->tensors[t];
        const uint32_t *old = before->tensors[t].data, *now = tensor->data, *wanted = plain->tensors[t].data;
        for (int64_t i = 0; i < tuff_shape_count(tensor->shape); i++) {
            const bool is_moved = moves(of, given, tensor, i);
            float value, expected;
            memcpy(&value, &now[i], sizeof value);
            memcpy(&expected, &wanted[i], sizeof expected);
            const bool is_near = tensor->dtype == TUFF_F32 ? fabsf(value - expected) <= 2e-6F * (1 + fabsf(expected))
                                                           : now[i] == wanted[i];
            /* An average is initialized to the parameter, also if its update is masked. */
            if (given->is_first && strstr(tensor->name, "average."))
                continue;
            if (is_moved ? !is_near : now[i] != old[i])
                fail_msg("%s[%lld]: %s: %a, before %08x, without masks %a", tensor->name, (long long)i,
                         is_moved ? "not as without masks" : "moved", (double)value, old[i], (double)expected);
        }
    }
}

static void copy_state(const state_list *from, trainer *into)
{
    state_list state = read_state(into);
    for (int i = 0; i < state.array_count; i++)
        memcpy(state.arrays[i].host, from->arrays[i].host, (size_t)tuff_array_size(state.arrays[i].array));
    assert_int_equal(tuff__state_write(&state), TUFF_OK);
    tuff__state_free(&state);
}

static void step_with(trainer *self, const layout *of, const masks *given, int round, float bad)
{
    tuff_plan *plan = self->update ? self->update : self->plan;
    const int parts = self->update ? 2 : 1;
    assert_int_equal(tuff_plan_write(plan, "rows", given->rows, (size_t)of->nodes * 4), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "whole", &given->whole, 4), TUFF_OK);
    for (int i = 0; i < parts; i++) {
        trainer_write_gradients(self, round * parts + i);
        if (!isfinite(bad))
            assert_int_equal(tuff_plan_write_at(self->plan, tuff_plan_find_input(self->plan, "whole.bias"), 4, &bad, 4),
                             TUFF_OK);
        assert_int_equal(tuff_plan_run(self->plan), TUFF_OK);
    }
    if (self->update)
        assert_int_equal(tuff_plan_run(self->update), TUFF_OK);
}

/* Rounds: no rows, some, none but the scalar mask set, all. */
static masks draw_masks(const layout *of, int round)
{
    masks given = {.whole = round % 2 == 0 ? 0.0F : -0.5F, .is_first = round == 0};
    for (int64_t row = 0; row < of->nodes; row++)
        given.rows[row] = round == 0 || round == 2 ? 0 : round == 3 ? 1 : (int)(row * 5 % 3) - 1;
    return given;
}

/* Returns the state after a step without masks. Compiling takes most of the time, so that drivers run the masked plan
   with masks that mask nothing; that both are the same is tested on the reference device. */
static state_list plain_step(tuff_device *device, layout *of, trainer *masked, tuff_optimizer_kind kind, int round,
                             const state_list *before)
{
    masks all = {.whole = 1};
    for (int64_t row = 0; row < of->nodes; row++)
        all.rows[row] = 1;
    if (!tuff__device_is_reference(device)) {
        step_with(masked, of, &all, round, 0);
        state_list wanted = read_state(masked);
        copy_state(before, masked);
        return wanted;
    }
    trainer plain = make(device, of, kind, false);
    copy_state(before, &plain);
    trainer_step(&plain, round);
    state_list wanted = read_state(&plain);
    trainer_drop(&plain);
    return wanted;
}

static void check_kind(tuff_device *device, tuff_optimizer_kind kind)
{
    layout of = draw_layout((int)kind, kind % 3 == 0);
    trainer masked = make(device, &of, kind, true);
    size_t size, now_size;
    for (int round = 0; round < 4; round++) {
        const masks given = draw_masks(&of, round);
        state_list before = read_state(&masked);
        state_list wanted = plain_step(device, &of, &masked, kind, round, &before);
        step_with(&masked, &of, &given, round, 0);
        state_list after = read_state(&masked);
        compare(&of, &given, &before, &after, &wanted);
        tuff__state_free(&before);
        tuff__state_free(&after);
        tuff__state_free(&wanted);
    }
    /* A gradient that is not finite skips the step, whether it is masked or not. */
    char *before = trainer_bits(&masked, true, &size);
    for (int whole = 0; whole < 2; whole++) {
        masks given = draw_masks(&of, 1);
        given.whole = (float)whole;
        step_with(&masked, &of, &given, 5, whole ? INFINITY : NAN);
        char *now = trainer_bits(&masked, true, &now_size);
        assert_int_equal(now_size, size);
        assert_memory_equal(now, before, size);
        free(now);
    }
    free(before);
    trainer_drop(&masked);
}

static void check_kinds(tuff_device *device)
{
    for (int kind = 0; kind < TUFF_OPTIMIZER_COUNT; kind++)
        if (tuff__device_is_reference(device) || is_one_of_two_drawn(device, kind))
            check_kind(device, (tuff_optimizer_kind)kind);
}

static void what_is_masked_keeps_its_bits(void **state)
{
    (void)state;
    for_each_device(check_kinds);
}

/* Writes zeros over the gradients that the masks leave out. */
static void zero_gradients(trainer *self, const layout *of, const masks *given)
{
    static const float zeros[4096];
    for (int i = 0; i < SPEC_COUNT; i++) {
        const int64_t rows = of->maskings[i] == ROWS ? of->nodes : 1;
        const size_t size = (size_t)(tuff_shape_count(of->specs[i].shape) / rows) * sizeof(float);
        const int input = tuff_plan_find_input(self->plan, of->specs[i].name);
        assert_true(size <= sizeof zeros);
        for (int64_t row = 0; row < rows && of->maskings[i] != FREE && input >= 0; row++)
            if (of->maskings[i] == ROWS ? given->rows[row] == 0 : given->whole == 0)
                assert_int_equal(tuff_plan_write_at(self->plan, input, (uint64_t)row * size, zeros, size), TUFF_OK);
    }
}

/* Masks for gradients only act like zero gradients: moments decay, and elements that move without a gradient do. */
static void check_zeros(tuff_device *device)
{
    static const tuff_optimizer_kind kinds[] = {TUFF_ADAMW, TUFF_SGD, TUFF_ADAFACTOR};
    const tuff_optimizer_kind kind = kinds[drawn_turn("kind without gradients", 0, 3)];
    layout of = draw_layout((int)kind, kind == TUFF_SGD);
    tuff_optimizer_options options = {
        .kind = kind, .learning_rate = 0.01, .momentum = 0.9, .weight_decay = 0.1, .average_decay = 0.5};
    trainer plain = trainer_make(device, of.specs, SPEC_COUNT, &(trainer_options){.optimizer = &options});
    options.choose = use_inputs;
    options.choose_user = &of;
    options.zero_masked = true;
    trainer masked = trainer_make(device, of.specs, SPEC_COUNT, &(trainer_options){.optimizer = &options});
    for (int round = 0; round < 4; round++) {
        const masks given = draw_masks(&of, 3 - round);
        step_with(&masked, &of, &given, round, 0);
        trainer_write_gradients(&plain, round);
        zero_gradients(&plain, &of, &given);
        assert_int_equal(tuff_plan_run(plain.plan), TUFF_OK);
    }
    state_list got = read_state(&masked), wanted = read_state(&plain);
    for (int t = 0; t < got.tensor_count; t++)
        for (int64_t i = 0; i < tuff_shape_count(got.tensors[t].shape) && got.tensors[t].dtype == TUFF_F32; i++) {
            const float value = ((const float *)got.tensors[t].data)[i];
            const float expected = ((const float *)wanted.tensors[t].data)[i];
            if (!(fabsf(value - expected) <= 2e-6F * (1 + fabsf(expected))))
                fail_msg("%s[%lld]: %g instead of %g", got.tensors[t].name, (long long)i, (double)value,
                         (double)expected);
        }
    tuff__state_free(&got);
    tuff__state_free(&wanted);
    trainer_drop(&masked);
    trainer_drop(&plain);
}

static void masks_may_be_of_gradients_alone(void **state)
{
    (void)state;
    for_drawn_drivers(check_zeros);
}

/* The tree of docs/training.md: of 13 nodes with two tensors each, the five with the largest gradients are updated. */
enum { NODES = 13, KEPT = 5, TREE_SPECS = 2 * NODES + 1 };

static tuff_status keep_largest(void *user, const tuff_update_choice *choice)
{
    const int last = 1, first = 0;
    (void)user;
    const int64_t from = 0, to = (int64_t)2 * NODES;
    tuff_tensor *norms = tuff_slice(choice->tensors->tensor_norms, &from, &to, NULL), *indices;
    tuff_tensor *squares = tuff_reshape(tuff_mul(norms, norms), TUFF_SHAPE(NODES, 2));
    (void)tuff_top_k(tuff_sum(squares, &last, 1, false), KEPT, 0, &indices);
    tuff_tensor *kept = tuff_sum(tuff_one_hot(indices, NODES), &first, 1, false);
    tuff_output(choice->graph, "kept", kept);
    for (int64_t node = 0; node < NODES; node++) {
        const int64_t end = node + 1;
        tuff_tensor *own = tuff_reshape(tuff_slice(kept, &node, &end, NULL), TUFF_SCALAR);
        choice->masks[2 * node] = choice->masks[2 * node + 1] = own;
    }
    return TUFF_OK;
}

static double node_score(int node, const tuff_parameter_spec *specs, int round)
{
    double sum = 0;
    for (int i = 2 * node; i < 2 * node + 2; i++)
        for (int64_t at = 0; at < tuff_shape_count(specs[i].shape); at++)
            sum += pow(trainer_value(i, at, round + 1), 2);
    return sum;
}

static void check_tree(tuff_device *device)
{
    tuff_parameter_spec specs[TREE_SPECS];
    char names[TREE_SPECS][24];
    for (int i = 0; i < TREE_SPECS; i++) {
        (void)snprintf(names[i], sizeof names[i], "tensor%d", i);
        specs[i] = (tuff_parameter_spec){names[i], {.rank = 2, .extent = {3 + i * 5 % 7, 4}}};
    }
    const tuff_optimizer_options options = {.momentum = 0.9, .tensor_norms = true, .choose = keep_largest};
    trainer self = trainer_make(device, specs, TREE_SPECS, &(trainer_options){.optimizer = &options});
    for (int round = 0; round < 3; round++) {
        float kept[NODES];
        float *before[TREE_SPECS];
        for (int i = 0; i < TREE_SPECS; i++)
            before[i] = trainer_weights(&self, i);
        trainer_step(&self, round);
        assert_int_equal(tuff_plan_read(self.plan, "kept", kept, sizeof kept), TUFF_OK);
        for (int node = 0; node < NODES; node++) {
            int larger = 0;
            for (int other = 0; other < NODES; other++)
                larger += node_score(other, specs, round) > node_score(node, specs, round);
            assert_true(kept[node] == (larger < KEPT ? 1 : 0));
        }
        for (int i = 0; i < TREE_SPECS; i++) {
            float *now = trainer_weights(&self, i);
            const bool is_same = memcmp(now, before[i], (size_t)tuff_shape_count(specs[i].shape) * 4) == 0;
            assert_true(is_same == (i < 2 * NODES && kept[i / 2] == 0));
            free(now);
            free(before[i]);
        }
    }
    trainer_drop(&self);
}

static void the_device_chooses_by_norms(void **state)
{
    (void)state;
    for_drawn_drivers(check_tree);
}

static tuff_status choose_wrongly(void *user, const tuff_update_choice *choice)
{
    const int how = *(const int *)user;
    if (how == 0)
        choice->masks[0] = tuff_constant(choice->graph, TUFF_F32, 1);
    else if (how == 1)
        choice->masks[0] = tuff_expand(tuff_constant(choice->graph, TUFF_F32, 1), TUFF_SHAPE(4));
    return how == 2 ? TUFF_E_NUMERIC : TUFF_OK;
}

static void wrong_masks_are_refused(void **state)
{
    static const tuff_status expected[] = {TUFF_OK, TUFF_E_SHAPE, TUFF_E_NUMERIC};
    const tuff_parameter_spec spec = {"w", {.rank = 2, .extent = {3, 4}}};
    const int all[] = {0, 1};
    (void)state;
    tuff_device *device = tuff_device_open("reference");
    tuff_parameters *parameters = tuff_parameters_create(device, &spec, 1);
    for (int how = 0; how < 3; how++) {
        tuff_optimizer *optimizer =
            tuff_optimizer_create(parameters, &(tuff_optimizer_options){.choose = choose_wrongly, .choose_user = &how});
        tuff_graph *graph = tuff_graph_create(device);
        tuff_tensor *loss = tuff_sum(tuff_array_tensor(graph, tuff_parameters_at(parameters, 0, NULL)), all, 2, false);
        assert_int_equal(tuff_optimizer_apply(optimizer, loss, NULL), expected[how]);
        assert_int_equal(tuff_graph_status(graph), expected[how]); /* half a step cannot be compiled */
        tuff_graph_destroy(graph);
        tuff_optimizer_destroy(optimizer);
    }
    tuff_parameters_destroy(parameters);
    tuff_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_masked_keeps_its_bits), cmocka_unit_test(masks_may_be_of_gradients_alone),
        cmocka_unit_test(the_device_chooses_by_norms), cmocka_unit_test(wrong_masks_are_refused)};
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
