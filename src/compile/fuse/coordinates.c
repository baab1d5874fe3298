/* Coordinates along a path: undoes the path's steps one by one, from the domain inwards. Most steps give linear
   combinations again; a reshape of one axis into several needs divisions. */
#include "compile/fuse/coordinates.h"

enum { MAX_STEPS = 32 };

int tuff__index_constant(const value_sink *sink, tuff_dtype dtype, int64_t number)
{
    chain_value value = tuff__chain_value(VALUE_CONSTANT, dtype);
    value.constant = (double)number;
    return sink->add(sink->state, &value);
}

int tuff__index_op(const value_sink *sink, op_code op, tuff_dtype dtype, int x, int y)
{
    chain_value value = tuff__chain_value(VALUE_OP, dtype);
    value.op = op;
    value.cast_to = op == OP_CAST ? dtype : TUFF_F32;
    value.args[0] = x;
    value.args[1] = y;
    return x == NO_VALUE || (y == NO_VALUE && op != OP_CAST) ? NO_VALUE : sink->add(sink->state, &value);
}

bool tuff__coordinate_add(coordinate *to, const coordinate *from, int64_t factor)
{
    to->linear.offset += factor * from->linear.offset;
    for (int i = 0; i < TUFF_MAX_RANK; ++i)
        to->linear.stride[i] += factor * from->linear.stride[i];
    for (int i = 0; i < from->value_count; ++i) {
        int at = 0;
        while (at < to->value_count && to->values[at] != from->values[i])
            ++at;
        if (at == MAX_TERMS_OF_COORDINATE)
            return false;
        if (at == to->value_count)
            to->factors[to->value_count++] = 0;
        to->values[at] = from->values[i];
        to->factors[at] += factor * from->factors[i];
    }
    return true;
}

int tuff__coordinate_value(const value_sink *sink, const coordinate *from)
{
    chain_value linear = tuff__chain_value(VALUE_INDEX, TUFF_I32);
    linear.address = from->linear;
    bool moves = from->value_count == 0 || from->linear.offset != 0;
    for (int i = 0; i < TUFF_MAX_RANK; ++i)
        moves |= from->linear.stride[i] != 0;
    int sum = moves ? sink->add(sink->state, &linear) : NO_VALUE;
    for (int i = 0; i < from->value_count; ++i) {
        int term = from->values[i];
        if (from->factors[i] != 1)
            term = tuff__index_op(sink, OP_MUL, TUFF_I32, term, tuff__index_constant(sink, TUFF_I32, from->factors[i]));
        sum = i == 0 && !moves ? term : tuff__index_op(sink, OP_ADD, TUFF_I32, sum, term);
    }
    return sum;
}

static coordinate coordinate_of_value(int value)
{
    return (coordinate){.values = {value}, .factors = {1}, .value_count = 1};
}

/* Splits a flat index over the axes first .. last into one coordinate per axis, the innermost axis first. */
static bool divide(const value_sink *sink, const coordinate *flat, const tuff_shape *shape, int first, int last,
                   coordinate *out)
{
    int rest = tuff__coordinate_value(sink, flat);
    for (int i = last; i > first && rest != NO_VALUE; --i) {
        if (shape->extent[i] == 1)
            continue;
        const int extent = tuff__index_constant(sink, TUFF_I32, shape->extent[i]);
        const int quotient = tuff__index_op(sink, OP_DIV, TUFF_I32, rest, extent);
        const int whole = tuff__index_op(sink, OP_MUL, TUFF_I32, quotient, extent);
        out[i] = coordinate_of_value(tuff__index_op(sink, OP_SUB, TUFF_I32, rest, whole));
        rest = out[i].values[0] == NO_VALUE ? NO_VALUE : quotient;
    }
    out[first] = coordinate_of_value(rest);
    return rest != NO_VALUE;
}

/* Undoes a reshape from `inner` to `outer`. Matches the shortest runs of axes with equal products: the outer axes of a
   run give one flat index, which is split over its inner axes. */
static bool undo_reshape(const value_sink *sink, const tuff_shape *outer, const tuff_shape *inner,
                         const coordinate *from, coordinate *to)
{
    int i = 0, k = 0;
    while (i < outer->rank || k < inner->rank) {
        const int first = i, first_inner = k;
        int64_t count = i < outer->rank ? outer->extent[i++] : 1,
                inner_count = k < inner->rank ? inner->extent[k++] : 1;
        while (count != inner_count) {
            if (count < inner_count)
                count *= outer->extent[i++];
            else
                inner_count *= inner->extent[k++];
        }
        coordinate flat = {.value_count = 0};
        for (int64_t axis = i - 1, stride = 1; axis >= first; stride *= outer->extent[axis--])
            if (outer->extent[axis] > 1 && !tuff__coordinate_add(&flat, &from[axis], stride))
                return false;
        int last = k - 1, lead = first_inner;
        while (last > lead && inner->extent[last] == 1)
            --last;
        while (lead < last && inner->extent[lead] == 1)
            ++lead;
        if (lead == last && k > first_inner)
            to[lead] = flat;
        else if (k > first_inner && !divide(sink, &flat, inner, lead, last, to))
            return false;
    }
    return true;
}

static bool undo_step(const value_sink *sink, const path *step, const tuff_shape *inner, const coordinate *from,
                      coordinate *to)
{
    if (step->kind == STEP_RESHAPE)
        return undo_reshape(sink, &step->shape, inner, from, to);
    for (int i = 0; i < step->shape.rank; ++i)
        switch (step->kind) {
        case STEP_PERMUTE:
            to[step->order[i]] = from[i];
            break;
        case STEP_EXPAND:
            if (inner->extent[i] == step->shape.extent[i])
                to[i] = from[i];
            break;
        case STEP_SLICE:
            to[i].linear.offset = step->start[i];
            if (!tuff__coordinate_add(&to[i], &from[i], step->step[i]))
                return false;
            break;
        case STEP_UNFOLD: {
            const int64_t factor = i == step->axis ? step->step[0] : i == step->axis + 1 ? step->step[1] : 1;
            if (!tuff__coordinate_add(&to[i <= step->axis ? i : i - 1], &from[i], factor))
                return false;
            break;
        }
        default:
            to[i] = from[i];
            to[i].linear.offset -= step->start[i];
        }
    return true;
}

bool tuff__coordinates_along(const value_sink *sink, tuff_shape inner, const path *along, coordinate *out)
{
    const path *steps[MAX_STEPS];
    int count = 0;
    for (const path *step = along; step != NULL; step = step->outer) {
        if (count == MAX_STEPS)
            return false;
        steps[count++] = step;
    }
    const tuff_shape *domain = count > 0 ? &steps[count - 1]->shape : &inner;
    coordinate coordinates[TUFF_MAX_RANK] = {{.value_count = 0}};
    for (int i = 0; i < domain->rank; ++i)
        coordinates[i].linear.stride[i] = domain->extent[i] > 1 ? 1 : 0;
    for (int i = count - 1; i >= 0; --i) {
        coordinate inner_coordinates[TUFF_MAX_RANK] = {{.value_count = 0}};
        if (!undo_step(sink, steps[i], i > 0 ? &steps[i - 1]->shape : &inner, coordinates, inner_coordinates))
            return false;
        for (int axis = 0; axis < TUFF_MAX_RANK; ++axis)
            coordinates[axis] = inner_coordinates[axis];
    }
    for (int axis = 0; axis < TUFF_MAX_RANK; ++axis)
        out[axis] = coordinates[axis];
    return true;
}
