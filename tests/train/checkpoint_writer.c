/* Saving in the background of training, on every device found: the file of a step equals one that was saved between two
   steps, whatever runs meanwhile. Also file names, full disks, and running out of memory. */
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "failing_memory.h"
#include "faulty_files.h"
#include "scratch_folder.h"
#include "tuff.h"

/* Larger than a piece: pieces are made small below. */
static const tuff_parameter_spec specs[] = {{"weight", {.rank = 2, .extent = {37, 53}}},
                                            {"bias", {.rank = 1, .extent = {53}}}};

typedef struct training {
    tuff_parameters *parameters;
    tuff_optimizer *optimizer;
    tuff_plan *plan;
} training;

/* loss = sum of (x · weight + bias)^2 for random x. */
static training make_training(tuff_device *device)
{
    training self = {.parameters = tuff_parameters_create(device, specs, 2)};
    self.optimizer =
        tuff_optimizer_create(self.parameters, &(tuff_optimizer_options){.learning_rate = 0.01, .weight_decay = 0.1});
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    tuff_graph_step(graph, tuff_optimizer_counter(self.optimizer));
    const int both[] = {0, 1};
    tuff_tensor *x = tuff_random(graph, TUFF_SHAPE(3, 37));
    tuff_tensor *y = tuff_linear(x, tuff_array_tensor(graph, tuff_parameters_find(self.parameters, "weight")),
                                 tuff_array_tensor(graph, tuff_parameters_find(self.parameters, "bias")));
    tuff_tensor *error = tuff_sub(y, tuff_constant(graph, TUFF_F32, 1));
    assert_int_equal(tuff_optimizer_apply(self.optimizer, tuff_sum(tuff_mul(error, error), both, 2, false), NULL),
                     TUFF_OK);
    self.plan = tuff_compile(graph, NULL);
    if (!self.plan)
        fail_msg("%s", tuff_error());
    tuff_graph_destroy(graph);
    return self;
}

static void drop_training(training *self)
{
    tuff_plan_destroy(self->plan);
    tuff_optimizer_destroy(self->optimizer);
    tuff_parameters_destroy(self->parameters);
}

static void step(training *self, int count)
{
    for (int i = 0; i < count; i++)
        assert_int_equal(tuff_plan_run(self->plan), TUFF_OK);
}

static void assert_same_files(const char *a, const char *b)
{
    size_t size_a, size_b;
    char *bytes_a = scratch_read(a, &size_a), *bytes_b = scratch_read(b, &size_b);
    assert_non_null(bytes_a);
    assert_non_null(bytes_b);
    assert_int_equal(size_a, size_b);
    assert_memory_equal(bytes_a, bytes_b, size_a);
    free(bytes_a);
    free(bytes_b);
}

static const char *const keys[] = {"note"}, *const texts[] = {"so far"};

static void save_now(training *self, const char *name)
{
    assert_int_equal(tuff_checkpoint_save(scratch_path(name), self->parameters, self->optimizer, keys, texts, 1),
                     TUFF_OK);
}

static void save_beside(tuff_checkpoint_writer *writer, const char *name, tuff_checkpoint_options options)
{
    char key[] = "note", text[] = "so far";
    const char *own_keys[] = {key}, *own_texts[] = {text};
    options.keys = own_keys;
    options.texts = own_texts;
    options.metadata_count = 1;
    if (tuff_checkpoint_writer_save(writer, scratch_path(name), &options) != TUFF_OK)
        fail_msg("%s", tuff_error());
    key[0] = text[0] = 'x'; /* the writer has copied them */
}

static void check_saving(tuff_device *device)
{
    training whole = make_training(device), stepwise = make_training(device);
    tuff_checkpoint_writer *writer = tuff_checkpoint_writer_create(whole.parameters, whole.optimizer);
    assert_non_null(writer);
    for (int round = 0; round < 4; round++) {
        step(&whole, 3);
        save_beside(writer, "beside", (tuff_checkpoint_options){0});
        step(&whole, 4);
        step(&stepwise, 3);
        save_now(&stepwise, "between");
        step(&stepwise, 4);
        assert_int_equal(tuff_checkpoint_writer_wait(writer), TUFF_OK);
        assert_same_files("beside", "between");
    }
    /* Several saves in a row; destroying the writer finishes the last one. */
    for (int i = 0; i < 3; i++) {
        step(&whole, 1);
        save_beside(writer, "beside", (tuff_checkpoint_options){0});
    }
    step(&whole, 2);
    assert_int_equal(tuff_checkpoint_writer_destroy(writer), TUFF_OK);
    step(&stepwise, 3);
    save_now(&stepwise, "between");
    assert_same_files("beside", "between");
    /* Training continues with the same bits. */
    assert_int_equal(tuff_checkpoint_load(scratch_path("beside"), whole.parameters, whole.optimizer), TUFF_OK);
    step(&whole, 5);
    step(&stepwise, 5);
    save_now(&whole, "beside");
    save_now(&stepwise, "between");
    assert_same_files("beside", "between");
    drop_training(&whole);
    drop_training(&stepwise);
}

static void saves_while_steps_go_on(void **state)
{
    (void)state;
    for_drawn_devices(check_saving);
}

static void check_names(tuff_device *device)
{
    training self = make_training(device);
    tuff_checkpoint_writer *writer = tuff_checkpoint_writer_create(self.parameters, self.optimizer);
    char stale[] = "other";
    scratch_write("c.step-900", stale, sizeof stale);
    scratch_write("c.step-007", stale, sizeof stale);
    scratch_write("c.step-2.bak", stale, sizeof stale);
    for (int64_t i = 1; i <= 5; i++) {
        step(&self, 1);
        save_beside(writer, "c", (tuff_checkpoint_options){.step = 2 * i, .keep = 2, .best = i == 3});
        if (i == 3) {
            assert_int_equal(tuff_checkpoint_writer_wait(writer), TUFF_OK);
            save_now(&self, "third");
        }
    }
    assert_int_equal(tuff_checkpoint_writer_wait(writer), TUFF_OK);
    assert_string_equal(scratch_list(), "c c.best c.prev c.step-007 c.step-10 c.step-2.bak c.step-8 c.step-900 third ");
    assert_same_files("c", "c.step-10");
    assert_same_files("c.prev", "c.step-8");
    assert_same_files("c.best", "third");
    /* A synchronous save without a writer. */
    const tuff_checkpoint_options last = {.keys = keys, .texts = texts, .metadata_count = 1, .step = 11, .keep = 1};
    assert_int_equal(tuff_checkpoint_save_as(scratch_path("c"), self.parameters, self.optimizer, &last), TUFF_OK);
    assert_string_equal(scratch_list(), "c c.best c.prev c.step-007 c.step-11 c.step-2.bak c.step-900 third ");
    /* The time in nanoseconds as a step. */
    for (int64_t i = 0; i < 2; i++) {
        const tuff_checkpoint_options late = {.step = 1764000000000000000 + i, .keep = 1};
        assert_int_equal(tuff_checkpoint_save_as(scratch_path("c"), self.parameters, self.optimizer, &late), TUFF_OK);
    }
    assert_string_equal(scratch_list(), "c c.best c.prev c.step-007 c.step-1764000000000000001 c.step-2.bak third ");
    assert_int_equal(tuff_checkpoint_writer_destroy(writer), TUFF_OK);
    drop_training(&self);
}

static void keeps_the_last_and_the_best(void **state)
{
    (void)state;
    tuff_device *device = tuff_device_open("reference");
    check_names(device);
    tuff_device_close(device);
}

/* Every file operation of a save fails in turn: the old file stays complete, the next call reports the error, and the
   call after it saves. */
static void survives_bad_disks(void **state)
{
    (void)state;
    tuff_device *device = tuff_device_open("reference");
    training self = make_training(device), loaded = make_training(device);
    tuff_checkpoint_writer *writer = tuff_checkpoint_writer_create(self.parameters, self.optimizer);
    step(&self, 2);
    save_beside(writer, "c", (tuff_checkpoint_options){0});
    assert_int_equal(tuff_checkpoint_writer_wait(writer), TUFF_OK);
    save_now(&self, "first");
    step(&self, 1);
    for (int failing = 1;; failing++) {
        faulty_files_begin(failing % 2 ? FAULT_ENOSPC : FAULT_EIO, failing, false);
        save_beside(writer, "c", (tuff_checkpoint_options){.step = 3, .keep = 1});
        step(&self, 1);
        const tuff_status status = tuff_checkpoint_writer_wait(writer);
        assert_int_equal(faulty_files_open(), 0);
        const bool was_hit = faulty_files_end();
        if (!was_hit) {
            assert_int_equal(status, TUFF_OK);
            break;
        }
        if (status != TUFF_OK)
            assert_int_equal(status, TUFF_E_IO);
        assert_int_equal(tuff_checkpoint_writer_wait(writer), TUFF_OK); /* the error is reported once */
        assert_int_equal(tuff_checkpoint_load(scratch_path("c"), loaded.parameters, loaded.optimizer), TUFF_OK);
        assert_null(strstr(scratch_list(), ".tmp-"));
    }
    /* The next save reports the error as well, without saving. */
    save_beside(writer, "no folder/c", (tuff_checkpoint_options){0});
    assert_int_equal(tuff_checkpoint_writer_save(writer, scratch_path("never"), NULL), TUFF_E_IO);
    assert_non_null(strstr(tuff_error(), "no folder"));
    assert_null(strstr(scratch_list(), "never"));
    assert_int_equal(tuff_checkpoint_writer_save(writer, scratch_path("then"), NULL), TUFF_OK);
    assert_int_equal(tuff_checkpoint_writer_save(writer, NULL, NULL), TUFF_E_USAGE);
    const tuff_checkpoint_options wrong[] = {{.step = -1}, {.keep = -1}, {.metadata_count = 1}, {.metadata_count = -1}};
    for (int i = 0; i < 4; i++)
        assert_int_equal(tuff_checkpoint_writer_save(writer, scratch_path("never"), &wrong[i]), TUFF_E_USAGE);
    save_beside(writer, "no folder/c", (tuff_checkpoint_options){0});
    assert_int_equal(tuff_checkpoint_writer_destroy(writer), TUFF_E_IO);
    assert_non_null(strstr(scratch_list(), "then"));
    assert_int_equal(tuff_checkpoint_writer_destroy(NULL), TUFF_OK);
    drop_training(&self);
    drop_training(&loaded);
    tuff_device_close(device);
}

static tuff_parameters *kept_parameters;

static bool save_some(void)
{
    tuff_checkpoint_writer *writer = tuff_checkpoint_writer_create(kept_parameters, NULL);
    if (!writer)
        return false;
    const tuff_checkpoint_options options = {
        .keys = keys, .texts = texts, .metadata_count = 1, .step = 4, .keep = 1, .best = true};
    const tuff_status saved = tuff_checkpoint_writer_save(writer, scratch_path("m"), &options);
    return (tuff_checkpoint_writer_destroy(writer) == TUFF_OK) & (saved == TUFF_OK);
}

static void runs_out_of_memory(void **state)
{
    (void)state;
    tuff_device *device = tuff_device_open("reference");
    kept_parameters = tuff_parameters_create(device, specs, 2);
    assert_true(fail_each_request(save_some, NULL) >= 20);
    tuff_parameters_destroy(kept_parameters);
    tuff_device_close(device);
}

static void check_clones(tuff_device *device)
{
    training self = make_training(device);
    float then[37 * 53], now[37 * 53];
    step(&self, 2);
    tuff_parameters *frozen = tuff_parameters_clone(self.parameters);
    assert_non_null(frozen);
    tuff_array *own = tuff_parameters_find(self.parameters, "weight"), *other = tuff_parameters_find(frozen, "weight");
    assert_int_equal(tuff_array_read(own, then, sizeof then), TUFF_OK);
    step(&self, 3);
    assert_int_equal(tuff_array_read(other, now, sizeof now), TUFF_OK);
    assert_memory_equal(then, now, sizeof now);
    assert_int_equal(tuff_parameters_copy(self.parameters, frozen), TUFF_OK);
    assert_int_equal(tuff_array_read(own, now, sizeof now), TUFF_OK);
    assert_memory_equal(then, now, sizeof now);
    tuff_parameters *smaller = tuff_parameters_create(device, specs, 1);
    assert_int_equal(tuff_parameters_copy(smaller, frozen), TUFF_E_USAGE);
    assert_int_equal(tuff_parameters_copy(NULL, frozen), TUFF_E_USAGE);
    assert_null(tuff_parameters_clone(NULL));
    tuff_parameters_destroy(smaller);
    tuff_parameters_destroy(frozen);
    drop_training(&self);
}

/* A clone has the same groups, so that it accepts an optimizer with as many. */
static void check_grouped_clone(tuff_device *device)
{
    static const char *const patterns[] = {"weight"};
    const tuff_parameter_group groups[] = {{0}, {.rate_factor = 0.5}};
    tuff_parameters *grouped = tuff_parameters_create_grouped(device, specs, 2, patterns, 1);
    tuff_parameters *clone = tuff_parameters_clone(grouped);
    assert_non_null(clone);
    tuff_optimizer *optimizer =
        tuff_optimizer_create(clone, &(tuff_optimizer_options){.groups = groups, .group_count = 2});
    if (!optimizer)
        fail_msg("%s", tuff_error());
    tuff_optimizer_destroy(optimizer);
    tuff_parameters_destroy(clone);
    tuff_parameters_destroy(grouped);
}

static void clones_have_the_groups(void **state)
{
    (void)state;
    tuff_device *device = tuff_device_open("reference");
    check_grouped_clone(device);
    tuff_device_close(device);
}

static void clones_parameters(void **state)
{
    (void)state;
    for_drawn_devices(check_clones);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(saves_while_steps_go_on, scratch_folder_make, scratch_folder_remove),
        cmocka_unit_test_setup_teardown(keeps_the_last_and_the_best, scratch_folder_make, scratch_folder_remove),
        cmocka_unit_test_setup_teardown(survives_bad_disks, scratch_folder_make, scratch_folder_remove),
        cmocka_unit_test_setup_teardown(runs_out_of_memory, scratch_folder_make, scratch_folder_remove),
        cmocka_unit_test(clones_parameters),
        cmocka_unit_test(clones_have_the_groups),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
