/* Composites: functions made of the primitives of tuff/ops.h. They need no gradients or kernels of their own: autodiff
   derives the gradients, and the compiler fuses the primitives. Shapes are written as in tuff/ops.h, and as there no
   function returns NULL (tuff_graph_status). */
#ifndef TUFF_NN_H
#define TUFF_NN_H

#include "tuff/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reductions over count axes; keep: reduced axes remain, with extent 1. */
TUFF_API tuff_tensor *tuff_mean(tuff_tensor *x, const int *axes, int count, bool keep);
/* The sum of squared deviations divided by n - correction: 0 for the population, 1 for a sample. */
TUFF_API tuff_tensor *tuff_variance(tuff_tensor *x, const int *axes, int count, bool keep, int correction);
/* The square root of the variance. */
TUFF_API tuff_tensor *tuff_std(tuff_tensor *x, const int *axes, int count, bool keep, int correction);
TUFF_API tuff_tensor *tuff_reduce_min(tuff_tensor *x, const int *axes, int count, bool keep);
/* i32: the index of the first largest element along axis; NaN counts as largest. */
TUFF_API tuff_tensor *tuff_argmax(tuff_tensor *x, int axis, bool keep);
/* indices [...] i32 -> f32 [..., classes]: 1 where the class is the index, else 0. */
TUFF_API tuff_tensor *tuff_one_hot(tuff_tensor *indices, int64_t classes);

TUFF_API tuff_tensor *tuff_relu(tuff_tensor *x);      /* gradient 0 at 0 and at NaN */
TUFF_API tuff_tensor *tuff_gelu(tuff_tensor *x);      /* 0.5 x (1 + erf(x / sqrt 2)) */
TUFF_API tuff_tensor *tuff_gelu_tanh(tuff_tensor *x); /* the tanh form of GPT-2 */
TUFF_API tuff_tensor *tuff_silu(tuff_tensor *x);      /* x sigmoid(x) */
TUFF_API tuff_tensor *tuff_softplus(tuff_tensor *x);  /* log(1 + exp x) */
/* x if x > 0; otherwise alpha (exp x - 1) for elu, slope x for leaky_relu. */
TUFF_API tuff_tensor *tuff_elu(tuff_tensor *x, double alpha);
TUFF_API tuff_tensor *tuff_leaky_relu(tuff_tensor *x, double slope);
TUFF_API tuff_tensor *tuff_clamp(tuff_tensor *x, double low, double high); /* gradient 0 at a bound */
TUFF_API tuff_tensor *tuff_pow_scalar(tuff_tensor *x, double exponent);    /* small integers by multiplication */
TUFF_API tuff_tensor *tuff_swiglu(tuff_tensor *gate, tuff_tensor *up);     /* silu(gate) up */
TUFF_API tuff_tensor *tuff_glu(tuff_tensor *x, int axis);                  /* first half · sigmoid(second half) */
/* Along axis; stable for large elements: the maximum is subtracted first, and no gradient flows through it. If all
   elements are -inf, softmax gives zeros, the other two give -inf, and gradients are zero. */
TUFF_API tuff_tensor *tuff_softmax(tuff_tensor *x, int axis);
TUFF_API tuff_tensor *tuff_log_softmax(tuff_tensor *x, int axis);
TUFF_API tuff_tensor *tuff_logsumexp(tuff_tensor *x, int axis, bool keep);
/* Normalization over the last `trailing` axes, with the biased variance and with eps added under the root. gain and
   bias have the shape of these axes, or are NULL. */
TUFF_API tuff_tensor *tuff_layer_norm(tuff_tensor *x, tuff_tensor *gain, tuff_tensor *bias, int trailing, double eps);
TUFF_API tuff_tensor *tuff_rms_norm(tuff_tensor *x, tuff_tensor *gain, int trailing, double eps);
/* x [N,C,...]: normalization with statistics over each of `groups` equal groups of channels and all further axes; gain
   and bias are [C] or NULL. */
TUFF_API tuff_tensor *tuff_group_norm(tuff_tensor *x, tuff_tensor *gain, tuff_tensor *bias, int groups, double eps);
/* x [..., in] · weight [in, out] + bias [out], which may be NULL -> [..., out]. */
TUFF_API tuff_tensor *tuff_linear(tuff_tensor *x, tuff_tensor *weight, tuff_tensor *bias);
/* Rows of a table: table [V, C], indices [...] i32 -> [..., C]. An index outside 0 .. V-1 gives NaN. */
TUFF_API tuff_tensor *tuff_embedding(tuff_tensor *table, tuff_tensor *indices);
/* Slices along axis, selected by indices [M] i32: gathered into a tensor with extent M along axis, or added to x's
   slices from source, which has extent M along axis. Indices out of range behave as in tuff_gather and
   tuff_scatter_add. */
TUFF_API tuff_tensor *tuff_gather_rows(tuff_tensor *x, tuff_tensor *indices, int axis);
TUFF_API tuff_tensor *tuff_scatter_add_rows(tuff_tensor *x, tuff_tensor *indices, tuff_tensor *source, int axis);
/* Zeroes elements with the given probability, 0 to 1, and divides the others by 1 - probability. Every run draws new
   random numbers (see tuff_graph_step). */
TUFF_API tuff_tensor *tuff_dropout(tuff_tensor *x, double probability);

/* How a rotary position embedding pairs the elements of a head. */
typedef enum tuff_rope_pairs {
    TUFF_ROPE_INTERLEAVED, /* (2i, 2i+1) */
    TUFF_ROPE_HALF         /* (i, i + D/2) */
} tuff_rope_pairs;
/* Rotary position embedding (Su et al. 2021). x [B,T,H,D]; pair i at time t is rotated by the angle (t + offset +
   position) · theta^(-2i/D). position is an i32 tensor of rank 0, or NULL for 0. */
TUFF_API tuff_tensor *tuff_rope(tuff_tensor *x, tuff_rope_pairs pairs, double theta, int64_t offset,
                                tuff_tensor *position);

/* Zero is the default of every field. */
typedef struct tuff_attention_options {
    double scale;      /* 0: 1 / sqrt(Dk) */
    bool causal;       /* query i sees only keys j <= i + Tk - Tq */
    int64_t window;    /* > 0: query i sees only keys j > i + Tk - Tq - window */
    bool no_softmax;   /* scores are used directly; masked ones count as 0 */
    tuff_tensor *bias; /* added to the scores: has q's dtype, broadcasts to [B,H,Tq,Tk], last extent Tk; or NULL */
    double dropout;    /* applied to the probabilities, or to the scores without softmax; 0 to 1 */
    uint32_t reserved[8];
} tuff_attention_options;
/* q [B,Tq,H,Dk], k [B,Tk,Hkv,Dk], v [B,Tk,Hkv,Dv] -> [B,Tq,H,Dv]; head h reads key and value head h / (H / Hkv). A
   query that sees no key, or whose scores are all -inf, gives zeros. The scores are never in memory as a whole: memory
   grows with Tq and Tk, not with their product, apart from a bias and its gradient. (For a single query, and on CPUs
   with Vulkan, scores of up to 64 MiB are kept, which is faster there.) Dropout draws the same numbers as tuff_dropout
   of a [B,H,Tq,Tk] tensor.
   q, k, v and bias have gradients, but no second derivatives. The gradients are computed from an f32 log-sum-exp: if
   all scores of a query are near -10^5, for example, its gradients have a relative error of about 1 %. A bias that
   hides keys from queries whose gradients matter should use -inf, not a large negative number. options may be NULL: the
   defaults, 0. */
TUFF_API tuff_tensor *tuff_attention(tuff_tensor *q, tuff_tensor *k, tuff_tensor *v,
                                     const tuff_attention_options *options);

/* Pairs are rows, then columns. Zero is the default of every field. */
typedef struct tuff_conv2d_options {
    int64_t stride[2], dilation[2]; /* 0: 1 */
    int64_t padding[2];             /* zeros on both sides */
    int64_t groups;                 /* 0: 1 */
    uint32_t reserved[8];
} tuff_conv2d_options;
/* Cross-correlation of images x [N,C,H,W] with weight [O,C/groups,KH,KW], plus bias [O] unless it is NULL ->
   [N,O,OH,OW] with OH = (H + 2 padding - dilation (KH - 1) - 1) / stride + 1, rounded down. Group g of the outputs
   reads group g of the channels; groups must divide C and O. The patches are not stored, but N C KH KW OH OW must be
   less than 2^31. options may be NULL: the defaults. */
TUFF_API tuff_tensor *tuff_conv2d(tuff_tensor *x, tuff_tensor *weight, tuff_tensor *bias,
                                  const tuff_conv2d_options *options);
/* The patches of image [B,C,H,W], each multiplied by weight [D,C,P,Q], plus bias [D] unless it is NULL ->
   [B,H/P·W/Q,D], with patches in row-major order of the image. H must be a multiple of P, W of Q. */
TUFF_API tuff_tensor *tuff_patch_embed(tuff_tensor *image, tuff_tensor *weight, tuff_tensor *bias);

/* Pairs are rows, then columns. Zero is the default of every field but size. */
typedef struct tuff_pool2d_options {
    int64_t size[2];
    int64_t stride[2];    /* 0: size */
    int64_t padding[2];   /* on both sides, less than size */
    bool without_padding; /* averages are over elements of the image only */
    uint32_t reserved[8];
} tuff_pool2d_options;
/* Floats x [N,C,H,W] -> [N,C,OH,OW], with OH = (H + 2 padding - size) / stride + 1, rounded down. Padding counts as
   -inf for the maximum and as 0 for the average. Equal maxima of a window share its gradient; NaN counts as a
   maximum. */
TUFF_API tuff_tensor *tuff_max_pool2d(tuff_tensor *x, const tuff_pool2d_options *options);
TUFF_API tuff_tensor *tuff_avg_pool2d(tuff_tensor *x, const tuff_pool2d_options *options);

/* The k largest elements along axis, largest first. x has floats, i32 or u32; the result has its shape, but extent k
   along axis, which is 1 to that of x. *indices, unless indices is NULL, becomes their positions, i32. NaN counts as
   largest; of equal elements the first comes first. The gradient goes to the selected elements. Work grows with the
   extent times 4 k or 64, whichever is more. TUFF_E_LIMIT if k is more than 11585 and x has more than 46340 elements
   along axis. */
TUFF_API tuff_tensor *tuff_top_k(tuff_tensor *x, int64_t k, int axis, tuff_tensor **indices);

/* logits [N, V], targets [N] i32 -> rank 0: the mean, over targets other than ignore_index, of (1 - smoothing) · -log
   p(target) + smoothing · (mean of -log p over all classes). Any other target outside 0 .. V-1 gives NaN. */
TUFF_API tuff_tensor *tuff_cross_entropy(tuff_tensor *logits, tuff_tensor *targets, int64_t ignore_index,
                                         double smoothing);
TUFF_API tuff_tensor *tuff_mse(tuff_tensor *x, tuff_tensor *target); /* mean of squared differences */

#ifdef __cplusplus
}
#endif
#endif
