/* Writes the statements of a pass: its reductions and stores, as vectors and element by element. */
#include "kernels/emit.h"

#include <stdio.h>

#include "base/alloc.h"
#include "kernels/emit_value.h"

static int find_vector_axis(const fused_chain *chain, walk order)
{
    for (int i = chain->rank - 1; i >= 0; --i) {
        const axis_class class = chain->classes[i];
        if (order == WALK_MATMUL ? class == AXIS_COLUMN
                                 : (order == WALK_ROW || order == WALK_SCAN) == (class == AXIS_LOOP))
            return i;
    }
    return -1;
}

tuff_status tuff__emitter_create(const fused_chain *chain, walk order, int vec, bool aligned_only, emitter *out)
{
    *out = (emitter){.chain = chain, .walk = order, .vec = vec, .aligned_only = aligned_only};
    const size_t count = (size_t)(chain->value_count + chain->output_count + 1);
    out->vector_axis = find_vector_axis(chain, order);
    out->states = tuff__calloc(count, sizeof *out->states);
    if (out->states == NULL)
        return TUFF_E_OOM_HOST;
    for (size_t i = 0; i < count; ++i)
        out->states[i].first_pass = out->states[i].last_pass = -1;
    tuff__find_uniform(out);
    tuff__find_exact(out);
    return TUFF_OK;
}

void tuff__emitter_free(emitter *self)
{
    tuff__free(self->states);
    tuff__free(self->parameters);
    *self = (emitter){.chain = NULL};
}

/* Splits the flat index `from` over the given axes, innermost first. */
static void split_index(emitter *self, const int *axes, int count, char letter, const char *from, text *out)
{
    char rest[32];
    snprintf(rest, sizeof rest, "%s", from);
    for (int i = count - 1; i >= 0; --i) {
        if (i == 0) {
            tuff__text_add(out, "const int %c%d = %s;\n", letter, axes[i], rest);
            break;
        }
        const int extent = tuff__emit_parameter(self, self->chain->extent[axes[i]]);
        tuff__text_add(out, "const int %c%d = %s %% PARAM(%d);\n", letter, axes[i], rest, extent);
        tuff__text_add(out, "const int q%c%d = %s / PARAM(%d);\n", letter, i, rest, extent);
        snprintf(rest, sizeof rest, "q%c%d", letter, i);
    }
}

static void split_class(emitter *self, axis_class class, char letter, const char *from, text *out)
{
    int axes[TUFF_MAX_RANK], count = 0;
    for (int i = 0; i < self->chain->rank; ++i)
        if (self->chain->classes[i] == class && i != self->vector_axis)
            axes[count++] = i;
    split_index(self, axes, count, letter, from, out);
}

void tuff__emit_coordinates(emitter *self, const char *from, text *out)
{
    split_class(self, AXIS_OUTER, 'c', from, out);
}

void tuff__emit_loop_coordinates(emitter *self, const char *from, text *out)
{
    split_class(self, AXIS_LOOP, 'l', from, out);
}

void tuff__emit_operand(emitter *self, int index, text *out)
{
    const char *name = self->chain->operand_names[index];
    const affine *address = &self->chain->operand_bases[index];
    const int64_t start = address->offset + self->chain->buffers[self->chain->operand_buffers[index]].element_offset;
    tuff__text_add(out, "const int %s_base = PARAM(%d)", name, tuff__emit_parameter(self, start));
    for (int i = 0; i < self->chain->rank; ++i)
        if (self->chain->classes[i] == AXIS_OUTER && address->stride[i] != 0)
            tuff__text_add(out, " + c%d * PARAM(%d)", i, tuff__emit_parameter(self, address->stride[i]));
    tuff__text_add(out, ";\n");
}

static void forget_names(emitter *self, unsigned places)
{
    const int count = self->chain->value_count + self->chain->output_count;
    for (int i = 0; i < count; ++i) {
        self->states[i].named &= (unsigned char)~places;
        self->states[i].placed &= (unsigned char)~places;
    }
}

static const char *identity_value(const chain_reduction *reduction, tuff_dtype dtype)
{
    if (reduction->op == OP_SUM)
        return dtype == TUFF_F32 ? "0.0f" : dtype == TUFF_I32 ? "0" : "0u";
    return dtype == TUFF_F32 ? "FROM_BITS_1(0xff800000u)" : dtype == TUFF_I32 ? "(-2147483647 - 1)" : "0u";
}

/* Writes `target = target + x`, or the maximum of the two. */
static void accumulate(const chain_reduction *reduction, tuff_dtype dtype, bool vector, const char *target, int number,
                       const char *x, text *out)
{
    if (reduction->op == OP_SUM)
        tuff__text_add(out, "%s%d = %s%d + %s;\n", target, number, target, number, x);
    else
        tuff__text_add(out, "%s%d = %sMAX_%c(%s%d, %s);\n", target, number, tuff__dtype_prefix(dtype),
                       vector ? 'v' : '1', target, number, x);
}

/* Rows in vectors: several partial results side by side (EACH_PART, OF_PART), so that no addition waits for the one
   before it. A maximum tracks NaN separately, in the bits, which is cheaper than a test in every comparison. */
static void emit_row_reduction(emitter *self, const chain_reduction *reduction, const char *x)
{
    pass_texts *texts = self->texts;
    const int n = reduction->result;
    if (reduction->op == OP_SUM) {
        tuff__text_add(&texts->vector, "part%d OF_PART = part%d OF_PART + %s;\n", n, n, x);
        tuff__text_add(&texts->add_vector, "EACH_PART total%d = total%d + part%d OF_PART;\n", n, n, n);
    } else {
        tuff__text_add(&texts->vector, "part%d OF_PART = SELECT_v(LESS_v(part%d OF_PART, %s), %s, part%d OF_PART);\n",
                       n, n, x, x, n);
        tuff__text_add(&texts->vector, "bits%d OF_PART = UMAX_v(bits%d OF_PART, BITS_v(%s) & 0x7fffffffu);\n", n, n, x);
        tuff__text_add(&texts->reset_vector, "uvec bits%d PART_ARRAY;\nEACH_PART bits%d OF_PART = USPLAT(0u);\n", n, n);
        tuff__text_add(&texts->add_vector,
                       "EACH_PART total%d = MAX_v(total%d, SELECT_v(ULESS_v(USPLAT(0x7f800000u), bits%d OF_PART), "
                       "FROM_BITS_v(bits%d OF_PART), part%d OF_PART));\n",
                       n, n, n, n, n);
    }
    const char *start = identity_value(reduction, TUFF_F32);
    tuff__text_add(&texts->clear, "precise vec total%d = SPLAT(%s);\n", n, start);
    tuff__text_add(&texts->reset_vector, "precise vec part%d PART_ARRAY;\nEACH_PART part%d OF_PART = SPLAT(%s);\n", n,
                   n, start);
}

/* Writes the declarations around the loops: partial results of at most a block of terms, totals, and the result. */
static void emit_accumulators(emitter *self, const chain_reduction *reduction)
{
    pass_texts *texts = self->texts;
    const int number = reduction->result;
    const tuff_dtype dtype = self->chain->values[number].dtype;
    const char *start = identity_value(reduction, dtype), *type = tuff__type_name(dtype, false);
    const bool row = self->walk == WALK_ROW;
    const char *total = row ? "tail" : "total";
    char part[32];
    snprintf(part, sizeof part, "part%d", number);
    tuff__text_add(&texts->clear, "%s %s%d = (%s);\n", type, total, number, start);
    tuff__text_add(&texts->reset_scalar, "%s part%d = (%s);\n", type, number, start);
    accumulate(reduction, dtype, false, total, number, part, &texts->add_scalar);
    if (row)
        return;
    tuff__text_add(&texts->combine, "%s v%d = total%d;\n", type, number, number);
    if (dtype == TUFF_F32)
        tuff__text_add(&texts->combine, "REDUCE_%s(v%d);\n", reduction->op == OP_SUM ? "SUM" : "MAX", number);
}

/* The same for columns in vectors: arrays over the vectors that an item owns. */
static void emit_column_accumulators(emitter *self, const chain_reduction *reduction)
{
    pass_texts *texts = self->texts;
    const int number = reduction->result;
    const tuff_dtype dtype = self->chain->values[number].dtype;
    const char *start = identity_value(reduction, dtype), *type = tuff__type_name(dtype, true);
    tuff__text_add(&texts->declare, "%s totals%d VECTOR_ARRAY;\n%s parts%d VECTOR_ARRAY;\n", type, number, type,
                   number);
    tuff__text_add(&texts->clear, "totals%d OF_VECTOR = %sSPLAT(%s);\n", number, tuff__dtype_prefix(dtype), start);
    tuff__text_add(&texts->reset_vector, "parts%d OF_VECTOR = %sSPLAT(%s);\n", number, tuff__dtype_prefix(dtype),
                   start);
    tuff__text_add(&texts->open, "%s part%d = parts%d OF_VECTOR;\n", type, number, number);
    tuff__text_add(&texts->close, "parts%d OF_VECTOR = part%d;\n", number, number);
    if (reduction->op == OP_SUM)
        tuff__text_add(&texts->add_vector, "totals%d OF_VECTOR = totals%d OF_VECTOR + parts%d OF_VECTOR;\n", number,
                       number, number);
    else
        tuff__text_add(&texts->add_vector, "totals%d OF_VECTOR = %sMAX_v(totals%d OF_VECTOR, parts%d OF_VECTOR);\n",
                       number, tuff__dtype_prefix(dtype), number, number);
    if (dtype == TUFF_F32)
        tuff__text_add(&texts->combine, "REDUCE_%s(totals%d);\n", reduction->op == OP_SUM ? "SUM" : "MAX", number);
}

/* Writes the results of earlier passes' reductions, for a vector of columns. */
static void emit_column_results(emitter *self, int pass)
{
    for (int i = 0; i < self->chain->reduction_count; ++i) {
        const chain_reduction *reduction = &self->chain->reductions[i];
        const int number = reduction->result;
        if (reduction->stage < pass)
            tuff__text_add(&self->texts->open, "%s v%d = totals%d OF_VECTOR;\n",
                           tuff__type_name(self->chain->values[number].dtype, true), number, number);
    }
}

/* Rows: combines the lanes of the vector with the tail, then the lanes of the group (REDUCE_... of the body). */
static void emit_row_result(emitter *self, const chain_reduction *reduction)
{
    const int number = reduction->result;
    const bool sum = reduction->op == OP_SUM;
    const tuff_dtype dtype = self->chain->values[number].dtype;
    text *out = &self->texts->combine;
    tuff__text_add(out, "%s v%d = tail%d;\n", tuff__type_name(dtype, false), number, number);
    if (self->vec > 1 && sum)
        tuff__text_add(out, "v%d = v%d + HSUM(total%d);\n", number, number, number);
    else if (self->vec > 1)
        tuff__text_add(out, "v%d = MAX_1(v%d, HMAX(total%d));\n", number, number, number);
    if (dtype == TUFF_F32)
        tuff__text_add(out, "REDUCE_%s(v%d);\n", sum ? "SUM" : "MAX", number);
}

static void emit_reduction(emitter *self, const chain_reduction *reduction, bool vector)
{
    const tuff_dtype dtype = self->chain->values[reduction->result].dtype;
    const snippet input = tuff__emit_value(self, reduction->input, vector);
    if (vector && self->walk == WALK_ROW) {
        emit_row_reduction(self, reduction, input.text);
        return;
    }
    accumulate(reduction, dtype, vector, "part", reduction->result, input.text,
               vector ? &self->texts->vector : &self->texts->scalar);
    if (vector)
        emit_column_accumulators(self, reduction);
    else
        emit_accumulators(self, reduction);
}

static bool is_stored_at_points(const emitter *self, int index, int pass)
{
    const chain_output *output = &self->chain->outputs[index];
    return output->every_point && output->value != NO_VALUE && self->chain->values[output->value].stage == pass;
}

/* If a map stores over elements that it reads, an item loads all its inputs before it stores anything: one result may
   overwrite an input of another. */
static void emit_values_first(emitter *self, int pass)
{
    bool in_place = false;
    for (int i = 0; i < self->chain->buffer_count; ++i)
        in_place |= self->chain->buffers[i].read && self->chain->buffers[i].written;
    for (int i = 0; i < self->chain->output_count && in_place; ++i)
        if (is_stored_at_points(self, i, pass))
            tuff__emit_stored_value(self, i);
}

/* Writes the reductions and every-point stores of one pass, either as vectors or element by element. */
static void emit_points(emitter *self, int pass, bool vector)
{
    const fused_chain *chain = self->chain;
    self->vector = vector;
    if (vector && self->walk == WALK_COLUMN)
        emit_column_results(self, pass);
    for (int i = 0; i < chain->reduction_count; ++i)
        if (tuff__reduces_in(self, i, pass) && self->walk != WALK_SCAN)
            emit_reduction(self, &chain->reductions[i], vector);
    if (self->walk == WALK_MAP)
        emit_values_first(self, pass);
    for (int i = 0; i < chain->output_count; ++i) {
        const chain_output *output = &chain->outputs[i];
        if (output->in_columns && pass == tuff__chain_pass_count(self->chain) - 1)
            tuff__emit_column_sum(self, i, vector ? &self->texts->vector : &self->texts->scalar);
        if (is_stored_at_points(self, i, pass))
            tuff__emit_store(self, i, vector ? &self->texts->vector : &self->texts->scalar);
    }
    if (vector && self->walk == WALK_ROW)
        tuff__emit_prefetch(self, pass);
    if (vector && self->walk == WALK_MATMUL)
        tuff__emit_epilogue_prefetch(self);
}

/* Writes a cumulative sum that is stored at every element. */
static void emit_scan(emitter *self)
{
    const chain_reduction *scan = &self->chain->reductions[0];
    const chain_output *output = &self->chain->outputs[0];
    const chain_buffer *buffer = &self->chain->buffers[output->buffer];
    const tuff_dtype dtype = self->chain->values[scan->input].dtype;
    text *out = &self->texts->scalar;
    self->vector = false;
    tuff__text_add(&self->texts->clear, "%s total = %s;\n", tuff__type_name(dtype, false), identity_value(scan, dtype));
    const snippet input = tuff__emit_value(self, scan->input, false);
    tuff__text_add(out, "total = total + %s;\n", input.text);
    const snippet where = tuff__emit_address(self, self->chain->value_count, &output->address, output->buffer);
    tuff__text_add(out, "STORE_%s(b%d, %s, total);\n", tuff_dtype_name(buffer->dtype), output->buffer, where.text);
}

enum { TEXT_COUNT = sizeof(pass_texts) / sizeof(text) };

/* Relies on pass_texts having only members of type text. */
static tuff_status texts_status(const emitter *self)
{
    const text *all = &self->texts->row;
    for (int i = 0; i < TEXT_COUNT; ++i)
        TRY(tuff__text_status(&all[i]));
    return self->status;
}

tuff_status tuff__emit_pass(emitter *self, int pass, emit_mode mode, pass_texts *texts)
{
    self->texts = texts;
    if (self->walk == WALK_SCAN) {
        emit_scan(self);
        return texts_status(self);
    }
    /* Scalar columns keep what does not vary along rows across all passes; vectors emit it again in each pass. */
    const bool kept = self->walk == WALK_COLUMN && mode == EMIT_SCALAR && pass > 0;
    forget_names(self, PLACE_ELEMENT | PLACE_LOOP | PLACE_FETCHED | (kept ? 0 : PLACE_RUN) |
                           (pass == 0 && mode == EMIT_SCALAR ? PLACE_ROW | PLACE_INVERSE : 0));
    self->pass = pass;
    /* A result narrower than a vector has no vector code: its address may not even move along the vector axis. */
    const bool narrow = self->walk == WALK_MATMUL && self->chain->extent[self->vector_axis] < self->vec;
    if (mode != EMIT_SCALAR && self->vec > 1 && !narrow)
        emit_points(self, pass, true);
    forget_names(self, PLACE_ELEMENT);
    if (mode != EMIT_VECTOR)
        emit_points(self, pass, false);
    for (int i = 0; i < self->chain->reduction_count && self->walk == WALK_ROW; ++i)
        if (tuff__reduces_in(self, i, pass))
            emit_row_result(self, &self->chain->reductions[i]);
    return texts_status(self);
}

snippet tuff__emit_form(emitter *self, int value, bool vector, bool gathers, pass_texts *texts)
{
    self->texts = texts;
    self->vector = vector;
    self->gathers = gathers;
    for (int i = 0; i < self->chain->value_count && gathers; ++i)
        self->states[i].uniform = false;
    forget_names(self, PLACE_ELEMENT);
    return tuff__emit_value(self, value, vector);
}

tuff_status tuff__emit_finish(emitter *self, bool vector, text *out)
{
    pass_texts texts = {.row = {0}};
    self->texts = &texts;
    self->vector = vector;
    const bool columns = vector && self->walk == WALK_COLUMN;
    forget_names(self, PLACE_ELEMENT | (columns ? PLACE_RUN : 0));
    if (columns)
        emit_column_results(self, tuff__chain_pass_count(self->chain));
    text stores = {0};
    for (int i = 0; i < self->chain->output_count; ++i)
        if (!self->chain->outputs[i].every_point && !self->chain->outputs[i].in_columns)
            tuff__emit_store(self, i, &stores);
    tuff__text_add(out, "%s%s%s%s%s", tuff__text_get(&texts.open), tuff__text_get(&texts.row),
                   tuff__text_get(&texts.run), tuff__text_get(vector ? &texts.vector : &texts.scalar),
                   tuff__text_get(&stores));
    tuff_status status = texts_status(self);
    if (status == TUFF_OK)
        status = tuff__text_status(&stores);
    tuff__text_free(&stores);
    tuff__pass_texts_free(&texts);
    self->texts = NULL;
    return status;
}

void tuff__pass_texts_free(pass_texts *texts)
{
    text *all = &texts->row;
    for (int i = 0; i < TEXT_COUNT; ++i)
        tuff__text_free(&all[i]);
}
