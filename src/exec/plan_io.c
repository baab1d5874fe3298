/* A plan's inputs and outputs: listed, found by name, and written and read by the host, as a whole or in part. Makes
   all checks, both for plans of drivers and for those of the reference device. plan.c runs plans. */
#include <string.h>

#include "base/text.h"
#include "exec/plan.h"

typedef enum direction { INPUT, OUTPUT } direction;

static const char *const nouns[] = {[INPUT] = "input", [OUTPUT] = "output"};
static const char *const actions[] = {[INPUT] = "write", [OUTPUT] = "read"};

static int value_count(const tuff_plan *plan, direction which)
{
    if (plan->reference != NULL)
        return which == INPUT ? tuff__reference_input_count(plan->reference)
                              : tuff__reference_output_count(plan->reference);
    return which == INPUT ? plan->executable.launches.input_count : plan->executable.launches.output_count;
}

/* Both kinds of plans describe their values in structures of their own; everything else here sees only this one. */
static tuff_plan_value value_at(const tuff_plan *plan, direction which, int index)
{
    tuff_plan_value value = {.name = NULL};
    if (plan->reference != NULL) {
        const tuff_tensor *tensor = which == INPUT ? tuff__reference_input(plan->reference, index, &value.name)
                                                   : tuff__reference_output(plan->reference, index, &value.name);
        value.dtype = tensor->dtype;
        value.shape = tensor->shape;
    } else {
        const launch_list *launches = &plan->executable.launches;
        const named_buffer *buffer = which == INPUT ? &launches->inputs[index] : &launches->outputs[index];
        value.name = buffer->name;
        value.dtype = buffer->dtype;
        value.shape = buffer->shape;
    }
    value.size = (uint64_t)tuff_shape_count(value.shape) * tuff_dtype_size(value.dtype);
    return value;
}

static tuff_status check_index(const tuff_plan *plan, direction which, int index)
{
    const int count = value_count(plan, which);
    if (index >= 0 && index < count)
        return TUFF_OK;
    return FAIL(TUFF_E_USAGE, "%s: %s index %d is out of range: the plan has %d", actions[which], nouns[which], index,
                count);
}

/* Searches one by one: plans have few inputs, and programs that write them in every step look up the index once. */
static int find_by_name(const tuff_plan *plan, direction which, const char *name)
{
    const int count = value_count(plan, which);
    for (int i = 0; i < count; ++i)
        if (strcmp(value_at(plan, which, i).name, name) == 0)
            return i;
    FAIL(TUFF_E_USAGE, "%s: the plan has no %s \"%.200s\"", actions[which], nouns[which], name);
    return -1;
}

static int find_checked(const tuff_plan *plan, direction which, const char *name)
{
    if (plan != NULL && name != NULL)
        return find_by_name(plan, which, name);
    FAIL(TUFF_E_USAGE, "find %s: the %s is NULL", nouns[which], plan == NULL ? "plan" : "name");
    return -1;
}

static tuff_status describe(const tuff_plan *plan, direction which, int index, tuff_plan_value *value)
{
    if (plan == NULL || value == NULL)
        return FAIL(TUFF_E_USAGE, "%s %d: the %s is NULL", nouns[which], index, plan == NULL ? "plan" : "value");
    TRY(check_index(plan, which, index));
    *value = value_at(plan, which, index);
    return TUFF_OK;
}

int tuff_plan_input_count(const tuff_plan *plan)
{
    return plan == NULL ? -1 : value_count(plan, INPUT);
}

int tuff_plan_output_count(const tuff_plan *plan)
{
    return plan == NULL ? -1 : value_count(plan, OUTPUT);
}

tuff_status tuff_plan_input_at(const tuff_plan *plan, int index, tuff_plan_value *value)
{
    return describe(plan, INPUT, index, value);
}

tuff_status tuff_plan_output_at(const tuff_plan *plan, int index, tuff_plan_value *value)
{
    return describe(plan, OUTPUT, index, value);
}

int tuff_plan_find_input(const tuff_plan *plan, const char *name)
{
    return find_checked(plan, INPUT, name);
}

int tuff_plan_find_output(const tuff_plan *plan, const char *name)
{
    return find_checked(plan, OUTPUT, name);
}

static tuff_status check_data(const tuff_plan *plan, direction which, const void *data, size_t size)
{
    if (plan != NULL && (data != NULL || size == 0))
        return TUFF_OK;
    return FAIL(TUFF_E_USAGE, "%s: the %s is NULL", actions[which], plan == NULL ? "plan" : "data");
}

/* Finds the index of a name. Fails if its value does not have `size` bytes. */
static tuff_status find_whole(const tuff_plan *plan, direction which, const char *name, size_t size, int *index)
{
    if (name == NULL)
        return FAIL(TUFF_E_USAGE, "%s: the name is NULL", actions[which]);
    *index = find_by_name(plan, which, name);
    if (*index < 0)
        return TUFF_E_USAGE;
    const tuff_plan_value value = value_at(plan, which, *index);
    if (value.size == size)
        return TUFF_OK;
    return FAIL(TUFF_E_USAGE, "%s: \"%.200s\" is %s %s, %llu bytes, not %zu", actions[which], name,
                tuff_dtype_name(value.dtype), SHAPE_TEXT(value.shape), (unsigned long long)value.size, size);
}

static tuff_status check_part(const tuff_plan_value *value, direction which, uint64_t offset, size_t size)
{
    const size_t element = tuff_dtype_size(value->dtype);
    /* Not offset + size > value->size, whose sum could overflow. */
    if (offset > value->size || size > value->size - offset)
        return FAIL(TUFF_E_USAGE, "%s: %zu bytes at offset %llu are not inside \"%.200s\", which is %s %s, %llu bytes",
                    actions[which], size, (unsigned long long)offset, value->name, tuff_dtype_name(value->dtype),
                    SHAPE_TEXT(value->shape), (unsigned long long)value->size);
    if (offset % element != 0 || size % element != 0)
        return FAIL(TUFF_E_USAGE, "%s: %zu bytes at offset %llu of \"%.200s\" are not whole elements of %s",
                    actions[which], size, (unsigned long long)offset, value->name, tuff_dtype_name(value->dtype));
    return TUFF_OK;
}

storage *tuff__plan_input_storage(const tuff_plan *plan, int index)
{
    const launch_list *launches = &plan->executable.launches;
    return launches->buffers[launches->inputs[index].buffer_id].storage;
}

tuff_status tuff_plan_write_at(tuff_plan *plan, int index, uint64_t offset, const void *data, size_t size)
{
    TRY(check_data(plan, INPUT, data, size));
    TRY(check_index(plan, INPUT, index));
    const tuff_plan_value value = value_at(plan, INPUT, index);
    TRY(check_part(&value, INPUT, offset, size));
    /* Writing no bytes does not count as writing the input, unless it has none. */
    if (size == 0 && value.size > 0)
        return TUFF_OK;
    if (plan->reference != NULL)
        return tuff__reference_write_at(plan->reference, index, offset, data, size);
    /* Memory of inputs is initially zero, so a part may be written first. */
    TRY(tuff__storage_write(plan->device, tuff__plan_input_storage(plan, index), offset, data, size));
    plan->written[index] = true;
    return TUFF_OK;
}

tuff_status tuff_plan_read_at(tuff_plan *plan, int index, uint64_t offset, void *data, size_t size)
{
    TRY(check_data(plan, OUTPUT, data, size));
    TRY(check_index(plan, OUTPUT, index));
    const tuff_plan_value value = value_at(plan, OUTPUT, index);
    TRY(check_part(&value, OUTPUT, offset, size));
    if (plan->reference != NULL)
        return tuff__reference_read_at(plan->reference, index, offset, data, size);
    if (!plan->has_run)
        return FAIL(TUFF_E_USAGE, "read: \"%.200s\": the plan has not been run", value.name);
    const launch_list *launches = &plan->executable.launches;
    return tuff__storage_read(plan->device, launches->buffers[launches->outputs[index].buffer_id].storage, offset, data,
                              size);
}

tuff_status tuff_plan_write(tuff_plan *plan, const char *name, const void *data, size_t size)
{
    int index = 0;
    TRY(check_data(plan, INPUT, data, size));
    TRY(find_whole(plan, INPUT, name, size, &index));
    return tuff_plan_write_at(plan, index, 0, data, size);
}

tuff_status tuff_plan_read(tuff_plan *plan, const char *name, void *data, size_t size)
{
    int index = 0;
    TRY(check_data(plan, OUTPUT, data, size));
    TRY(find_whole(plan, OUTPUT, name, size, &index));
    return tuff_plan_read_at(plan, index, 0, data, size);
}
