/* Writes matmul operands that are computed where they are loaded, as functions of their own rows and columns. Functions
   of OpenCL C cannot see the variables of the kernel that calls them, so macros pass them what they need. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/assemble.h"
#include "kernels/emit_value.h"

typedef struct form {
    const char *suffix, *type, *column; /* column: type of the column coordinate */
    bool vector, gathers;
} form;

static const form forms[] = {
    {"", "float", "int", false, false}, {"V", "vec", "int", true, false}, {"I", "vec", "ivec", true, true}};

/* Copies the chain with the operand's rows and columns in place of the result's, swapped if the producer is transposed.
   Values keep their numbers. */
static tuff_status make_producer_chain(const fused_chain *chain, int operand, fused_chain *out)
{
    const chain_producer *producer = &chain->producers[operand];
    *out = *chain;
    out->output_count = out->reduction_count = out->operand_base_count = 0;
    out->values = tuff__alloc((size_t)producer->end * sizeof *out->values);
    out->value_count = out->value_capacity = producer->end;
    if (out->values == NULL)
        return TUFF_E_OOM_HOST;
    memcpy(out->values, chain->values, (size_t)producer->end * sizeof *out->values);
    out->rank = producer->axis + 2;
    for (int i = 0; i < 2; ++i) {
        out->classes[producer->axis + i] = i == 0 ? AXIS_ROW : AXIS_COLUMN;
        out->extent[producer->axis + i] = producer->extent[producer->transposed ? 1 - i : i];
    }
    for (int i = producer->begin; i < producer->end && producer->transposed; ++i) {
        int64_t *strides = out->values[i].address.stride + producer->axis;
        const int64_t first = strides[0];
        strides[0] = strides[1];
        strides[1] = first;
    }
    tuff__chain_analyse(out);
    return TUFF_OK;
}

/* Lists what is passed to the functions, either as parameters with types or as arguments: the buffers that they read,
   and the names declared by lines like `const int a5 = ...;`. */
static void list_captures(const assembly_request *request, const fused_chain *chain, int begin, const char *lines,
                          bool types, text *out)
{
    for (int i = 0; i < request->buffer_count && !request->glsl; ++i) {
        bool used = false;
        for (int k = begin; k < chain->value_count; ++k)
            used |= chain->values[k].buffer == i;
        if (used && types)
            tuff__text_add(out, ", __global const %s *b%d", tuff__memory_type(request->buffers[i].dtype, request), i);
        else if (used)
            tuff__text_add(out, ", b%d", i);
    }
    if (!request->glsl)
        tuff__text_add(out, types ? ", __global const int *p, uint param_base" : ", p, param_base");
    for (const char *at = lines; *at != 0; at = strchr(at, '\n') + 1) {
        char type[16], name[24], *space;
        at += strncmp(at, "const ", 6) == 0 ? 6 : 0;
        at += strncmp(at, "precise ", 8) == 0 ? 8 : 0;
        snprintf(type, sizeof type, "%s", at);
        if ((space = strchr(type, ' ')) == NULL)
            continue;
        *space = 0;
        snprintf(name, sizeof name, "%s", at + strlen(type) + 1);
        if ((space = strchr(name, ' ')) == NULL)
            continue;
        *space = 0;
        tuff__text_add(out, ", %s%s%s", types ? type : "", types ? " " : "", name);
    }
}

/* The statements of a form, and the expression of its result. */
typedef struct function {
    text statements;
    snippet result;
} function;

static void add_function(const assembly_request *request, const fused_chain *chain, int operand, const form *as,
                         const function *made, const char *shared, text *out)
{
    const char *name = request->chain->operand_names[operand];
    const int begin = request->chain->producers[operand].begin;
    tuff__text_add(out, "FUNCTION %s produce%s_%s(int row, %s column", as->type, as->suffix, name, as->column);
    list_captures(request, chain, begin, shared, true, out);
    tuff__text_add(out, ")\n{\n%s    return %s;\n}\n", tuff__text_get(&made->statements), made->result.text);
    tuff__text_add(out, "#define PRODUCE%s_%s(row, column) produce%s_%s(row, column", as->suffix, name, as->suffix,
                   name);
    list_captures(request, chain, begin, shared, false, out);
    tuff__text_add(out, ")\n");
}

enum { FORMS = sizeof forms / sizeof forms[0] };

static bool is_used(const assembly_request *request, int operand, const form *variant)
{
    char macro[32];
    snprintf(macro, sizeof macro, "PRODUCE%s_%s(", variant->suffix, request->chain->operand_names[operand]);
    return request->defines != NULL && strstr(request->defines, macro) != NULL;
}

/* The functions are written only after the statements of all forms, since what the forms share grows with each. */
static tuff_status add_functions(const assembly_request *request, int operand, emitter *self, text *into_body,
                                 text *into_header)
{
    pass_texts texts = {.row = {0}};
    function made[FORMS] = {{.statements = {0}}};
    tuff_status status = TUFF_OK;
    for (int i = 0; i < FORMS; ++i) {
        if (!is_used(request, operand, &forms[i]))
            continue;
        const int value = request->chain->producers[operand].value;
        made[i].result = tuff__emit_form(self, value, forms[i].vector, forms[i].gathers, &texts);
        text *statements = forms[i].vector ? &texts.vector : &texts.scalar;
        made[i].statements = *statements;
        *statements = (text){0};
    }
    for (int i = 0; i < FORMS; ++i) {
        if (is_used(request, operand, &forms[i]))
            add_function(request, self->chain, operand, &forms[i], &made[i], tuff__text_get(&texts.row), into_header);
        if (status == TUFF_OK)
            status = tuff__text_status(&made[i].statements);
        tuff__text_free(&made[i].statements);
    }
    tuff__text_add(into_body, "%s", tuff__text_get(&texts.row));
    if (status == TUFF_OK)
        status = tuff__text_status(&texts.row);
    tuff__pass_texts_free(&texts);
    return status == TUFF_OK ? self->status : status;
}

/* Moves the parameters to another emitter, which continues their numbering. */
static void move_parameters(emitter *from, emitter *to)
{
    to->parameters = from->parameters;
    to->parameter_count = from->parameter_count;
    to->parameter_capacity = from->parameter_capacity;
    from->parameters = NULL;
    from->parameter_count = from->parameter_capacity = 0;
}

tuff_status tuff__assemble_producer(const assembly_request *request, int operand, emitter *self, text *into_body,
                                    text *into_header)
{
    fused_chain chain;
    emitter own = {.chain = NULL};
    tuff_status status = make_producer_chain(request->chain, operand, &chain);
    if (status == TUFF_OK)
        status = tuff__emitter_create(&chain, WALK_MATMUL, request->vec, request->glsl || request->aligned, &own);
    if (status == TUFF_OK) {
        move_parameters(self, &own);
        status = add_functions(request, operand, &own, into_body, into_header);
        move_parameters(&own, self);
        tuff__emitter_free(&own);
    }
    tuff__chain_free(&chain);
    return status;
}
