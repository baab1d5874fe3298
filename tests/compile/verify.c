/* The verifier of plans and recordings: compiled plans pass, and faults that are planted into such a plan are found at
   every place where they can occur. Nothing runs; only the verifier finds them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compile/lower/verify_launches.h"
#include "device/state.h"
#include "each_device.h"
#include "exec/plan.h"
#include "small_plans.h"
#include "tools/model/graphs.h"
#include "base/rng.h"

/* A plan, usually of a training step, whose launches and memory are changed and restored. */
typedef struct plan_under_test {
    language_model model; /* if there is an optimizer */
    tuff_optimizer *optimizer;
    tuff_graph *graph;
    tuff_plan *plan;
    launch_list fresh; /* lowered again from the plan's tasks, because recording changes the plan's own list */
    launch_list *made;
} plan_under_test;

/* Compiles a training step. is_recorded: with commands, which requires compiled programs. */
static void create_plan_under_test(tuff_device *device, tuff_precision precision, bool is_recorded,
                                   plan_under_test *out)
{
    const tuff_compile_options options = {.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF},
                                          .precision = precision};
    const model_config config = {.layers = 2, .heads = 2, .width = 18, .context = 13, .vocabulary = 31};
    const tuff_optimizer_options rule = model_optimizer_options(1e-3, 100);
    plan_under_test in = {.graph = NULL};
    assert_int_equal(model_create(device, &config, &in.model), TUFF_OK);
    in.optimizer = tuff_optimizer_create(in.model.parameters, &rule);
    assert_non_null(in.optimizer);
    in.graph = train_graph(device, &in.model, in.optimizer, 5);
    assert_non_null(in.graph);
    in.plan = is_recorded ? tuff_compile(in.graph, &options) : plan_without_programs(in.graph, &options);
    if (in.plan == NULL)
        fail_msg("%s", tuff_error());
    assert_int_equal(tuff__lower(device, &in.plan->fusion, &options, NULL, &in.fresh), TUFF_OK);
    *out = in;
    out->made = &out->fresh;
    assert_int_equal(tuff__verify_launches(out->made), TUFF_OK);
}

static void destroy_plan_under_test(plan_under_test *in)
{
    assert_int_equal(tuff__verify_launches(in->made), TUFF_OK); /* every fault was undone */
    tuff__launch_list_free(&in->fresh);
    tuff_plan_destroy(in->plan);
    tuff_graph_destroy(in->graph);
    tuff_optimizer_destroy(in->optimizer);
    if (in->optimizer != NULL)
        model_destroy(&in->model);
}

/* Compiles a scatter_add whose keys and items are sorted in several parts, as a device with a loop limit requires. Each
   part uses the memory of the one before, partly in place. */
static void create_parts_under_test(tuff_device *device, plan_under_test *out)
{
    enum { LOW_LIMIT = 100, KEYS = 4000, ITEMS = 300 };
    const tuff_compile_options options = {.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}};
    const uint32_t own = device->info.loop_limit;
    plan_under_test in = {.graph = tuff_graph_create(device)};
    assert_non_null(in.graph);
    tuff_tensor *x = tuff_input(in.graph, "x", TUFF_F32, TUFF_SHAPE(KEYS)),
                *at = tuff_input(in.graph, "at", TUFF_I32, TUFF_SHAPE(ITEMS)),
                *source = tuff_input(in.graph, "source", TUFF_F32, TUFF_SHAPE(ITEMS));
    tuff_output(in.graph, "y", tuff_scatter_add(x, at, source, 0));
    device->info.loop_limit = LOW_LIMIT;
    in.plan = plan_without_programs(in.graph, &options);
    if (in.plan == NULL)
        fail_msg("%s", tuff_error());
    assert_int_equal(tuff__lower(device, &in.plan->fusion, &options, NULL, &in.fresh), TUFF_OK);
    device->info.loop_limit = own;
    assert_non_null(tuff__launch_add(&in.fresh, "", WALK_MAP, -1)); /* reserves room for one more launch */
    in.fresh.launch_count--;
    *out = in;
    out->made = &out->fresh;
    assert_int_equal(tuff__verify_launches(out->made), TUFF_OK);
}

/* Plants a fault at the place with that number; returns false if it cannot occur there. The caller undoes the
   change. */
typedef bool (*planter)(plan_under_test *in, int place);

static bool drop_launch(plan_under_test *in, int place)
{
    launch_list *made = in->made;
    memmove(made->launches + place, made->launches + place + 1,
            (size_t)(made->launch_count - place - 1) * sizeof *made->launches);
    made->launch_count--;
    return true;
}

static bool reads(const launch *kernel, int id)
{
    for (int i = 0; i < kernel->chain.buffer_count; i++)
        if (kernel->chain.buffers[i].id == id && kernel->chain.buffers[i].read)
            return true;
    return kernel->kind == LAUNCH_COPY && kernel->copy_from == id;
}

static bool depends(const launch *later, const launch *earlier)
{
    for (int i = 0; i < earlier->chain.buffer_count; i++)
        if (earlier->chain.buffers[i].written && reads(later, earlier->chain.buffers[i].id))
            return true;
    return earlier->kind == LAUNCH_COPY && reads(later, earlier->copy_to);
}

static bool swap_launches(plan_under_test *in, int place)
{
    launch *kernel = in->made->launches;
    if (place + 1 == in->made->launch_count || !depends(&kernel[place + 1], &kernel[place]))
        return false;
    const launch first = kernel[place];
    kernel[place] = kernel[place + 1];
    kernel[place + 1] = first;
    return true;
}

/* Moves a launch before one that reads the memory that it overwrites, so that the reader finds the wrong value. */
static bool early_launch(plan_under_test *in, int place)
{
    launch *kernel = in->made->launches;
    int before = place - 1;
    while (before >= 0 && !depends(&kernel[before], &kernel[place]))
        before--;
    if (before < 0)
        return false;
    const launch moved = kernel[place];
    memmove(kernel + before + 1, kernel + before, (size_t)(place - before) * sizeof *kernel);
    kernel[before] = moved;
    return true;
}

/* Repeats a launch. Returns whether it changes a buffer in place, so that the repetition is a fault. */
static bool launch_twice(plan_under_test *in, int place)
{
    launch *kernel = in->made->launches;
    bool in_place = false;
    for (int i = 0; i < kernel[place].chain.buffer_count; i++)
        in_place |= kernel[place].chain.buffers[i].read && kernel[place].chain.buffers[i].written;
    memmove(kernel + place + 1, kernel + place, (size_t)(in->made->launch_count - place) * sizeof *kernel);
    in->made->launch_count++;
    return in_place;
}

static bool no_groups(plan_under_test *in, int place)
{
    in->made->launches[place].groups = 0;
    return in->made->launches[place].kind == LAUNCH_KERNEL;
}

static bool has_stores(const launch *kernel)
{
    return kernel->kind == LAUNCH_KERNEL && kernel->chain.output_count > 0;
}

/* Returns the axis of the launch along which its first store moves; -1 if there is none. */
static int stored_axis(const launch *kernel)
{
    for (int i = kernel->chain.rank - 1; i >= 0; i--)
        if (kernel->chain.outputs[0].address.stride[i] != 0 && kernel->chain.extent[i] > 1)
            return i;
    return -1;
}

/* Whether a launch stores elements of a node; scratch memory may have parts that nothing fills. */
static bool stores_a_node(const plan_under_test *in, const launch *kernel)
{
    return has_stores(kernel) && stored_axis(kernel) >= 0 &&
           kernel->chain.buffers[kernel->chain.outputs[0].buffer].id < in->made->fusion->graph->node_count;
}

static bool no_items(plan_under_test *in, int place)
{
    launch *kernel = &in->made->launches[place];
    if (!stores_a_node(in, kernel))
        return false;
    kernel->chain.extent[stored_axis(kernel)] = 0;
    return true;
}

static bool short_write(plan_under_test *in, int place)
{
    launch *kernel = &in->made->launches[place];
    if (!stores_a_node(in, kernel))
        return false;
    kernel->chain.extent[stored_axis(kernel)]--;
    return true;
}

static bool long_write(plan_under_test *in, int place)
{
    launch *kernel = &in->made->launches[place];
    if (!stores_a_node(in, kernel))
        return false;
    kernel->chain.extent[stored_axis(kernel)]++;
    return true;
}

static bool stuck_store(plan_under_test *in, int place)
{
    launch *kernel = &in->made->launches[place];
    if (!stores_a_node(in, kernel))
        return false;
    kernel->chain.outputs[0].address.stride[stored_axis(kernel)] = 0;
    return true;
}

static bool shifted_store(plan_under_test *in, int place)
{
    launch *kernel = &in->made->launches[place];
    if (!stores_a_node(in, kernel))
        return false;
    kernel->chain.outputs[0].address.offset++;
    return true;
}

static bool wild_load(plan_under_test *in, int place)
{
    launch *kernel = &in->made->launches[place];
    for (int i = 0; i < kernel->chain.value_count; i++) {
        chain_value *value = &kernel->chain.values[i];
        const bool made = (i >= kernel->chain.producers[0].begin && i < kernel->chain.producers[0].end) ||
                          (i >= kernel->chain.producers[1].begin && i < kernel->chain.producers[1].end);
        if (value->kind == VALUE_LOAD && value->guard == NO_VALUE && !made) {
            value->address.offset += in->made->buffers[kernel->chain.buffers[value->buffer].id].count;
            return true;
        }
    }
    return false;
}

static bool wild_lookup(plan_under_test *in, int place)
{
    launch *kernel = &in->made->launches[place];
    for (int i = 0; i < kernel->chain.value_count; i++) {
        chain_value *value = &kernel->chain.values[i];
        if (value->kind == VALUE_LOOKUP && value->guard == NO_VALUE) {
            value->extent++;
            return true;
        }
    }
    return false;
}

static bool few_groups(plan_under_test *in, int place)
{
    launch *kernel = &in->made->launches[place];
    kernel->groups -= kernel->groups > 0;
    return strcmp(kernel->body, "map") == 0;
}

/* Moves a written buffer onto an input after the last read of that input: the next run would read the overwritten
   data. */
static bool lost_source(plan_under_test *in, int place)
{
    const tuff_graph *graph = in->made->fusion->graph;
    const launch *kernel = &in->made->launches[place];
    for (int w = 0; w < kernel->chain.buffer_count; w++) {
        memory_buffer *to = &in->made->buffers[kernel->chain.buffers[w].id];
        for (int s = 0; s < graph->node_count; s++) {
            const memory_buffer *from = &in->made->buffers[s];
            bool is_read = false;
            for (int i = place; i < in->made->launch_count; i++)
                is_read |= reads(&in->made->launches[i], s);
            if (is_read || !kernel->chain.buffers[w].written || to->fixed || to->parent >= 0 ||
                (graph->nodes[s]->op != OP_INPUT && graph->nodes[s]->op != OP_CONSTANT) || from->storage == NULL ||
                from->offset + tuff__buffer_size(to) > tuff__storage_size(from->storage))
                continue;
            to->storage = from->storage;
            to->offset = from->offset;
            return true;
        }
    }
    return false;
}

/* Moves the memory that a launch writes so that it overlaps what the launch reads. */
static bool overlapping_memory(plan_under_test *in, int place)
{
    const launch *kernel = &in->made->launches[place];
    for (int w = 0; w < kernel->chain.buffer_count; w++)
        for (int r = 0; r < kernel->chain.buffer_count; r++) {
            memory_buffer *to = &in->made->buffers[kernel->chain.buffers[w].id];
            const memory_buffer *from = &in->made->buffers[kernel->chain.buffers[r].id];
            if (w == r || !kernel->chain.buffers[w].written || kernel->chain.buffers[r].written || to->fixed ||
                to->parent >= 0 || from->fixed || from->count < 2 || to->count < 2)
                continue;
            to->storage = from->storage;
            to->offset = from->offset + 4;
            return true;
        }
    return false;
}

static bool memory_beyond_its_storage(plan_under_test *in, int place)
{
    const launch *kernel = &in->made->launches[place];
    if (kernel->kind == LAUNCH_COPY || kernel->chain.buffer_count == 0)
        return false;
    memory_buffer *at = &in->made->buffers[kernel->chain.buffers[0].id];
    at->offset = tuff__storage_size(at->storage);
    return at->count > 0;
}

/* place: number of a buffer. */
static bool wrong_part(plan_under_test *in, int place)
{
    memory_buffer *at = &in->made->buffers[place];
    if (at->parent < 0 || !at->used)
        return false;
    at->parent_at++;
    return true;
}

static bool moved_part(plan_under_test *in, int place)
{
    memory_buffer *at = &in->made->buffers[place];
    if (at->parent < 0 || !at->used)
        return false;
    at->parent_at = at->parent_at > 0 ? 0 : in->made->buffers[at->parent].count - at->count;
    at->offset = in->made->buffers[at->parent].offset + 4 * (uint64_t)at->parent_at;
    return true;
}

static bool other_part(plan_under_test *in, int place)
{
    memory_buffer *at = &in->made->buffers[place];
    at->dtype = at->dtype == TUFF_F32 ? TUFF_U32 : TUFF_F32;
    return at->parent >= 0 && at->used;
}

/* Gives a node's memory and kernels fewer bits than its value needs. place: number of the node. */
static bool lost_bits(plan_under_test *in, int place)
{
    const tuff_graph *graph = in->made->fusion->graph;
    memory_buffer *at = &in->made->buffers[place];
    if (place >= graph->node_count || !at->used || tuff__op_is_source(graph->nodes[place]->op))
        return false;
    at->dtype = TUFF_BF16;
    for (int i = 0; i < in->made->launch_count; i++)
        for (int k = 0; k < in->made->launches[i].chain.buffer_count; k++)
            if (in->made->launches[i].chain.buffers[k].id == place)
                in->made->launches[i].chain.buffers[k].dtype = TUFF_BF16;
    return true;
}

static bool other_type(plan_under_test *in, int place)
{
    launch *of = &in->made->launches[place];
    if (of->kind == LAUNCH_COPY || of->chain.buffer_count == 0)
        return false;
    of->chain.buffers[0].dtype = of->chain.buffers[0].dtype == TUFF_F16 ? TUFF_BF16 : TUFF_F16;
    return true;
}

/* Moves the new value of an assigned array elsewhere. place: number of the assign. */
static bool lost_assign(plan_under_test *in, int place)
{
    const tuff_graph *graph = in->made->fusion->graph;
    if (place >= graph->assign_count)
        return false;
    memory_buffer *at = &in->made->buffers[graph->assigns[place]->inputs[0]->node->id];
    if (!at->fixed)
        return false;
    at->storage = in->made->blocks[0];
    at->offset = 0;
    return true;
}

/* Returns the launch at this place if it computes the last sums of a range of keys, else NULL. */
static launch *last_of_range(plan_under_test *in, int place)
{
    enum { RESULT_AT = 12 };
    launch *at = &in->made->launches[place];
    if (strcmp(at->body, "scatter_sum") != 0)
        return NULL;
    for (int i = place + 1; i < in->made->launch_count; i++) {
        const launch *next = &in->made->launches[i];
        if (strcmp(next->body, "scatter_sum") == 0)
            return next->parameters[RESULT_AT] == at->parameters[RESULT_AT] ? NULL : at;
    }
    return at;
}

/* Drops all launches for a range of keys, which sort the list for it and compute its sums. */
static bool drop_range(plan_under_test *in, int place)
{
    int first = place;
    if (last_of_range(in, place) == NULL)
        return false;
    while (first > 0 && last_of_range(in, first - 1) == NULL)
        first--;
    for (int i = first; i <= place; i++)
        drop_launch(in, first);
    return true;
}

/* Stores the sums of a range of keys one element before or after their own. */
static bool move_range(plan_under_test *in, int place)
{
    enum { COLUMNS = 1, RESULT_AT = 12 };
    launch *at = last_of_range(in, place);
    if (at == NULL)
        return false;
    at->parameters[RESULT_AT] += at->parameters[RESULT_AT] > 0 ? -at->parameters[COLUMNS] : at->parameters[COLUMNS];
    return true;
}

static bool second_task(plan_under_test *in, int place)
{
    launch_list *made = in->made;
    launch *kernel = &made->launches[place];
    if (kernel->kind != LAUNCH_KERNEL || place + 1 == made->launch_count || kernel->setup)
        return false;
    made->launches[place + 1] = *kernel;
    made->launches[place + 1].task = kernel->task + 1000;
    return true;
}

static bool late_setup(plan_under_test *in, int place)
{
    in->made->launches[place].setup = true;
    return place > 0 && !in->made->launches[place - 1].setup;
}

typedef struct snapshot {
    launch *launches;
    memory_buffer *buffers;
    chain_value **values;
    int launch_count;
} snapshot;

static void *copy_of(const void *data, size_t size)
{
    void *made = malloc(size + 1);
    assert_non_null(made);
    return memcpy(made, data, size);
}

static snapshot take_snapshot(const launch_list *made)
{
    snapshot now = {.launches = copy_of(made->launches, (size_t)made->launch_count * sizeof *made->launches),
                    .buffers = copy_of(made->buffers, (size_t)made->buffer_count * sizeof *made->buffers),
                    .values = calloc((size_t)made->launch_count + 1, sizeof(chain_value *)),
                    .launch_count = made->launch_count};
    assert_non_null(now.values);
    for (int i = 0; i < made->launch_count; i++)
        if (made->launches[i].chain.values != NULL)
            now.values[i] = copy_of(made->launches[i].chain.values,
                                    (size_t)made->launches[i].chain.value_count * sizeof(chain_value));
    return now;
}

static void put_back(launch_list *made, const snapshot *from)
{
    made->launch_count = from->launch_count;
    memcpy(made->launches, from->launches, (size_t)made->launch_count * sizeof *made->launches);
    memcpy(made->buffers, from->buffers, (size_t)made->buffer_count * sizeof *made->buffers);
    for (int i = 0; i < made->launch_count; i++)
        if (from->values[i] != NULL)
            memcpy(made->launches[i].chain.values, from->values[i],
                   (size_t)made->launches[i].chain.value_count * sizeof(chain_value));
}

static void forget(snapshot *saved)
{
    for (int i = 0; i < saved->launch_count; i++)
        free(saved->values[i]);
    free(saved->values);
    free(saved->launches);
    free(saved->buffers);
}

typedef struct fault {
    const char *name;
    planter plant;
} fault;

static const fault faults[] = {
    {"a launch is dropped", drop_launch},
    {"two launches that depend on each other are swapped", swap_launches},
    {"a launch has no groups", no_groups},
    {"a launch has no items", no_items},
    {"a store leaves elements out", short_write},
    {"a store goes on behind the end", long_write},
    {"items store to one element", stuck_store},
    {"a store begins one element late", shifted_store},
    {"a load goes on behind the end", wild_load},
    {"a lookup goes on behind the end", wild_lookup},
    {"a map has too few groups", few_groups},
    {"what the host wrote is overwritten", lost_source},
    {"what is written lies where it is read", overlapping_memory},
    {"memory lies behind the end of its storage", memory_beyond_its_storage},
    {"a part is an element late", wrong_part},
    {"a part lies where another does", moved_part},
    {"a part is of another type than its whole", other_part},
    {"a value has too few bits in memory", lost_bits},
    {"a kernel takes elements for another type", other_type},
    {"an assigned array is not written", lost_assign},
    {"two tasks write one result", second_task},
    {"what runs once comes after what runs every time", late_setup},
};

/* Planted into launches that work in the memory of others. */
static const fault faults_of_order[] = {
    {"a launch is dropped", drop_launch},
    {"two launches that depend on each other are swapped", swap_launches},
    {"a launch comes before one that reads what it writes anew", early_launch},
    {"a launch that changes memory in place comes twice", launch_twice},
    {"a range of keys is left out", drop_range},
    {"the sums of a range of keys are stored elsewhere", move_range},
};

static void plant_fault(plan_under_test *in, const fault *planted_fault, const snapshot *healthy, int places)
{
    int planted = 0, missed = 0, last = 0;
    for (int place = 0; place < places; place++) {
        if (planted_fault->plant(in, place)) {
            planted++;
            if (tuff__verify_launches(in->made) == TUFF_OK) {
                missed++;
                last = place;
            }
        }
        put_back(in->made, healthy);
    }
    print_message("%s: %d faults planted\n", planted_fault->name, planted);
    if (planted == 0 || missed > 0)
        fail_msg("%s: %d of %d faults were not detected, the last at %d (%s)", planted_fault->name, missed, planted,
                 last, last < healthy->launch_count ? healthy->launches[last].body : "");
}

static void plant_all(tuff_device *device, tuff_precision precision)
{
    plan_under_test in;
    create_plan_under_test(device, precision, false, &in);
    snapshot healthy = take_snapshot(in.made);
    const int places = in.made->buffer_count > in.made->launch_count ? in.made->buffer_count : in.made->launch_count;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        const bool of_buffers = faults[i].plant == wrong_part || faults[i].plant == moved_part ||
                                faults[i].plant == other_part || faults[i].plant == lost_bits;
        plant_fault(&in, &faults[i], &healthy, of_buffers ? places : healthy.launch_count);
    }
    forget(&healthy);
    destroy_plan_under_test(&in);
}

static void plant_in_both(tuff_device *device)
{
    plant_all(device, TUFF_PRECISION_F32);
    plant_all(device, TUFF_PRECISION_F16);
}

static void faults_of_plans_are_found(void **state)
{
    (void)state;
    for_drawn_drivers(plant_in_both);
}

static void plant_in_parts(tuff_device *device)
{
    plan_under_test in;
    create_parts_under_test(device, &in);
    snapshot healthy = take_snapshot(in.made);
    for (size_t i = 0; i < sizeof faults_of_order / sizeof faults_of_order[0]; i++)
        plant_fault(&in, &faults_of_order[i], &healthy, healthy.launch_count);
    forget(&healthy);
    destroy_plan_under_test(&in);
}

static void launches_in_the_memory_of_others_keep_their_order(void **state)
{
    (void)state;
    for_drawn_drivers(plant_in_parts);
}

/* Every barrier of a recording is needed, and so is everything that it waits for. */
static void drop_barriers(tuff_device *device)
{
    plan_under_test in;
    create_plan_under_test(device, TUFF_PRECISION_F32, true, &in);
    command *commands = in.plan->executable.commands;
    const int count = in.plan->executable.command_count;
    int barriers = 0;
    tuff__set_barriers(commands, count, false);
    assert_int_equal(tuff__verify_hazards(commands, count), TUFF_OK);
    for (int i = 0; i < count; i++) {
        if (!commands[i].barrier)
            continue;
        barriers++;
        commands[i].barrier = false;
        assert_int_equal(tuff__verify_hazards(commands, count), TUFF_E_COMPILE);
        commands[i].barrier = true;
        const bool after_copy = commands[i].after_copy, after_dispatch = commands[i].after_dispatch;
        commands[i].after_copy = commands[i].after_dispatch = false;
        assert_int_equal(tuff__verify_hazards(commands, count), TUFF_E_COMPILE);
        commands[i].after_copy = after_copy;
        commands[i].after_dispatch = after_dispatch;
    }
    assert_true(barriers > count / 4);
    tuff__set_barriers(commands, count, true);
    assert_int_equal(tuff__verify_hazards(commands, count), TUFF_OK);
    destroy_plan_under_test(&in);
}

static void missing_barriers_are_found(void **state)
{
    (void)state;
    for_drawn_api(0, drop_barriers);
}

/* Dispatches, copies and fills over parts of a few buffers, in random order. */
static void barriers_cover_random_commands(void **state)
{
    (void)state;
    enum { COMMANDS = 12, ROUNDS = 20000 };
    static char memory[6];
    rng random = {1};
    int barriers = 0;
    for (int round = 0; round < ROUNDS; round++) {
        command commands[COMMANDS] = {{.binding_count = 0}};
        for (int i = 0; i < COMMANDS; i++) {
            static const command_kind kinds[] = {COMMAND_DISPATCH, COMMAND_DISPATCH, COMMAND_COPY, COMMAND_FILL_ZERO};
            command *made = &commands[i];
            made->kind = kinds[tuff__rng_below(&random, 4)];
            made->binding_count = made->kind == COMMAND_COPY ? 2 : made->kind == COMMAND_FILL_ZERO ? 1 : 3;
            for (int k = 0; k < made->binding_count; k++)
                made->bindings[k] =
                    (buffer_binding){.buffer = (driver_buffer *)(void *)&memory[tuff__rng_below(&random, 6)],
                                     .offset = 16 * (uint64_t)tuff__rng_below(&random, 4),
                                     .size = 16 * (1 + (uint64_t)tuff__rng_below(&random, 3)),
                                     .written = made->kind == COMMAND_DISPATCH && k == 2};
        }
        tuff__set_barriers(commands, COMMANDS, false);
        if (tuff__verify_hazards(commands, COMMANDS) != TUFF_OK)
            fail_msg("round %d: %s", round, tuff_error());
        for (int i = 0; i < COMMANDS; i++)
            barriers += commands[i].barrier;
    }
    assert_true(barriers > 0 && barriers < (COMMANDS - 1) * ROUNDS);
}

/* Nodes that do not match their inputs, as a wrong division in a rewriting would produce them. */
static void break_nodes(tuff_device *device)
{
    plan_under_test in;
    create_plan_under_test(device, TUFF_PRECISION_F32, false, &in);
    const tuff_graph *graph = in.made->fusion->graph;
    int broken = 0;
    for (int i = 0; i < graph->node_count; i++) {
        tuff_shape *shape = &graph->nodes[i]->outputs[0].shape;
        if (shape->rank == 0 || tuff__op_is_source(graph->nodes[i]->op) || tuff_shape_count(*shape) == 0)
            continue;
        const tuff_shape before = *shape;
        shape->extent[0]++;
        if (graph->nodes[i]->op != OP_EXPAND || before.extent[0] > 1) {
            assert_int_equal(tuff__verify_launches(in.made), TUFF_E_COMPILE);
            broken++;
        }
        *shape = before;
    }
    assert_true(broken > 100);
    destroy_plan_under_test(&in);
}

static void faults_of_rewriting_are_found(void **state)
{
    (void)state;
    for_drawn_drivers(break_nodes);
}

/* A copy of weights that is kept between runs though a run changes them; and a result of another type. */
static void break_product(tuff_device *device)
{
    enum { ROWS = 64, INNER = 48, COLUMNS = 96 };
    const tuff_compile_options options = {.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}};
    launch_list made;
    tuff_array *w = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(INNER, COLUMNS)),
               *v = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(INNER, COLUMNS));
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, INNER)), *changing = tuff_array_tensor(graph, v);
    tuff_output(graph, "y", tuff_matmul(x, tuff_array_tensor(graph, w)));
    tuff_assign(graph, v, tuff_mul(changing, changing));
    tuff_plan *plan = plan_without_programs(graph, &options);
    if (plan == NULL)
        fail_msg("%s", tuff_error());
    assert_int_equal(tuff__lower(device, &plan->fusion, &options, NULL, &made), TUFF_OK);
    const tuff_graph *simple = plan->fusion.graph;
    int changed = 0;
    for (int i = 0; i < made.copy_count; i++)
        for (int k = 0; k < simple->node_count && made.copies[i].kept != NULL; k++) {
            const int source = made.copies[i].sources[0];
            if (simple->nodes[k]->op != OP_ARRAY || simple->nodes[k]->attributes.array != v)
                continue;
            made.copies[i].sources[0] = k;
            assert_int_equal(tuff__verify_launches(&made), TUFF_E_COMPILE);
            made.copies[i].sources[0] = source;
            changed++;
        }
    print_message("    %d kept copies\n", changed);
    memory_buffer *y = &made.buffers[simple->outputs[0].tensor->node->id];
    y->dtype = TUFF_U32;
    assert_int_equal(tuff__verify_launches(&made), TUFF_E_COMPILE);
    y->dtype = TUFF_F32;
    assert_int_equal(tuff__verify_launches(&made), TUFF_OK);
    tuff__launch_list_free(&made);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    tuff_array_destroy(w);
    tuff_array_destroy(v);
}

static void faults_around_a_product_are_found(void **state)
{
    (void)state;
    for_drawn_drivers(break_product);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_in_the_memory_of_others_keep_their_order),
        cmocka_unit_test(faults_of_plans_are_found),
        cmocka_unit_test(faults_around_a_product_are_found),
        cmocka_unit_test(missing_barriers_are_found),
        cmocka_unit_test(barriers_cover_random_commands),
        cmocka_unit_test(faults_of_rewriting_are_found),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
