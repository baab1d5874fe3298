/* Convolutions as products with patches of the image. The gradients are such products, too: with respect to the image,
   a correlation of the upstream gradient with the reversed kernels; with respect to the kernels, a product with patches
   of the image. They are written here, because the gradients of the parts would store a matrix of patches and add it
   up. */
#include "base/checked.h"
#include "graph/builder.h"
#include "tuff/nn.h"

/* Pairs are for rows, then for columns. */
typedef struct geometry {
    int64_t stride[2], dilation[2], padding[2], groups;
} geometry;

/* Pads rows and columns with zeros; negative numbers crop, in front also zeros that were added behind. */
static tuff_tensor *pad_or_crop(tuff_tensor *x, const int64_t *before, const int64_t *after)
{
    for (int i = 0; i < 2; i++) {
        if (!tuff__is_valid(x))
            return x;
        const int axis = 2 + i;
        const int64_t first = before[i] < 0 ? -before[i] : 0, left = after[i] < 0 ? -after[i] : 0;
        x = tuff__pad_axis(x, axis, before[i] + first, after[i] + left);
        if (tuff__is_valid(x))
            x = tuff__slice_axis(x, axis, first, x->shape.extent[axis] - left, 1);
    }
    return x;
}

/* Returns the patches [N,G,C/G,KH,KW,OH,OW] of x [N,C,H,W]: a view of the padded image. */
static tuff_tensor *extract_patches(tuff_tensor *x, const geometry *conv, const int64_t *size)
{
    x = pad_or_crop(x, conv->padding, conv->padding);
    x = tuff__unfold_node(x, 2, size[0], conv->stride[0], conv->dilation[0]);
    x = tuff__unfold_node(x, 4, size[1], conv->stride[1], conv->dilation[1]);
    if (!tuff__is_valid(x))
        return x;
    const int64_t *e = x->shape.extent;
    x = tuff_reshape(x, TUFF_SHAPE(e[0], conv->groups, e[1] / conv->groups, e[2], e[3], e[4], e[5]));
    return tuff_permute(x, (int[]){0, 1, 2, 4, 6, 3, 5});
}

/* Whether each group has one channel. Its products are then so thin that column sums are the better kernel. */
static bool is_thin(const tuff_tensor *x, const geometry *conv)
{
    return conv->groups > 1 && x->shape.extent[1] == conv->groups;
}

/* Multiplies patches [N,G,C,KH,KW,OH,OW] by kernels [G,O,C,KH,KW] and sums over C, KH and KW: [N,G·O,OH,OW]. */
static tuff_tensor *multiply(tuff_tensor *patches, tuff_tensor *kernels, bool thin)
{
    if (!tuff__is_valid(patches) || !tuff__is_valid(kernels))
        return tuff__is_valid(patches) ? kernels : patches;
    const int64_t *p = patches->shape.extent, *k = kernels->shape.extent;
    const int64_t terms = k[2] * k[3] * k[4], points = p[5] * p[6];
    tuff_tensor *result;
    if (thin) { /* axes stay separate: merging them would make the patches no view */
        patches = tuff_reshape(patches, TUFF_SHAPE(p[0], p[1], 1, p[2], p[3], p[4], p[5], p[6]));
        tuff_tensor *products =
            tuff_mul(patches, tuff_reshape(kernels, TUFF_SHAPE(p[1], k[1], k[2], k[3], k[4], 1, 1)));
        result = tuff_sum(products, (int[]){3, 4, 5}, 3, false);
    } else {
        result = tuff_matmul(tuff_reshape(kernels, TUFF_SHAPE(p[1], k[1], terms)),
                             tuff_reshape(patches, TUFF_SHAPE(p[0], p[1], terms, points)));
    }
    return tuff_reshape(result, TUFF_SHAPE(p[0], p[1] * k[1], p[5], p[6]));
}

/* How one axis of the gradient with respect to the image is computed. Row q·step + r of the padded image sums `taps`
   rows of the upstream gradient, from q backwards, `reach` apart, times every step-th tap of the kernel from r on
   (phase r). step is the stride, or 1 if the upstream gradient is dilated first. With stride 1 the padding is never
   computed: the margin around the upstream gradient is smaller by it. */
typedef struct phases {
    int64_t step, taps, reach, margin, rows, padding;
} phases;

static phases plan_phases(const geometry *conv, int i, int64_t size, int64_t rows)
{
    const bool spread = conv->dilation[i] > 1 && conv->stride[i] > 1;
    phases made = {.step = spread ? 1 : conv->stride[i], .reach = conv->dilation[i]};
    made.taps = tuff__divide_up(size, made.step);
    const int64_t before = (made.taps - 1) * made.reach;
    made.padding = conv->stride[i] == 1 ? 0 : conv->padding[i];
    made.margin = conv->stride[i] == 1 ? before - conv->padding[i] : before;
    made.rows = (spread ? (rows - 1) * conv->stride[i] + 1 : rows) + 2 * made.margin - before;
    return made;
}

/* Rearranges kernels [G·O,C,KH,KW] to those of the gradient [G,C·phases,O,KH',KW']: the taps of each phase, last
   first. */
static tuff_tensor *reverse_kernels(tuff_tensor *weight, int64_t groups, const phases *along)
{
    const int64_t *w = weight->shape.extent, per_group = w[0] / groups, channels = w[1];
    weight = pad_or_crop(weight, (int64_t[]){0, 0},
                         (int64_t[]){along[0].taps * along[0].step - w[2], along[1].taps * along[1].step - w[3]});
    weight = tuff_reshape(
        weight, TUFF_SHAPE(groups, per_group, channels, along[0].taps, along[0].step, along[1].taps, along[1].step));
    weight = tuff__reverse_axis(tuff__reverse_axis(weight, 3), 5);
    weight = tuff_permute(weight, (int[]){0, 2, 4, 6, 1, 3, 5});
    return tuff_reshape(
        weight, TUFF_SHAPE(groups, channels * along[0].step * along[1].step, per_group, along[0].taps, along[1].taps));
}

/* Returns the gradient with respect to the image. Computes step × step phases as channels, then interleaves them. */
static tuff_tensor *image_gradient(tuff_tensor *x, tuff_tensor *weight, const geometry *conv, tuff_tensor *g)
{
    const tuff_shape image = x->shape;
    phases along[2];
    for (int i = 0; i < 2; i++) {
        const int64_t rows = g->shape.extent[2 + i];
        along[i] = plan_phases(conv, i, weight->shape.extent[2 + i], rows);
        if (along[i].step < conv->stride[i] && rows > 1)
            g = tuff__dilate(g, 2 + i, conv->stride[i]);
        if (!tuff__is_valid(g))
            return g;
    }
    const geometry backwards = {.stride = {1, 1},
                                .dilation = {along[0].reach, along[1].reach},
                                .padding = {along[0].margin, along[1].margin},
                                .groups = conv->groups};
    const int64_t taps[2] = {along[0].taps, along[1].taps};
    g = multiply(extract_patches(g, &backwards, taps), reverse_kernels(weight, conv->groups, along), is_thin(x, conv));
    g = tuff_reshape(
        g, TUFF_SHAPE(image.extent[0], image.extent[1], along[0].step, along[1].step, along[0].rows, along[1].rows));
    g = tuff_permute(g, (int[]){0, 1, 4, 2, 5, 3});
    const int64_t rows = along[0].rows * along[0].step, columns = along[1].rows * along[1].step;
    g = tuff_reshape(g, TUFF_SHAPE(image.extent[0], image.extent[1], rows, columns));
    return pad_or_crop(
        g, (int64_t[]){-along[0].padding, -along[1].padding},
        (int64_t[]){image.extent[2] + along[0].padding - rows, image.extent[3] + along[1].padding - columns});
}

/* Returns the gradient with respect to the kernels, over all images at once: each element sums N·OH·OW terms. */
static tuff_tensor *kernel_gradient(tuff_tensor *x, tuff_tensor *weight, const geometry *conv, tuff_tensor *g)
{
    const int64_t *w = weight->shape.extent;
    tuff_tensor *patches = extract_patches(x, conv, w + 2);
    if (!tuff__is_valid(patches))
        return patches;
    const int64_t *p = patches->shape.extent, points = p[5] * p[6], terms = w[1] * w[2] * w[3];
    const int64_t per_group = w[0] / conv->groups;
    if (is_thin(x, conv)) {
        g = tuff_reshape(g, TUFF_SHAPE(p[0], p[1], per_group, 1, 1, 1, p[5], p[6]));
        g = tuff_mul(g, tuff_reshape(patches, TUFF_SHAPE(p[0], p[1], 1, p[2], p[3], p[4], p[5], p[6])));
        return tuff_reshape(tuff_sum(g, (int[]){0, 6, 7}, 3, false), weight->shape);
    }
    g = tuff_permute(tuff_reshape(g, TUFF_SHAPE(p[0], p[1], per_group, points)), (int[]){1, 2, 0, 3});
    g = tuff_reshape(g, TUFF_SHAPE(conv->groups, per_group, p[0] * points));
    patches = tuff_reshape(tuff_permute(patches, (int[]){1, 2, 3, 4, 0, 5, 6}),
                           TUFF_SHAPE(conv->groups, terms, p[0] * points));
    return tuff_reshape(tuff_matmul(g, tuff__is_valid(patches) ? tuff__swap_axes(patches, 1, 2) : patches),
                        weight->shape);
}

static tuff_tensor *correlation_gradient(tuff_tensor *const *inputs, const void *options, tuff_tensor *g, int input)
{
    return input == 0 ? image_gradient(inputs[0], inputs[1], options, g)
                      : kernel_gradient(inputs[0], inputs[1], options, g);
}

static tuff_tensor *build_correlation(tuff_tensor *x, tuff_tensor *weight, const geometry *conv)
{
    const int64_t *w = weight->shape.extent;
    geometry *kept = tuff__arena_alloc(&x->graph->arena, sizeof *kept);
    if (!kept)
        return tuff__graph_out_of_memory(x->graph);
    *kept = *conv;
    tuff_tensor *kernels = tuff_reshape(weight, TUFF_SHAPE(conv->groups, w[0] / conv->groups, w[1], w[2], w[3]));
    return tuff__with_custom_gradient(multiply(extract_patches(x, conv, w + 2), kernels, is_thin(x, conv)),
                                      &(custom_gradient){.inputs = (tuff_tensor *[]){x, weight},
                                                         .input_count = 2,
                                                         .options = kept,
                                                         .gradient = correlation_gradient});
}

/* Whether the operands are float tensors of rank 4 and the same dtype, and not empty. */
static bool operands_fit(const char *op, tuff_tensor *x, tuff_tensor *weight)
{
    if (x->shape.rank != 4 || weight->shape.rank != 4)
        tuff__graph_fail(x->graph, TUFF_E_SHAPE, "%s: %s with kernels %s: both must have rank 4", op,
                         SHAPE_TEXT(x->shape), SHAPE_TEXT(weight->shape));
    else if (x->dtype != weight->dtype || !tuff__dtype_is_float(x->dtype))
        tuff__graph_fail(x->graph, TUFF_E_DTYPE,
                         "%s: %s %s with kernels %s %s: expected the same dtype for both: f32, f16 or bf16", op,
                         tuff_dtype_name(x->dtype), SHAPE_TEXT(x->shape), tuff_dtype_name(weight->dtype),
                         SHAPE_TEXT(weight->shape));
    else if (tuff_shape_count(x->shape) == 0 || tuff_shape_count(weight->shape) == 0)
        tuff__graph_fail(x->graph, TUFF_E_SHAPE, "%s: %s with kernels %s: no extent may be 0", op, SHAPE_TEXT(x->shape),
                         SHAPE_TEXT(weight->shape));
    else
        return true;
    return false;
}

static bool bias_fits(const char *op, tuff_tensor *weight, tuff_tensor *bias)
{
    tuff_tensor *failure;
    if (!bias)
        return true;
    if (!tuff__check_operands(op, (tuff_tensor *[]){weight, bias}, 2, &failure))
        return false;
    if (bias->shape.rank == 1 && bias->shape.extent[0] == weight->shape.extent[0])
        return true;
    tuff__graph_fail(weight->graph, TUFF_E_SHAPE, "%s: the bias %s must have one element for each of the kernels %s",
                     op, SHAPE_TEXT(bias->shape), SHAPE_TEXT(weight->shape));
    return false;
}

/* Sets *out to the options with defaults filled in. Returns false, with the graph's error set, if the operands do not
   fit. */
static bool read_options(tuff_tensor *x, tuff_tensor *weight, const tuff_conv2d_options *options, geometry *out)
{
    static const tuff_conv2d_options defaults = {.groups = 0};
    const tuff_conv2d_options *from = options ? options : &defaults;
    const int64_t *w = weight->shape.extent, channels = x->shape.extent[1];
    *out = (geometry){.groups = from->groups ? from->groups : 1};
    if (out->groups < 1 || channels % out->groups != 0 || w[0] % out->groups != 0 || w[1] != channels / out->groups) {
        tuff__graph_fail(
            x->graph, TUFF_E_SHAPE,
            "conv2d: %s with kernels %s in %lld groups: groups must divide the channels and the kernels, and "
            "each kernel must have channels / groups channels",
            SHAPE_TEXT(x->shape), SHAPE_TEXT(weight->shape), (long long)out->groups);
        return false;
    }
    for (int i = 0; i < 2; i++) {
        out->stride[i] = from->stride[i] ? from->stride[i] : 1;
        out->dilation[i] = from->dilation[i] ? from->dilation[i] : 1;
        out->padding[i] = from->padding[i];
        const int64_t extent = x->shape.extent[2 + i], limit = INT32_MAX / 4;
        const bool legal = out->stride[i] >= 1 && out->dilation[i] >= 1 && out->padding[i] >= 0 &&
                           out->stride[i] <= limit && out->dilation[i] <= limit && out->padding[i] <= limit;
        if (legal && (w[2 + i] - 1) * out->dilation[i] < extent + 2 * out->padding[i])
            continue;
        tuff__graph_fail(x->graph, TUFF_E_SHAPE,
                         "conv2d: %s with kernels %s: stride %lld, dilation %lld and padding %lld along %s %s",
                         SHAPE_TEXT(x->shape), SHAPE_TEXT(weight->shape), (long long)out->stride[i],
                         (long long)out->dilation[i], (long long)out->padding[i], i ? "columns" : "rows",
                         legal ? "leave no room for a kernel" : "are out of range");
        return false;
    }
    return true;
}

tuff_tensor *tuff_conv2d(tuff_tensor *x, tuff_tensor *weight, tuff_tensor *bias, const tuff_conv2d_options *options)
{
    tuff_tensor *failure;
    geometry conv;
    tuff_graph *graph = tuff__check_operands("conv2d", (tuff_tensor *[]){x, weight}, 2, &failure);
    if (!graph || !operands_fit("conv2d", x, weight) || !bias_fits("conv2d", weight, bias) ||
        !read_options(x, weight, options, &conv))
        return failure;
    tuff_tensor *result = build_correlation(x, weight, &conv);
    return bias ? tuff_add(result, tuff_reshape(bias, TUFF_SHAPE(weight->shape.extent[0], 1, 1))) : result;
}

/* Each element is in one patch only, so this is a linear map of a view, and the gradients of the parts serve. */
tuff_tensor *tuff_patch_embed(tuff_tensor *image, tuff_tensor *weight, tuff_tensor *bias)
{
    tuff_tensor *failure;
    tuff_graph *graph = tuff__check_operands("patch_embed", (tuff_tensor *[]){image, weight}, 2, &failure);
    if (!graph || !operands_fit("patch_embed", image, weight) || !bias_fits("patch_embed", weight, bias))
        return failure;
    const int64_t *e = image->shape.extent, *w = weight->shape.extent;
    if (w[1] != e[1] || e[2] % w[2] != 0 || e[3] % w[3] != 0)
        return tuff__graph_fail(graph, TUFF_E_SHAPE,
                                "patch_embed: %s with kernels %s: the channels must be equal, and the rows and columns "
                                "of the image multiples "
                                "of those of a kernel",
                                SHAPE_TEXT(image->shape), SHAPE_TEXT(weight->shape));
    const int64_t rows = e[2] / w[2], columns = e[3] / w[3], terms = w[1] * w[2] * w[3], batch = e[0], width = w[0];
    tuff_tensor *patches = tuff__unfold_node(tuff__unfold_node(image, 2, w[2], w[2], 1), 4, w[3], w[3], 1);
    patches = tuff_reshape(tuff_permute(patches, (int[]){0, 2, 4, 1, 3, 5}), TUFF_SHAPE(batch, rows * columns, terms));
    weight = tuff_reshape(weight, TUFF_SHAPE(width, terms));
    return tuff_linear(patches, tuff__is_valid(weight) ? tuff__swap_axes(weight, 0, 1) : weight, bias);
}
