/* Writes the statements of a pass: its reductions and stores, in vectors and element by element. */
#include "kernels/emit.h"

#include <stdio.h>
#include <string.h>

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
    out->named = tuff__calloc(count, 1);
    out->placed = tuff__calloc(count, 1);
    out->uniform = tuff__calloc(count, sizeof *out->uniform);
    out->first_pass = tuff__calloc(count, sizeof *out->first_pass);
    out->last_pass = tuff__calloc(count, sizeof *out->last_pass);
    out->kept = tuff__calloc(count, sizeof *out->kept);
    out->dear = tuff__calloc(count, sizeof *out->dear);
    if (out->named == NULL || out->placed == NULL || out->uniform == NULL || out->first_pass == NULL ||
        out->last_pass == NULL || out->kept == NULL || out->dear == NULL) {
        tuff__emitter_free(out);
        return TUFF_E_OOM_HOST;
    }
    for (size_t i = 0; i < count; ++i)
        out->first_pass[i] = out->last_pass[i] = -1;
    tuff__find_uniform(out);
    return TUFF_OK;
}

void tuff__emitter_free(emitter *with)
{
    tuff__free(with->named);
    tuff__free(with->placed);
    tuff__free(with->uniform);
    tuff__free(with->first_pass);
    tuff__free(with->last_pass);
    tuff__free(with->kept);
    tuff__free(with->dear);
    tuff__free(with->parameters);
    *with = (emitter){.chain = NULL};
}

/* Splits the flat index `from` over the given axes, the innermost first. */
static void split_index(emitter *with, const int *axes, int count, char letter, const char *from, text *out)
{
    char rest[32];
    snprintf(rest, sizeof rest, "%s", from);
    for (int i = count - 1; i >= 0; --i) {
        if (i == 0) {
            tuff__text_add(out, "const int %c%d = %s;\n", letter, axes[i], rest);
            break;
        }
        const int extent = tuff__emit_parameter(with, with->chain->extent[axes[i]]);
        tuff__text_add(out, "const int %c%d = %s %% PARAM(%d);\n", letter, axes[i], rest, extent);
        tuff__text_add(out, "const int q%c%d = %s / PARAM(%d);\n", letter, i, rest, extent);
        snprintf(rest, sizeof rest, "q%c%d", letter, i);
    }
}

static void split_class(emitter *with, axis_class class, char letter, const char *from, text *out)
{
    int axes[TUFF_MAX_RANK], count = 0;
    for (int i = 0; i < with->chain->rank; ++i)
        if (with->chain->classes[i] == class && i != with->vector_axis)
            axes[count++] = i;
    split_index(with, axes, count, letter, from, out);
}

void tuff__emit_coordinates(emitter *with, const char *from, text *out)
{
    split_class(with, AXIS_OUTER, 'c', from, out);
}

void tuff__emit_loop_coordinates(emitter *with, const char *from, text *out)
{
    split_class(with, AXIS_LOOP, 'l', from, out);
}

void tuff__emit_operand(emitter *with, int index, text *out)
{
    const char *name = with->chain->operand_names[index];
    const affine *address = &with->chain->extra[index];
    const int64_t start = address->offset + with->chain->buffers[with->chain->operand_buffers[index]].element_offset;
    tuff__text_add(out, "const int %s_base = PARAM(%d)", name, tuff__emit_parameter(with, start));
    for (int i = 0; i < with->chain->rank; ++i)
        if (with->chain->classes[i] == AXIS_OUTER && address->stride[i] != 0)
            tuff__text_add(out, " + c%d * PARAM(%d)", i, tuff__emit_parameter(with, address->stride[i]));
    tuff__text_add(out, ";\n");
}

static void forget(emitter *with, unsigned places)
{
    const int count = with->chain->value_count + with->chain->output_count;
    for (int i = 0; i < count; ++i) {
        with->named[i] &= (unsigned char)~places;
        with->placed[i] &= (unsigned char)~places;
    }
}

static const char *start_value(const chain_reduction *reduction, tuff_dtype dtype)
{
    if (reduction->op == OP_SUM)
        return dtype == TUFF_F32 ? "0.0f" : dtype == TUFF_I32 ? "0" : "0u";
    return dtype == TUFF_F32 ? "FROM_BITS_1(0xff800000u)" : dtype == TUFF_I32 ? "(-2147483647 - 1)" : "0u";
}

/* `target = target + x` or the maximum of both. */
static void accumulate(const chain_reduction *reduction, tuff_dtype dtype, bool vector, const char *target, int number,
                       const char *x, text *out)
{
    if (reduction->op == OP_SUM)
        tuff__text_add(out, "%s%d = %s%d + %s;\n", target, number, target, number, x);
    else
        tuff__text_add(out, "%s%d = %sMAX_%c(%s%d, %s);\n", target, number, tuff__prefix(dtype), vector ? 'v' : '1',
                       target, number, x);
}

/* Rows in vectors: several partial results side by side (EACH_PART, OF_PART), so that no addition waits for the last.
   A maximum looks for NaN apart, among the bits: cheaper than in every comparison. */
static void emit_row_reduction(emitter *with, const chain_reduction *reduction, const char *x)
{
    pass_texts *texts = with->texts;
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
    const char *start = start_value(reduction, TUFF_F32);
    tuff__text_add(&texts->clear, "precise vec total%d = SPLAT(%s);\n", n, start);
    tuff__text_add(&texts->reset_vector, "precise vec part%d PART_ARRAY;\nEACH_PART part%d OF_PART = SPLAT(%s);\n", n,
                   n, start);
}

/* The declarations around the loops: partial sums of at most a block of terms, totals, and the result. */
static void emit_frame(emitter *with, const chain_reduction *reduction)
{
    pass_texts *texts = with->texts;
    const int number = reduction->result;
    const tuff_dtype dtype = with->chain->values[number].dtype;
    const char *start = start_value(reduction, dtype), *type = tuff__type_name(dtype, false);
    const bool row = with->walk == WALK_ROW;
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
static void emit_column_frame(emitter *with, const chain_reduction *reduction)
{
    pass_texts *texts = with->texts;
    const int number = reduction->result;
    const tuff_dtype dtype = with->chain->values[number].dtype;
    const char *start = start_value(reduction, dtype), *type = tuff__type_name(dtype, true);
    tuff__text_add(&texts->declare, "%s totals%d VECTOR_ARRAY;\n%s parts%d VECTOR_ARRAY;\n", type, number, type,
                   number);
    tuff__text_add(&texts->clear, "totals%d OF_VECTOR = %sSPLAT(%s);\n", number, tuff__prefix(dtype), start);
    tuff__text_add(&texts->reset_vector, "parts%d OF_VECTOR = %sSPLAT(%s);\n", number, tuff__prefix(dtype), start);
    tuff__text_add(&texts->open, "%s part%d = parts%d OF_VECTOR;\n", type, number, number);
    tuff__text_add(&texts->close, "parts%d OF_VECTOR = part%d;\n", number, number);
    if (reduction->op == OP_SUM)
        tuff__text_add(&texts->add_vector, "totals%d OF_VECTOR = totals%d OF_VECTOR + parts%d OF_VECTOR;\n", number,
                       number, number);
    else
        tuff__text_add(&texts->add_vector, "totals%d OF_VECTOR = %sMAX_v(totals%d OF_VECTOR, parts%d OF_VECTOR);\n",
                       number, tuff__prefix(dtype), number, number);
}

/* What earlier passes reduced, for a vector of columns. */
static void emit_column_results(emitter *with, int pass)
{
    for (int i = 0; i < with->chain->reduction_count; ++i) {
        const chain_reduction *reduction = &with->chain->reductions[i];
        const int number = reduction->result;
        if (reduction->stage < pass)
            tuff__text_add(&with->texts->open, "%s v%d = totals%d OF_VECTOR;\n",
                           tuff__type_name(with->chain->values[number].dtype, true), number, number);
    }
}

/* Rows: the vector's lanes and the tail become one value, then the lanes of the group do (REDUCE_... of the body). */
static void emit_row_result(emitter *with, const chain_reduction *reduction)
{
    const int number = reduction->result;
    const bool sum = reduction->op == OP_SUM;
    const tuff_dtype dtype = with->chain->values[number].dtype;
    text *out = &with->texts->combine;
    tuff__text_add(out, "%s v%d = tail%d;\n", tuff__type_name(dtype, false), number, number);
    if (with->vec > 1 && sum)
        tuff__text_add(out, "v%d = v%d + HSUM(total%d);\n", number, number, number);
    else if (with->vec > 1)
        tuff__text_add(out, "v%d = MAX_1(v%d, HMAX(total%d));\n", number, number, number);
    if (dtype == TUFF_F32)
        tuff__text_add(out, "REDUCE_%s(v%d);\n", sum ? "SUM" : "MAX", number);
}

static void emit_reduction(emitter *with, const chain_reduction *reduction, bool vector)
{
    const tuff_dtype dtype = with->chain->values[reduction->result].dtype;
    const snippet input = tuff__emit_value(with, reduction->input, vector);
    if (vector && with->walk == WALK_ROW) {
        emit_row_reduction(with, reduction, input.text);
        return;
    }
    accumulate(reduction, dtype, vector, "part", reduction->result, input.text,
               vector ? &with->texts->vector : &with->texts->scalar);
    if (vector)
        emit_column_frame(with, reduction);
    else
        emit_frame(with, reduction);
}

static bool is_stored_at_points(const emitter *with, int index, int pass)
{
    const chain_output *output = &with->chain->outputs[index];
    return output->every_point && output->value != NO_VALUE && with->chain->values[output->value].stage == pass;
}

/* Where a map stores over elements that it reads, all that an item reads comes before all that it stores: what one
   result is stored over may be what another is made of. */
static void emit_values_first(emitter *with, int pass)
{
    bool in_place = false;
    for (int i = 0; i < with->chain->buffer_count; ++i)
        in_place |= with->chain->buffers[i].read && with->chain->buffers[i].written;
    for (int i = 0; i < with->chain->output_count && in_place; ++i)
        if (is_stored_at_points(with, i, pass))
            tuff__emit_stored_value(with, i);
}

/* Reductions and every-point stores of one pass in one width. */
static void emit_points(emitter *with, int pass, bool vector)
{
    const fused_chain *chain = with->chain;
    with->vector = vector;
    if (vector && with->walk == WALK_COLUMN)
        emit_column_results(with, pass);
    for (int i = 0; i < chain->reduction_count; ++i)
        if (tuff__reduces_in(with, i, pass) && with->walk != WALK_SCAN)
            emit_reduction(with, &chain->reductions[i], vector);
    if (with->walk == WALK_MAP)
        emit_values_first(with, pass);
    for (int i = 0; i < chain->output_count; ++i) {
        const chain_output *output = &chain->outputs[i];
        if (output->in_columns && pass == tuff__emit_pass_count(with) - 1)
            tuff__emit_column_sum(with, i, vector ? &with->texts->vector : &with->texts->scalar);
        if (is_stored_at_points(with, i, pass))
            tuff__emit_store(with, i, vector ? &with->texts->vector : &with->texts->scalar);
    }
    if (vector && with->walk == WALK_ROW)
        tuff__emit_ahead(with, pass);
    if (vector && with->walk == WALK_MATMUL)
        tuff__emit_asks(with);
}

/* One running sum, stored at every element. */
static void emit_scan(emitter *with)
{
    const chain_reduction *scan = &with->chain->reductions[0];
    const chain_output *output = &with->chain->outputs[0];
    const chain_buffer *buffer = &with->chain->buffers[output->buffer];
    const tuff_dtype dtype = with->chain->values[scan->input].dtype;
    text *out = &with->texts->scalar;
    with->vector = false;
    tuff__text_add(&with->texts->clear, "%s total = %s;\n", tuff__type_name(dtype, false), start_value(scan, dtype));
    const snippet input = tuff__emit_value(with, scan->input, false);
    tuff__text_add(out, "total = total + %s;\n", input.text);
    const snippet where = tuff__emit_address(with, with->chain->value_count, &output->address, output->buffer);
    tuff__text_add(out, "STORE_%s(b%d, %s, total);\n", tuff_dtype_name(buffer->dtype), output->buffer, where.text);
}

enum { TEXT_COUNT = sizeof(pass_texts) / sizeof(text) };

/* pass_texts holds nothing but texts. */
static tuff_status texts_status(const emitter *with)
{
    const text *all = &with->texts->row;
    for (int i = 0; i < TEXT_COUNT; ++i)
        TRY(tuff__text_status(&all[i]));
    return with->status;
}

tuff_status tuff__emit_pass(emitter *with, int pass, emit_mode mode, pass_texts *texts)
{
    with->texts = texts;
    if (with->walk == WALK_SCAN) {
        emit_scan(with);
        return texts_status(with);
    }
    /* Scalar columns keep what does not vary along rows for all passes; a vector of columns comes anew with each. */
    const bool kept = with->walk == WALK_COLUMN && mode == EMIT_SCALAR && pass > 0;
    forget(with, PLACE_ELEMENT | PLACE_LOOP | PLACE_FETCHED | (kept ? 0 : PLACE_RUN) |
                     (pass == 0 && mode == EMIT_SCALAR ? PLACE_ROW | PLACE_INVERSE : 0));
    with->pass = pass;
    /* A result narrower than a vector has none: its address does not even move along the vector axis. */
    const bool narrow = with->walk == WALK_MATMUL && with->chain->extent[with->vector_axis] < with->vec;
    if (mode != EMIT_SCALAR && with->vec > 1 && !narrow)
        emit_points(with, pass, true);
    forget(with, PLACE_ELEMENT);
    if (mode != EMIT_VECTOR)
        emit_points(with, pass, false);
    for (int i = 0; i < with->chain->reduction_count && with->walk == WALK_ROW; ++i)
        if (tuff__reduces_in(with, i, pass))
            emit_row_result(with, &with->chain->reductions[i]);
    return texts_status(with);
}

snippet tuff__emit_form(emitter *with, int value, bool vector, bool gathers, pass_texts *texts)
{
    with->texts = texts;
    with->vector = vector;
    with->gathers = gathers;
    if (gathers)
        memset(with->uniform, 0, (size_t)with->chain->value_count * sizeof *with->uniform);
    forget(with, PLACE_ELEMENT);
    return tuff__emit_value(with, value, vector);
}

tuff_status tuff__emit_finish(emitter *with, bool vector, text *out)
{
    pass_texts texts = {.row = {0}};
    with->texts = &texts;
    with->vector = vector;
    const bool columns = vector && with->walk == WALK_COLUMN;
    forget(with, PLACE_ELEMENT | (columns ? PLACE_RUN : 0));
    if (columns)
        emit_column_results(with, tuff__emit_pass_count(with));
    text stores = {0};
    for (int i = 0; i < with->chain->output_count; ++i)
        if (!with->chain->outputs[i].every_point && !with->chain->outputs[i].in_columns)
            tuff__emit_store(with, i, &stores);
    tuff__text_add(out, "%s%s%s%s%s", tuff__text_get(&texts.open), tuff__text_get(&texts.row),
                   tuff__text_get(&texts.run), tuff__text_get(vector ? &texts.vector : &texts.scalar),
                   tuff__text_get(&stores));
    tuff_status status = texts_status(with);
    if (status == TUFF_OK)
        status = tuff__text_status(&stores);
    tuff__text_free(&stores);
    tuff__pass_texts_free(&texts);
    with->texts = NULL;
    return status;
}

void tuff__pass_texts_free(pass_texts *texts)
{
    text *all = &texts->row;
    for (int i = 0; i < TEXT_COUNT; ++i)
        tuff__text_free(&all[i]);
}
