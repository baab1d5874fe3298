/* Writes single values of a chain (addresses, loads, ops), each as one assignment in the outermost place where all its
   inputs are known. */
#include "kernels/emit_value.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static snippet PRINTF_LIKE(1, 2) format_snippet(const char *format, ...)
{
    snippet result;
    va_list list;
    va_start(list, format);
    vsnprintf(result.text, sizeof result.text, format, list);
    va_end(list);
    return result;
}

const char *tuff__type_name(tuff_dtype dtype, bool vector)
{
    switch (dtype) {
    case TUFF_I32:
        return vector ? "ivec" : "int";
    case TUFF_U32:
        return vector ? "uvec" : "uint";
    case TUFF_BOOL:
        return vector ? "bvec" : "boolean";
    default:
        return vector ? "precise vec" : "precise float";
    }
}

const char *tuff__dtype_prefix(tuff_dtype dtype)
{
    return dtype == TUFF_I32 ? "I" : dtype == TUFF_U32 ? "U" : dtype == TUFF_BOOL ? "B" : "";
}

static uint32_t loop_mask(const emitter *self)
{
    uint32_t mask = 0;
    for (int i = 0; i < self->chain->rank; ++i)
        if (self->chain->classes[i] == AXIS_LOOP && i != self->vector_axis)
            mask |= 1u << i;
    return mask;
}

static bool varies_along_vector(const emitter *self, uint32_t varies)
{
    return self->vector_axis >= 0 && (varies >> self->vector_axis & 1) != 0;
}

static bool moves_along(const emitter *self, const affine *address, int axis)
{
    return axis != self->vector_axis && address->stride[axis] != 0 && self->chain->extent[axis] > 1;
}

/* Whether the value is a vector in the current mode. */
static bool is_vector(const emitter *self, const chain_value *value)
{
    return self->vector && varies_along_vector(self, value->varies) &&
           !self->states[value - self->chain->values].uniform;
}

/* Whether vectors start at multiples of their width along the vector axis. Matmul tiles at an edge are moved back
   inside, so there they may not. */
static bool starts_at_multiples(const emitter *self)
{
    return self->walk != WALK_MATMUL || self->chain->extent[self->vector_axis] % self->vec == 0;
}

/* Whether the bounds of low <= address < high fall between vectors. */
static bool bounds_are_between_vectors(const emitter *self, const chain_value *inside)
{
    const affine *address = &inside->address;
    if (address->stride[self->vector_axis] != 1 || !starts_at_multiples(self))
        return false;
    return (inside->low - address->offset) % self->vec == 0 && (inside->high - inside->low) % self->vec == 0 &&
           tuff__strides_are_multiples(self->chain, address, self->vector_axis, self->vec);
}

void tuff__find_uniform(emitter *self)
{
    const fused_chain *chain = self->chain;
    for (int i = 0; i < chain->value_count && self->vec > 1; ++i) {
        const chain_value *value = &chain->values[i];
        if (!varies_along_vector(self, value->varies))
            continue;
        if (value->kind == VALUE_INSIDE)
            self->states[i].uniform = bounds_are_between_vectors(self, value);
        if (value->kind == VALUE_LOAD)
            self->states[i].uniform =
                value->address.stride[self->vector_axis] == 0 && self->states[value->guard].uniform;
        if (value->kind != VALUE_OP)
            continue;
        self->states[i].uniform = true;
        for (int k = 0; k < 3 && value->args[k] != NO_VALUE; ++k)
            self->states[i].uniform &= self->states[value->args[k]].uniform ||
                                       !varies_along_vector(self, chain->values[value->args[k]].varies);
    }
}

static bool is_discontinuous(const chain_value *value)
{
    return value->kind == VALUE_OP && (tuff__op_info(value->op)->domain == DOMAIN_STEPS ||
                                       (value->op == OP_CAST && !tuff__dtype_is_float(value->cast_to)));
}

/* Walks backwards, since values precede those that are computed from them. */
void tuff__find_exact(emitter *self)
{
    const fused_chain *chain = self->chain;
    for (int i = chain->value_count - 1; i >= 0; --i) {
        const chain_value *value = &chain->values[i];
        if (!self->states[i].exact && !is_discontinuous(value))
            continue;
        for (int k = 0; k < 3; ++k)
            if (value->args[k] != NO_VALUE)
                self->states[value->args[k]].exact = true;
        if (value->kind == VALUE_RESULT && value->index < chain->reduction_count)
            self->states[chain->reductions[value->index].input].exact = true;
    }
}

static int place_for(const emitter *self, uint32_t varies)
{
    const bool in_loop = (varies & loop_mask(self)) != 0, along = varies_along_vector(self, varies);
    switch (self->walk) {
    case WALK_COLUMN:
        if (self->vector && in_loop && !along)
            return PLACE_LOOP;
        return in_loop ? PLACE_ELEMENT : along ? PLACE_RUN : PLACE_ROW;
    case WALK_ROW:
        return along ? PLACE_ELEMENT : in_loop ? PLACE_RUN : PLACE_ROW;
    case WALK_MATMUL:
        return (varies >> (self->chain->rank - 2)) != 0 ? PLACE_ELEMENT : PLACE_ROW;
    default:
        return along || in_loop ? PLACE_ELEMENT : PLACE_ROW;
    }
}

static text *text_for_place(emitter *self, int place)
{
    if (place == PLACE_ROW)
        return &self->texts->row;
    if (place == PLACE_RUN)
        return &self->texts->run;
    if (place == PLACE_LOOP)
        return &self->texts->each_run;
    return self->vector ? &self->texts->vector : &self->texts->scalar;
}

/* Returns the name of an axis' coordinate: cN for axes distributed over items, lN for loops, `row` for matmul rows. */
static snippet coordinate(const emitter *self, int axis)
{
    if (self->chain->classes[axis] == AXIS_ROW)
        return format_snippet("row");
    return format_snippet("%c%d", self->chain->classes[axis] == AXIS_LOOP ? 'l' : 'c', axis);
}

/* Writes `const int aN`: the address without loops, rows of a matmul and the vector axis. */
static void write_row_part(emitter *self, int number, const affine *address, int buffer)
{
    if (self->states[number].placed & PLACE_ROW)
        return;
    self->states[number].placed |= PLACE_ROW;
    const int64_t start = address->offset + (buffer >= 0 ? self->chain->buffers[buffer].element_offset : 0);
    text *out = &self->texts->row;
    snippet names[TUFF_MAX_RANK];
    tuff__text_add(out, "const int a%d = PARAM(%d)", number, tuff__emit_parameter(self, start));
    for (int i = 0; i < self->chain->rank; ++i)
        if (moves_along(self, address, i) && self->chain->classes[i] == AXIS_OUTER)
            tuff__text_add(out, " + %s * PARAM(%d)", coordinate(self, i).text,
                           tuff__emit_parameter(self, address->stride[i]));
    tuff__text_add(out, ";\n");
    for (int i = 0; i < self->chain->rank; ++i) {
        names[i] = format_snippet("s%d_%d", number, i);
        const bool along = i == self->vector_axis && address->stride[i] != 0 && address->stride[i] != 1;
        if (along || (moves_along(self, address, i) && self->chain->classes[i] != AXIS_OUTER))
            tuff__text_add(out, "const int %s = PARAM(%d);\n", names[i].text,
                           tuff__emit_parameter(self, address->stride[i]));
    }
}

/* Returns the address of a value or an output, without the vector axis. Outputs are numbered after all values. */
static snippet emit_base(emitter *self, int number, const affine *address, int buffer)
{
    write_row_part(self, number, address, buffer);
    snippet sum = format_snippet("a%d", number);
    bool moves = false;
    for (int i = 0; i < self->chain->rank; ++i)
        if (moves_along(self, address, i) && self->chain->classes[i] != AXIS_OUTER) {
            sum = format_snippet("%s + %s * s%d_%d", sum.text, coordinate(self, i).text, number, i);
            moves = true;
        }
    if (!moves || self->walk == WALK_MATMUL)
        return sum;
    const int place = self->walk == WALK_ROW ? PLACE_RUN : self->loop_depth > 0 ? PLACE_LOOP : PLACE_ELEMENT;
    if (!(self->states[number].placed & place)) {
        self->states[number].placed |= (unsigned char)place;
        tuff__text_add(text_for_place(self, place), "const int r%d = %s;\n", number, sum.text);
    }
    return format_snippet("r%d", number);
}

static int64_t vector_stride(const emitter *self, const affine *address)
{
    if (self->vector_axis < 0 || self->chain->extent[self->vector_axis] == 1)
        return 0;
    return address->stride[self->vector_axis];
}

snippet tuff__emit_address(emitter *self, int number, const affine *address, int buffer)
{
    const snippet base = emit_base(self, number, address, buffer);
    const char *along = self->walk == WALK_MATMUL ? "column" : "i";
    const int64_t stride = vector_stride(self, address);
    if (stride == 0)
        return base;
    if (stride == 1)
        return format_snippet("%s + %s", base.text, along);
    return format_snippet("%s + %s * s%d_%d", base.text, along, number, self->vector_axis);
}

/* Elements of the vectors that memory has at multiples of them. */
static int aligned_elements(const emitter *self)
{
    return self->vec > 4 ? self->vec : 4;
}

/* Whether every vector of this address starts at such a multiple. */
static bool is_aligned(const emitter *self, const affine *address, int buffer)
{
    const chain_buffer *entry = &self->chain->buffers[buffer];
    const int elements = aligned_elements(self);
    if (!self->aligned_only)
        return true;
    /* The tiles of a matmul at an edge are moved back inside. */
    return (address->offset + entry->element_offset) % elements == 0 &&
           (self->walk != WALK_MATMUL || self->chain->extent[self->vector_axis] % elements == 0) &&
           tuff__strides_are_multiples(self->chain, address, self->vector_axis, elements);
}

/* Returns the address as a vector of ints. */
static snippet vector_address(emitter *self, int number, const affine *address, int buffer)
{
    const int64_t stride = vector_stride(self, address);
    if (self->gathers) {
        const snippet base = emit_base(self, number, address, buffer);
        return stride == 1
                   ? format_snippet("(ISPLAT(%s) + column)", base.text)
                   : format_snippet("(ISPLAT(%s) + column * ISPLAT(s%d_%d))", base.text, number, self->vector_axis);
    }
    const snippet start = tuff__emit_address(self, number, address, buffer);
    if (stride == 1)
        return format_snippet("(ISPLAT(%s) + LANES_V)", start.text);
    return format_snippet("(ISPLAT(%s) + LANES_V * ISPLAT(s%d_%d))", start.text, number, self->vector_axis);
}

static snippet literal(tuff_dtype dtype, double number)
{
    if (dtype == TUFF_BOOL)
        return format_snippet("%s", number != 0 ? "(0 == 0)" : "(0 != 0)");
    if (dtype == TUFF_I32 && number <= -2147483648.0)
        return format_snippet("(-2147483647 - 1)");
    if (dtype == TUFF_I32)
        return format_snippet("(%.0f)", number);
    if (dtype == TUFF_U32)
        return format_snippet("%.0fu", number);
    const float single = (float)number;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    if (single == floorf(single) && fabsf(single) < 1e6f && bits != 0x80000000u)
        return format_snippet("(%sf)", NUMBER_TEXT('f', 1, (double)single));
    if (isfinite(single) && fabsf(single) > 1e-30f)
        return format_snippet("(%sf)", NUMBER_TEXT('e', 9, (double)single));
    return format_snippet("FROM_BITS_1(0x%08xu)", bits);
}

/* Broadcasts a scalar expression to a vector. */
static snippet broadcast(tuff_dtype dtype, snippet scalar)
{
    return format_snippet("%sSPLAT(%s)", tuff__dtype_prefix(dtype), scalar.text);
}

/* Appends an intrinsic's name with the suffix of its width; integer intrinsics on u32 begin with U. */
static size_t write_intrinsic(const char *from, size_t length, bool vector, bool is_u32, char *out, size_t size)
{
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)length, from);
    if (is_u32 && name[0] == 'I' && length > 1)
        name[0] = 'U';
    const int written = snprintf(out, size, "%s_%c", name, vector ? 'v' : '1');
    return written < 0 || (size_t)written >= size ? 0 : (size_t)written;
}

/* Returns the op's text with its operands substituted for x, y and z. */
static snippet substitute(const char *pattern, const snippet *operands, bool vector, bool is_u32)
{
    snippet out = {{0}};
    size_t at = 0;
    for (const char *c = pattern; *c != 0 && at + 1 < sizeof out.text;) {
        size_t length = 1;
        while (isalnum((unsigned char)*c) && isalnum((unsigned char)c[length]))
            ++length;
        if (length == 1 && *c >= 'x' && *c <= 'z') {
            const int written = snprintf(out.text + at, sizeof out.text - at, "%s", operands[*c - 'x'].text);
            at += (size_t)written;
        } else if (isupper((unsigned char)*c)) {
            at += write_intrinsic(c, length, vector, is_u32, out.text + at, sizeof out.text - at);
        } else {
            for (size_t i = 0; i < length && at + 1 < sizeof out.text; ++i)
                out.text[at++] = c[i];
        }
        c += length;
    }
    return out;
}

static const char *cast_pattern(tuff_dtype from, tuff_dtype to)
{
    /* Columns are kinds of operand: float, i32, u32, bool. */
    static const char *const patterns[10][4] = {
        [TUFF_F32] = {"x", "I_TO_F(x)", "U_TO_F(x)", "B_TO_F(x)"},
        [TUFF_F16] = {"ROUND_F16(x)", "ROUND_F16(I_TO_F(x))", "ROUND_F16(U_TO_F(x))", "B_TO_F(x)"},
        [TUFF_BF16] = {"ROUND_BF16(x)", NULL, NULL, "B_TO_F(x)"}, /* integers: see write_int_to_float_for_bf16 */
        [TUFF_I32] = {"F_TO_I(x)", "x", "U_TO_I(x)", "B_TO_I(x)"},
        [TUFF_U32] = {"F_TO_U(x)", "I_TO_U(x)", "x", "B_TO_U(x)"},
        [TUFF_I8] = {"CLAMP_I8(F_TO_I(x))", "CLAMP_I8(x)", "CLAMP_I8(U_TO_I(UMIN(x, y)))", "B_TO_I(x)"},
        [TUFF_U8] = {"CLAMP_U8(F_TO_U(x))", "CLAMP_U8(I_TO_U(IMAX(x, y)))", "CLAMP_U8(x)", "B_TO_U(x)"},
        [TUFF_BOOL] = {"F_TO_B(x)", "I_TO_B(x)", "U_TO_B(x)", "x"},
    };
    return patterns[to][from == TUFF_I32 ? 1 : from == TUFF_U32 ? 2 : from == TUFF_BOOL ? 3 : 0];
}

/* Converts an integer to a float that rounds to the same bf16. From 2^24 on most integers are not representable as
   floats and would be rounded twice. An integer between two multiples of 512 is therefore replaced by their midpoint,
   which is a float and lies on the same side of every number halfway between two neighbouring bf16 values. */
static snippet write_int_to_float_for_bf16(const char *x, tuff_dtype from, bool vector)
{
    const char w = vector ? 'v' : '1', *p = tuff__dtype_prefix(from), *suffix = from == TUFF_I32 ? "" : "u";
    const snippet rest = format_snippet("%sSPLAT_%c(511%s)", p, w, suffix);
    const snippet middle = format_snippet("(%s & ~%s) | ((((%s & %s) + %s) >> %sSPLAT_%c(9%s)) << %sSPLAT_%c(8%s))", x,
                                          rest.text, x, rest.text, rest.text, p, w, suffix, p, w, suffix);
    const snippet is_small =
        from == TUFF_I32
            ? format_snippet("ULESS_%c(I_TO_U_%c(%s) + USPLAT_%c(0x1000000u), USPLAT_%c(0x2000000u))", w, w, x, w, w)
            : format_snippet("ULESS_%c(%s, USPLAT_%c(0x1000000u))", w, x, w);
    return format_snippet("%s_TO_F_%c(%sSELECT_%c(%s, %s, %s))", p, w, p, w, is_small.text, x, middle.text);
}

/* Names like F_TO_I contain underscores, at which substitute() would split them, so casts are expanded here. */
static snippet write_cast(emitter *self, const chain_value *value, bool vector)
{
    const tuff_dtype from = self->chain->values[value->args[0]].dtype;
    const snippet x = tuff__emit_value(self, value->args[0], vector);
    if (value->cast_to == TUFF_BF16 && (from == TUFF_I32 || from == TUFF_U32))
        return format_snippet("ROUND_BF16_%c(%s)", vector ? 'v' : '1',
                              write_int_to_float_for_bf16(x.text, from, vector).text);
    const snippet limit = from == TUFF_U32 ? format_snippet("2147483647u") : format_snippet("0");
    const snippet y = vector ? broadcast(from, limit) : limit;
    const char *pattern = cast_pattern(from, value->cast_to);
    snippet out = {{0}};
    size_t at = 0;
    for (const char *c = pattern; *c != 0 && at + 1 < sizeof out.text; ++c) {
        int written;
        if (*c == 'x' || *c == 'y')
            written = snprintf(out.text + at, sizeof out.text - at, "%s", *c == 'x' ? x.text : y.text);
        else
            written = snprintf(out.text + at, sizeof out.text - at, "%s%c",
                               *c == '(' && c > pattern ? (vector ? "_v" : "_1") : "", *c);
        at += (size_t)written;
    }
    return out;
}

/* Whether a division can multiply by a reciprocal instead, because a whole row shares its float divisor. Writes the
   reciprocal at the first use. The kernel uses it only if neither it nor the divisor is denormal or infinite (safeN).
   Values that must be exact are excluded: for them x / x has to be 1. */
static bool emit_reciprocal(emitter *self, const chain_value *division, int number)
{
    const chain_value *divisor = &self->chain->values[division->args[1]];
    const int place = place_for(self, divisor->varies);
    if (division->dtype != TUFF_F32 || self->states[number].exact || divisor->kind == VALUE_CONSTANT ||
        is_vector(self, divisor) || self->states[division->args[1]].uniform ||
        !(place == PLACE_ROW || (place == PLACE_RUN && self->walk == WALK_ROW)) || self->walk == WALK_MATMUL)
        return false;
    if (self->states[number].named & PLACE_INVERSE)
        return true;
    self->states[number].named |= place == PLACE_ROW ? PLACE_INVERSE : 0;
    const snippet y = tuff__emit_value(self, division->args[1], false);
    text *out = text_for_place(self, place);
    tuff__text_add(out, "const float inverse%d = 1.0f / %s;\n", number, y.text);
    tuff__text_add(out, "const boolean safe%d = ULESS_1((BITS_1(%s) & 0x7fffffffu) - 0x00800000u, 0x7e000000u);\n",
                   number, y.text);
    return true;
}

/* Whether the value is x minus the maximum over x, or minus something larger still: at most 0, or NaN. */
static bool is_never_above_zero(const fused_chain *chain, const chain_value *value)
{
    if (value->kind != VALUE_OP || value->op != OP_SUB || value->dtype != TUFF_F32)
        return false;
    const chain_value *most = &chain->values[value->args[1]];
    if (most->kind == VALUE_OP && most->op == OP_MAX)
        most = &chain->values[most->args[0]];
    return most->kind == VALUE_RESULT && chain->reduction_count > 0 &&
           chain->reductions[most->index].op == OP_REDUCE_MAX && chain->reductions[most->index].input == value->args[0];
}

/* Writes e^x for x <= 0, which costs less than the general case. */
static snippet write_nonpositive_exp(const char *x, bool vector)
{
    const char w = vector ? 'v' : '1', *least = vector ? "SPLAT(-104.0f)" : "-104.0f";
    return format_snippet("EXP_BELOW_%c(SELECT_%c(LESS_%c(%s, %s), %s, %s))", w, w, w, x, least, least, x);
}

static snippet write_op(emitter *self, const chain_value *value, bool vector)
{
    if (value->op == OP_CAST)
        return write_cast(self, value, vector);
    snippet operands[3] = {{{0}}, {{0}}, {{0}}};
    for (int i = 0; i < 3 && value->args[i] != NO_VALUE; ++i)
        operands[i] = tuff__emit_value(self, value->args[i], vector);
    if (value->op == OP_WHERE)
        return format_snippet("%sSELECT_%c(%s, %s, %s)", tuff__dtype_prefix(value->dtype), vector ? 'v' : '1',
                              operands[0].text, operands[1].text, operands[2].text);
    const int number = (int)(value - self->chain->values);
    if (value->op == OP_DIV && vector && self->has_reciprocals && emit_reciprocal(self, value, number))
        return format_snippet("(safe%d ? %s * SPLAT(inverse%d) : %s / %s)", number, operands[0].text, number,
                              operands[0].text, operands[1].text);
    if (value->op == OP_EXP && is_never_above_zero(self->chain, &self->chain->values[value->args[0]]))
        return write_nonpositive_exp(operands[0].text, vector);
    const tuff_dtype operand = self->chain->values[value->args[0]].dtype;
    const op_info *info = tuff__op_info(value->op);
    const bool whole = operand == TUFF_I32 || operand == TUFF_U32;
    return substitute(whole ? info->integer_text : info->text, operands, vector, operand == TUFF_U32);
}

/* Writes a load of the elements at an address, in the cheapest form that the address allows. */
static snippet write_load(emitter *self, const chain_value *value, int number, bool vector)
{
    const chain_buffer *buffer = &self->chain->buffers[value->buffer];
    const char *type = tuff_dtype_name(buffer->dtype);
    const bool guarded = value->guard != NO_VALUE;
    const int64_t stride = vector_stride(self, &value->address);
    const bool each_lane =
        vector && (self->gathers || (guarded && is_vector(self, &self->chain->values[value->guard])));
    /* If the guard is false, the beginning of the buffer is read; with a negative stride the last lane reads it. */
    const int64_t start = buffer->element_offset + (vector && !each_lane && stride < 0 ? -stride * (self->vec - 1) : 0);
    const snippet zero = guarded ? format_snippet("PARAM(%d)", tuff__emit_parameter(self, start)) : format_snippet("0");
    if (each_lane && !guarded)
        return format_snippet("LOADI_%s(b%d, %s)", type, value->buffer,
                              vector_address(self, number, &value->address, value->buffer).text);
    if (each_lane) {
        const snippet guard = tuff__emit_value(self, value->guard, true);
        const snippet where =
            varies_along_vector(self, value->varies) && vector_stride(self, &value->address) != 0
                ? vector_address(self, number, &value->address, value->buffer)
                : format_snippet("ISPLAT(%s)", tuff__emit_address(self, number, &value->address, value->buffer).text);
        return format_snippet("LOADI_%s(b%d, ISELECT_v(%s, %s, ISPLAT(%s)))", type, value->buffer, guard.text,
                              where.text, zero.text);
    }
    snippet where = tuff__emit_address(self, number, &value->address, value->buffer);
    if (guarded)
        where = format_snippet("ISELECT_1(%s, %s, %s)", tuff__emit_value(self, value->guard, false).text, where.text,
                               zero.text);
    if (!vector)
        return format_snippet("LOAD_%s(b%d, %s)", type, value->buffer, where.text);
    const bool aligned = is_aligned(self, &value->address, value->buffer) &&
                         (!guarded || buffer->element_offset % aligned_elements(self) == 0);
    if (stride == 1)
        return format_snippet("LOAD%c_%s(b%d, %s)", aligned ? 'V' : 'U', type, value->buffer, where.text);
    return format_snippet("LOADS_%s(b%d, %s, s%d_%d)", type, value->buffer, where.text, number, self->vector_axis);
}

/* Writes a load of an element whose index along one axis is itself a value. */
static snippet write_lookup(emitter *self, const chain_value *value, int number, bool vector)
{
    const char *type = tuff_dtype_name(self->chain->buffers[value->buffer].dtype), w = vector ? 'v' : '1';
    const char *splat = vector ? "ISPLAT" : "";
    const int step = tuff__emit_parameter(self, value->step), extent = tuff__emit_parameter(self, value->extent);
    const int zero = tuff__emit_parameter(self, self->chain->buffers[value->buffer].element_offset);
    const snippet index = tuff__emit_value(self, value->args[0], vector);
    snippet inside =
        format_snippet("ULESS_%c(I_TO_U_%c(%s), I_TO_U_%c(%s(PARAM(%d))))", w, w, index.text, w, splat, extent);
    if (value->guard != NO_VALUE)
        inside = format_snippet("AND_%c(%s, %s)", w, inside.text, tuff__emit_value(self, value->guard, vector).text);
    text *out = text_for_place(self, place_for(self, value->varies));
    tuff__text_add(out, "%s g%d = %s;\n", vector ? "bvec" : "boolean", number, inside.text);
    snippet base = tuff__emit_address(self, number, &value->address, value->buffer);
    if (vector)
        base = vector_stride(self, &value->address) != 0 ? vector_address(self, number, &value->address, value->buffer)
                                                         : format_snippet("ISPLAT(%s)", base.text);
    tuff__text_add(out, "%s h%d = ISELECT_%c(g%d, %s + %s * %s(PARAM(%d)), %s(PARAM(%d)));\n", vector ? "ivec" : "int",
                   number, w, number, base.text, index.text, splat, step, splat, zero);
    const bool packed = value->dtype == TUFF_BOOL && self->chain->buffers[value->buffer].dtype == TUFF_U32;
    snippet found = format_snippet("LOAD%s_%s(b%d, h%d)", vector ? "I" : "", type, value->buffer, number);
    if (packed)
        found = format_snippet("U_TO_B_%c(%s)", w, found.text);
    const snippet missing =
        value->dtype == TUFF_F32 ? format_snippet("FROM_BITS_1(0x7fc00000u)") : literal(value->dtype, 0);
    return format_snippet("%sSELECT_%c(g%d, %s, %s)", tuff__dtype_prefix(value->dtype), w, number, found.text,
                          vector ? broadcast(value->dtype, missing).text : missing.text);
}

static snippet write_inside(emitter *self, const chain_value *value, int number, bool vector)
{
    const int low = tuff__emit_parameter(self, value->low), span = tuff__emit_parameter(self, value->high - value->low);
    if (!vector)
        return format_snippet("ULESS_1(I_TO_U_1(%s - PARAM(%d)), I_TO_U_1(PARAM(%d)))",
                              tuff__emit_address(self, number, &value->address, -1).text, low, span);
    return format_snippet("ULESS_v(I_TO_U_v(%s - ISPLAT(PARAM(%d))), I_TO_U_v(ISPLAT(PARAM(%d))))",
                          vector_address(self, number, &value->address, -1).text, low, span);
}

static snippet write_random(emitter *self, const chain_value *value, int number, bool vector)
{
    const snippet step = tuff__emit_value(self, value->args[0], false);
    const snippet index = vector ? vector_address(self, number, &value->address, -1)
                                 : tuff__emit_address(self, number, &value->address, -1);
    /* Parameters rather than literals, so that all dropouts of a graph share one kernel. */
    const int seed = tuff__emit_parameter(self, (int32_t)value->seed);
    const int ordinal = tuff__emit_parameter(self, (int32_t)value->ordinal);
    return format_snippet("RANDOM_%c(I_TO_U_%c(%s), I_TO_U_1(%s), I_TO_U_1(PARAM(%d)), I_TO_U_1(PARAM(%d)))",
                          vector ? 'v' : '1', vector ? 'v' : '1', index.text, step.text, seed, ordinal);
}

static snippet write_value(emitter *self, const chain_value *value, int number, bool vector)
{
    switch (value->kind) {
    case VALUE_LOAD: {
        const snippet load = write_load(self, value, number, vector);
        const bool packed = value->dtype == TUFF_BOOL && self->chain->buffers[value->buffer].dtype == TUFF_U32;
        return packed ? format_snippet("U_TO_B_%c(%s)", vector ? 'v' : '1', load.text) : load;
    }
    case VALUE_LOOKUP:
        return write_lookup(self, value, number, vector);
    case VALUE_INSIDE:
        return write_inside(self, value, number, vector);
    case VALUE_RANDOM:
        return write_random(self, value, number, vector);
    case VALUE_INDEX:
        return vector ? vector_address(self, number, &value->address, -1)
                      : tuff__emit_address(self, number, &value->address, -1);
    default:
        return write_op(self, value, vector);
    }
}

/* Keeps a value of a row for the vectors of columns that follow. Names contain the pass, since passes share a scope. */
static void fetch(emitter *self, const chain_value *value, int index)
{
    if (self->states[index].named & PLACE_FETCHED)
        return;
    self->states[index].named |= PLACE_FETCHED;
    const char *type = tuff__type_name(value->dtype, false);
    tuff__text_add(&self->texts->declare, "%s w%d_%d RUN_ARRAY;\n", type, index, self->pass);
    tuff__text_add(&self->texts->each_run, "w%d_%d OF_RUN = v%d;\n", index, self->pass, index);
    tuff__text_add(&self->texts->fetch, "%s v%d = w%d_%d OF_RUN;\n", type, index, index, self->pass);
}

snippet tuff__emit_value(emitter *self, int index, bool wide)
{
    const chain_value *value = &self->chain->values[index];
    const bool vector = is_vector(self, value), spread = wide && self->vector && !vector;
    snippet name = format_snippet("v%d", index);
    if (value->kind == VALUE_CONSTANT) {
        name = literal(value->dtype, value->constant);
    } else if (value->kind == VALUE_RESULT && self->walk == WALK_MATMUL) {
        name = format_snippet("value");
    } else if (value->kind != VALUE_RESULT) {
        const int place = place_for(self, value->varies);
        if (!(self->states[index].named & place)) {
            self->states[index].named |= (unsigned char)place;
            self->loop_depth += place == PLACE_LOOP;
            const bool kept = self->states[index].kept && vector;
            const snippet expression = kept && self->pass > self->states[index].first_pass
                                           ? format_snippet("kept%d OF_KEPT", index)
                                           : write_value(self, value, index, vector);
            self->loop_depth -= place == PLACE_LOOP;
            tuff__text_add(text_for_place(self, place), "%s v%d = %s;\n", tuff__type_name(value->dtype, vector), index,
                           expression.text);
            if (kept && self->pass == self->states[index].first_pass) {
                tuff__text_add(&self->texts->clear, "vec kept%d[%d];\n", index, tuff__kept_vectors(self));
                tuff__text_add(text_for_place(self, place), "kept%d OF_KEPT = v%d;\n", index, index);
            }
        }
        if (place == PLACE_LOOP && self->loop_depth == 0)
            fetch(self, value, index);
    }
    return spread ? broadcast(value->dtype, name) : name;
}

void tuff__emit_stored_value(emitter *self, int index)
{
    const chain_output *output = &self->chain->outputs[index];
    (void)tuff__emit_value(self, output->value, self->vector && vector_stride(self, &output->address) != 0);
}

void tuff__emit_store(emitter *self, int index, text *out)
{
    const chain_output *output = &self->chain->outputs[index];
    const chain_value *entry = &self->chain->values[output->value];
    const chain_buffer *buffer = &self->chain->buffers[output->buffer];
    const int number = self->chain->value_count + index;
    const int64_t stride = vector_stride(self, &output->address);
    const bool vector = self->vector && stride != 0;
    const char *type = tuff_dtype_name(buffer->dtype);
    snippet value = tuff__emit_value(self, output->value, vector);
    if (entry->dtype == TUFF_BOOL && buffer->dtype == TUFF_U32)
        value = format_snippet("B_TO_U_%c(%s)", vector ? 'v' : '1', value.text);
    const snippet where = tuff__emit_address(self, number, &output->address, output->buffer);
    if (!vector)
        tuff__text_add(out, "STORE_%s(b%d, %s, %s);\n", type, output->buffer, where.text, value.text);
    else if (stride == 1 && buffer->streamed && !buffer->read && tuff_dtype_size(buffer->dtype) == 4)
        tuff__text_add(out, "STREAM_%s(b%d, %s, i, %s);\n", type, output->buffer,
                       emit_base(self, number, &output->address, output->buffer).text, value.text);
    else if (stride == 1)
        tuff__text_add(out, "STORE%c_%s(b%d, %s, %s);\n",
                       is_aligned(self, &output->address, output->buffer) ? 'V' : 'U', type, output->buffer, where.text,
                       value.text);
    else
        tuff__text_add(out, "STORES_%s(b%d, %s, s%d_%d, %s);\n", type, output->buffer, where.text, number,
                       self->vector_axis, value.text);
}

/* The first row of an item stores, later rows add. */
void tuff__emit_column_sum(emitter *self, int index, text *out)
{
    const chain_output *output = &self->chain->outputs[index];
    const chain_reduction *reduction = &self->chain->reductions[self->chain->values[output->value].index];
    const int number = self->chain->value_count + index, buffer = output->buffer;
    const snippet value = tuff__emit_value(self, reduction->input, true);
    const snippet where = tuff__emit_address(self, number, &output->address, buffer);
    const char *form = !self->vector ? "" : is_aligned(self, &output->address, buffer) ? "V" : "U";
    tuff__text_add(out, "%s column%d = %s;\n", tuff__type_name(TUFF_F32, self->vector), index, value.text);
    tuff__text_add(out, "if (row > first_row) column%d = LOAD%s_f32(b%d, %s) + column%d;\n", index, form, buffer,
                   where.text, index);
    tuff__text_add(out, "STORE%s_f32(b%d, %s, column%d);\n", form, buffer, where.text, index);
}
