/* Expands a body. Its lines are copied except for directives (@parameters, @shared, @body, @pass ... @end,
   @function ... @end) and placeholders ($name), which are replaced by the statements that emit.c writes. */
#include "kernels/assemble.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/math_sections.h"
#include "kernels/kernel_texts.h"

const char *tuff__kernel_text(const char *file_name)
{
    for (int i = 0; i < tuff__kernel_text_count; ++i)
        if (strcmp(tuff__kernel_texts[i].name, file_name) == 0)
            return tuff__kernel_texts[i].text;
    return NULL;
}

/* A line of a body without its indentation. */
typedef struct line {
    const char *start, *next; /* next: start of the following line, or end of the text */
    size_t length;
    int indentation;
} line;

static line line_at(const char *at)
{
    line result = {.start = at};
    while (*result.start == ' ') {
        ++result.start;
        ++result.indentation;
    }
    const char *end = strchr(result.start, '\n');
    result.length = end == NULL ? strlen(result.start) : (size_t)(end - result.start);
    result.next = end == NULL ? result.start + result.length : end + 1;
    return result;
}

static bool starts_with(const line *parsed, const char *word)
{
    return parsed->length >= strlen(word) && strncmp(parsed->start, word, strlen(word)) == 0;
}

/* Adds statements, one per line, with the indentation of the placeholder that they replace. */
static void add_indented(text *out, const char *statements, int indentation)
{
    while (*statements != 0) {
        const line current = line_at(statements);
        tuff__text_add(out, "%*s%.*s\n", indentation, "", (int)current.length, current.start);
        statements = current.next;
    }
}

typedef struct expansion {
    const assembly_request *request;
    emitter emitter;
    pass_texts consume;  /* matmul epilogue: emitted before the tile is known, inserted later */
    bool has_consume;    /* consume is emitted */
    int parameter_count; /* parameters of the function expanded so far */
    text *header;        /* text outside the kernel function */
    text *shared;        /* declarations of local memory */
    text *body;          /* of the kernel function, or `header` within another one */
    text *kernel;        /* the kernel function's */
} expansion;

static const text *text_named(const pass_texts *texts, const line *placeholder)
{
    const struct {
        const char *name;
        const text *text;
    } all[] = {{"$row", &texts->row},
               {"$run", &texts->run},
               {"$vector", &texts->vector},
               {"$scalar", &texts->scalar},
               {"$declare", &texts->declare},
               {"$each_run", &texts->each_run},
               {"$open", &texts->open},
               {"$fetch", &texts->fetch},
               {"$close", &texts->close},
               {"$clear", &texts->clear},
               {"$reset_vector", &texts->reset_vector},
               {"$reset_scalar", &texts->reset_scalar},
               {"$add_vector", &texts->add_vector},
               {"$add_scalar", &texts->add_scalar},
               {"$combine", &texts->combine}};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
        if (placeholder->length == strlen(all[i].name) && starts_with(placeholder, all[i].name))
            return all[i].text;
    return NULL;
}

/* Adds a text in place of a placeholder, and frees it. Returns `status`, or the text's own failure. */
static tuff_status insert(const expansion *self, text *made, int indentation, tuff_status status)
{
    add_indented(self->body, tuff__text_get(made), indentation);
    if (status == TUFF_OK)
        status = tuff__text_status(made);
    tuff__text_free(made);
    return status;
}

/* Expands `$operands` of a matmul: the operands' addresses and, the first time, whatever the epilogue computes once for
   all elements. */
static tuff_status expand_operands(expansion *self, int indentation)
{
    text made = {0};
    tuff__emit_coordinates(&self->emitter, "U_TO_I_1(batch)", &made);
    for (int i = 0; i < self->request->chain->operand_base_count; ++i)
        tuff__emit_operand(&self->emitter, i, &made);
    tuff_status status = TUFF_OK;
    for (int i = 0; i < 2 && status == TUFF_OK; ++i)
        if (tuff__is_produced(self->request->chain, i))
            status = tuff__assemble_producer(self->request, i, &self->emitter, &made, self->header);
    const bool consumes = !self->has_consume && self->request->chain->output_count > 0;
    if (status == TUFF_OK && consumes)
        status = tuff__emit_pass(&self->emitter, 0, EMIT_BOTH, &self->consume);
    status = insert(self, &made, indentation, status);
    if (!self->has_consume)
        add_indented(self->body, tuff__text_get(&self->consume.row), indentation);
    self->has_consume = true;
    return status;
}

/* Expands a placeholder outside of passes. */
static tuff_status expand_placeholder(expansion *self, const line *placeholder)
{
    if (starts_with(placeholder, "$operands"))
        return expand_operands(self, placeholder->indentation);
    const text *consumed = starts_with(placeholder, "$consume_vector")   ? &self->consume.vector
                           : starts_with(placeholder, "$consume_scalar") ? &self->consume.scalar
                           : starts_with(placeholder, "$prefetch")       ? &self->consume.prefetch
                                                                         : NULL;
    if (consumed != NULL) {
        add_indented(self->body, tuff__text_get(consumed), placeholder->indentation);
        return TUFF_OK;
    }
    text made = {0};
    tuff_status status = TUFF_OK;
    if (starts_with(placeholder, "$coordinates"))
        tuff__emit_coordinates(&self->emitter, "row", &made);
    else
        status = tuff__emit_finish(&self->emitter, starts_with(placeholder, "$finish_vector"), &made);
    return insert(self, &made, placeholder->indentation, status);
}

/* Expands the lines between @pass and @end for one pass. */
static tuff_status expand_pass(expansion *self, const char *from, const char *until, int pass, emit_mode mode)
{
    pass_texts texts = {.row = {0}};
    tuff_status status = tuff__emit_pass(&self->emitter, pass, mode, &texts);
    for (const char *at = from; at < until && status == TUFF_OK;) {
        const line current = line_at(at);
        const text *named = text_named(&texts, &current);
        if (named != NULL) {
            add_indented(self->body, tuff__text_get(named), current.indentation);
        } else if (starts_with(&current, "$loop")) {
            text loops = {0};
            tuff__emit_loop_coordinates(&self->emitter, "run", &loops);
            status = insert(self, &loops, current.indentation, TUFF_OK);
        } else {
            tuff__text_add(self->body, "%*s%.*s\n", current.indentation, "", (int)current.length, current.start);
        }
        at = current.next;
    }
    tuff__pass_texts_free(&texts);
    return status;
}

/* Expands all passes of a section and sets *next to its end. */
static tuff_status expand_passes(expansion *self, const line *directive, const char **next)
{
    const char *end = strstr(directive->next, "@end\n");
    if (end == NULL)
        return FAIL(TUFF_E_COMPILE, "kernels: %s.k: @pass without @end", self->request->body);
    const emit_mode mode = starts_with(directive, "@pass vector")   ? EMIT_VECTOR
                           : starts_with(directive, "@pass scalar") ? EMIT_SCALAR
                                                                    : EMIT_BOTH;
    const int passes = tuff__chain_pass_count(self->emitter.chain);
    for (int pass = 0; pass < passes; ++pass)
        TRY(expand_pass(self, directive->next, end, pass, mode));
    *next = end + strlen("@end\n");
    return TUFF_OK;
}

/* Writes `const int name = PARAM(i);` for each name of the directive. A body may have several such directives. */
static tuff_status expand_parameters(expansion *self, const line *directive)
{
    const char *c = directive->start + strlen("@parameters"), *end = directive->start + directive->length;
    while (c < end) {
        while (c < end && *c == ' ')
            ++c;
        size_t length = 0;
        while (c + length < end && c[length] != ' ')
            ++length;
        if (length == 0)
            break;
        if (self->parameter_count >= self->request->parameter_count)
            return FAIL(TUFF_E_COMPILE, "kernels: %s.k declares more parameters than were passed", self->request->body);
        const int number = tuff__emit_parameter(&self->emitter, self->request->parameters[self->parameter_count++]);
        tuff__text_add(self->body, "    const int %.*s = PARAM(%d);\n", (int)length, c, number);
        c += length;
    }
    return TUFF_OK;
}

static void expand_shared(expansion *self, const line *directive)
{
    const char *declaration = directive->start + strlen("@shared ");
    const int length = (int)(directive->length - strlen("@shared "));
    if (self->request->glsl)
        tuff__text_add(self->shared, "shared %.*s;\n", length, declaration);
    else
        tuff__text_add(self->shared, "    __local %.*s;\n", length, declaration);
}

/* Begins or ends a function outside of the kernel function; it has the same parameters in the same order. */
static void enter_function(expansion *self, text *body)
{
    self->body = body;
    self->parameter_count = 0;
}

static tuff_status expand_body(expansion *self, const char *body)
{
    bool inside = false;
    for (const char *at = body; *at != 0;) {
        const line current = line_at(at);
        at = current.next;
        if (starts_with(&current, "@parameters"))
            TRY(expand_parameters(self, &current));
        else if (starts_with(&current, "@shared"))
            expand_shared(self, &current);
        else if (starts_with(&current, "@body"))
            inside = true;
        else if (starts_with(&current, "@pass"))
            TRY(expand_passes(self, &current, &at));
        else if (starts_with(&current, "@function"))
            enter_function(self, self->header);
        else if (starts_with(&current, "@end"))
            enter_function(self, self->kernel);
        else if (current.length > 0 && current.start[0] == '$')
            TRY(expand_placeholder(self, &current));
        else
            tuff__text_add(inside ? self->body : self->header, "%*s%.*s\n", current.indentation, "",
                           (int)current.length, current.start);
    }
    TRY(self->emitter.status);
    TRY(tuff__text_status(self->header));
    TRY(tuff__text_status(self->shared));
    return tuff__text_status(self->body);
}

const char *tuff__memory_type(tuff_dtype dtype, const assembly_request *request)
{
    static const char *const opencl[] = {"float", "ushort", "ushort", "int", "uint", "char", "uchar", "uchar"};
    static const char *const glsl[] = {"float", "uint16_t", "uint16_t", "int", "uint", "int8_t", "uint8_t", "uint8_t"};
    if (!request->glsl)
        return opencl[dtype];
    return tuff_dtype_size(dtype) < 4 && !request->narrow_storage ? "uint" : glsl[dtype];
}

/* Returns the type for accessing four elements of a buffer at once, or NULL if that is impossible. */
static const char *glsl_vector(const assembly_request *request, tuff_dtype dtype)
{
    if (request->vec == 1 || tuff_dtype_size(dtype) == 1)
        return NULL;
    return dtype == TUFF_F32 ? "vec4" : dtype == TUFF_I32 ? "ivec4" : dtype == TUFF_U32 ? "uvec4" : "uvec2";
}

/* What kinds of buffers a kernel has. */
typedef struct buffer_uses {
    bool narrow, halves_stored, streamed;
} buffer_uses;

static buffer_uses find_uses(const assembly_request *request)
{
    buffer_uses found = {.narrow = false};
    for (int i = 0; i < request->buffer_count; ++i) {
        const chain_buffer *buffer = &request->buffers[i];
        found.narrow |= tuff_dtype_size(buffer->dtype) == 2;
        found.halves_stored |= buffer->written && buffer->dtype == TUFF_F16;
        found.streamed |= buffer->streamed;
    }
    return found;
}

static void add_glsl_buffers(const assembly_request *request, text *out)
{
    tuff__text_add(out, "layout(std430, set = 0, binding = 0) readonly buffer P_ { int p[]; };\n");
    for (int i = 0; i < request->buffer_count; ++i) {
        const chain_buffer *buffer = &request->buffers[i];
        const char *access = buffer->written ? "" : "readonly ";
        tuff__text_add(out, "layout(std430, set = 0, binding = %d) %sbuffer B%d_ { %s b%d[]; };\n", i + 1, access, i,
                       tuff__memory_type(buffer->dtype, request), i);
        const char *vector = glsl_vector(request, buffer->dtype);
        if (vector != NULL)
            tuff__text_add(out, "layout(std430, set = 0, binding = %d) %sbuffer B%dv_ { %s b%d_v[]; };\n", i + 1,
                           access, i, vector, i);
        if ((request->cooperative > 0 || request->pairs) && !buffer->written && vector != NULL)
            tuff__text_add(out, "layout(std430, set = 0, binding = %d) readonly buffer B%dq_ { uvec4 b%d_q[]; };\n",
                           i + 1, i, i);
    }
    tuff__text_add(out, "layout(push_constant) uniform Words_ { uint param_base, group_base; };\n");
}

/* Whether the body multiplies bf16 on matrix units: then the extension must precede the first declaration. */
static bool has_bf16_factors(const assembly_request *request)
{
    return request->defines != NULL && strstr(request->defines, "#define MATRIX_BF16 1\n") != NULL;
}

static void add_glsl_header(const assembly_request *request, text *out)
{
    tuff__text_add(out, "#version 450\n#extension GL_EXT_control_flow_attributes : enable\n");
    if (request->narrow_storage)
        tuff__text_add(
            out, "#extension GL_EXT_shader_16bit_storage : enable\n#extension GL_EXT_shader_8bit_storage : enable\n"
                 "#define NARROW_STORAGE\n");
    if (request->subgroup_size > 0 && request->cooperative == 0)
        tuff__text_add(out, "#extension GL_KHR_shader_subgroup_shuffle : require\n");
    if (request->cooperative > 0 && has_bf16_factors(request))
        tuff__text_add(out, "#extension GL_EXT_bfloat16 : require\n");
    const char *form = request->cooperative == TUFF_MATRIX_NV ? "NV" : "KHR";
    if (request->cooperative > 0)
        tuff__text_add(out,
                       "#extension GL_%s_cooperative_matrix : require\n#extension GL_KHR_memory_scope_semantics : "
                       "require\n#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require\n"
                       "#extension GL_KHR_shader_subgroup_basic : require\n#define COOPERATIVE_%s\n%s",
                       form, form,
                       request->cooperative == TUFF_MATRIX_NV2 ? "#extension GL_NV_cooperative_matrix2 : require\n"
                                                               : "");
    tuff__text_add(out, "layout(local_size_x = %u) in;\n", request->local_size);
}

static void add_opencl_signature(const assembly_request *request, text *out)
{
    tuff__text_add(out,
                   "__kernel SUBGROUP __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))\n"
                   "void %s(__global const int *restrict p",
                   request->name);
    for (int i = 0; i < request->buffer_count; ++i) {
        const chain_buffer *buffer = &request->buffers[i];
        tuff__text_add(out, ",\n    __global %s%s *%sb%d", buffer->written ? "" : "const ",
                       tuff__memory_type(buffer->dtype, request), buffer->read && buffer->written ? "" : "restrict ",
                       i);
    }
    tuff__text_add(out, ",\n    uint param_base, uint group_base)\n");
}

/* Adds the implementation of the body's matrix blocks in the instructions of the device. */
static tuff_status add_matrix_units(const assembly_request *request, text *out)
{
    static const char *const files[] = {
        [TUFF_MATRIX_NV] = "matrix.glsl",           [TUFF_MATRIX_KHR] = "matrix.glsl",
        [TUFF_MATRIX_NVIDIA] = "matrix_nvidia.cl",  [TUFF_MATRIX_MFMA] = "matrix_amd.cl",
        [TUFF_MATRIX_WMMA] = "matrix_amd.cl",       [TUFF_MATRIX_INTEL] = "matrix_intel.cl",
        [TUFF_MATRIX_NV2] = "matrix_workgroup.glsl"};
    const bool is_glsl = request->cooperative <= TUFF_MATRIX_KHR || request->cooperative == TUFF_MATRIX_NV2;
    const char *file = request->cooperative < sizeof files / sizeof *files ? files[request->cooperative] : NULL;
    const char *common = request->glsl ? "" : tuff__kernel_text("matrix.cl"),
               *tiles = request->glsl ? "" : tuff__kernel_text("matrix_tiles.cl"),
               *units = file ? tuff__kernel_text(file) : NULL;
    if (common == NULL || tiles == NULL || units == NULL || request->glsl != is_glsl)
        return FAIL(TUFF_E_UNSUPPORTED, "kernels: no kernel text for matrix units of form %u", request->cooperative);
    tuff__text_add(out, "%s%s%s", common, units, tiles);
    return TUFF_OK;
}

static tuff_status compose(const expansion *self, text *out)
{
    const assembly_request *request = self->request;
    const buffer_uses uses = find_uses(request);
    const char *prelude = tuff__kernel_text(request->glsl ? "prelude.glsl" : "prelude.cl");
    if (prelude == NULL)
        return FAIL(TUFF_E_UNSUPPORTED, "kernels: this build contains no %s kernels",
                    request->glsl ? "GLSL" : "OpenCL C");
    if (request->glsl)
        add_glsl_header(request, out);
    if (request->subgroup_size > 0)
        tuff__text_add(out, "#define SUBGROUP_WIDTH %u\n", request->subgroup_size);
    tuff__text_add(out, "#define LOCAL_SIZE %u\n#define VEC %d\n%s%s", request->local_size, request->vec,
                   uses.streamed ? "#define STREAMS\n" : "", request->defines == NULL ? "" : request->defines);
    if (request->glsl)
        add_glsl_buffers(request, out);
    tuff__text_add_bytes(out, prelude, strlen(prelude));
    if (request->glsl && request->vec > 1 && uses.narrow)
        tuff__text_add(out, "%s", tuff__kernel_text("narrow_vectors.glsl"));
    if (!request->glsl && request->vec > 4 && uses.halves_stored && !request->aligned)
        tuff__text_add(out, "%s", tuff__kernel_text("narrow_vectors.cl"));
    if (request->exchange_form > 0)
        tuff__text_add(out, "%s", tuff__kernel_text(request->glsl ? "exchange.glsl" : "exchange.cl"));
    if (request->cooperative > 0)
        TRY(add_matrix_units(request, out));
    if (request->aligned && !request->glsl)
        tuff__text_add(out, "%s", tuff__kernel_text("aligned_vectors.cl"));
    if (request->pairs)
        tuff__text_add(out, "%s", tuff__kernel_text(request->glsl ? "narrow_pairs.glsl" : "narrow_pairs.cl"));
    text used = {0};
    tuff__text_add(&used, "%s%s%s", tuff__text_get(self->header), tuff__text_get(self->body),
                   request->defines == NULL ? "" : request->defines);
    tuff_status status = tuff__text_status(&used);
    if (status == TUFF_OK)
        status = tuff__append_math_sections(tuff__text_get(&used), request->vec > 1, out);
    tuff__text_free(&used);
    tuff__text_add(out, "%s", tuff__text_get(self->header));
    if (request->glsl)
        tuff__text_add(out, "%svoid main()\n{\n", tuff__text_get(self->shared));
    else
        add_opencl_signature(request, out);
    if (!request->glsl)
        tuff__text_add(out, "{\n%s", tuff__text_get(self->shared));
    tuff__text_add(out, "%s}\n", tuff__text_get(self->body));
    return status == TUFF_OK ? tuff__text_status(out) : status;
}

/* Copies a body and, in place of its `@include NAME` lines, the texts that it shares with other bodies. Included texts
   include no others. */
static tuff_status resolve_includes(const char *body, text *out)
{
    for (const char *at = body; *at != 0;) {
        const line current = line_at(at);
        const char *added = at;
        size_t size = (size_t)(current.next - at);
        if (starts_with(&current, "@include ")) {
            char name[64];
            const size_t skipped = strlen("@include ");
            (void)snprintf(name, sizeof name, "%.*s", (int)(current.length - skipped), current.start + skipped);
            added = tuff__kernel_text(name);
            if (added == NULL)
                return FAIL(TUFF_E_COMPILE, "kernels: cannot include %s: no such text", name);
            size = strlen(added);
        }
        tuff__text_add_bytes(out, added, size);
        at = current.next;
    }
    return tuff__text_status(out);
}

tuff_status tuff__assemble(const assembly_request *request, assembly *out)
{
    static const fused_chain empty = {.rank = 0};
    char file[64];
    snprintf(file, sizeof file, "%s.k", request->body);
    const char *body = tuff__kernel_text(file);
    *out = (assembly){.parameters = NULL};
    if (body == NULL)
        return FAIL(TUFF_E_UNSUPPORTED, "kernels: unknown body %s", file);
    text texts[4] = {{0}};
    expansion self = {
        .request = request, .header = &texts[0], .shared = &texts[1], .body = &texts[2], .kernel = &texts[2]};
    tuff_status status = tuff__emitter_create(request->chain == NULL ? &empty : request->chain, request->walk,
                                              request->vec, request->glsl || request->aligned, &self.emitter);
    self.emitter.prefetches = request->prefetches;
    if (status == TUFF_OK)
        tuff__find_kept_values(&self.emitter, request->private_bytes, request->row_steps);
    if (status == TUFF_OK)
        status = resolve_includes(body, &texts[3]);
    if (status == TUFF_OK)
        status = expand_body(&self, tuff__text_get(&texts[3]));
    if (status == TUFF_OK)
        status = compose(&self, &out->source);
    if (status == TUFF_OK) {
        out->parameters = self.emitter.parameters;
        out->parameter_count = self.emitter.parameter_count;
        self.emitter.parameters = NULL;
    } else {
        tuff__assembly_free(out);
    }
    for (int i = 0; i < 4; ++i)
        tuff__text_free(&texts[i]);
    tuff__pass_texts_free(&self.consume);
    tuff__emitter_free(&self.emitter);
    return status;
}

tuff_status tuff__count_row_bytes(const fused_chain *chain, int vec, int private_bytes, int row_steps, int *bytes)
{
    emitter self;
    TRY(tuff__emitter_create(chain, WALK_ROW, vec, false, &self));
    tuff__find_kept_values(&self, private_bytes, row_steps);
    const int vector = vec * (int)sizeof(float);
    *bytes = 0;
    for (int i = 0; i < chain->value_count; ++i)
        if (self.states[i].kept)
            *bytes += vector * row_steps;
        else if (self.states[i].first_pass >= 0 && chain->values[i].kind == VALUE_LOAD)
            *bytes += vector;
    tuff__emitter_free(&self);
    return TUFF_OK;
}

void tuff__assembly_free(assembly *self)
{
    tuff__text_free(&self->source);
    tuff__free(self->parameters);
    *self = (assembly){.parameters = NULL};
}
