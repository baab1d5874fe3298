/* Composites: functions over the primitives of ops.h. They need no gradient and no kernel of their own: autodiff gives
   them and the compiler makes one kernel of them. Shapes as in ops.h. */
#ifndef TUFF_NN_H
#define TUFF_NN_H

#include "tuff/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

TUFF_API tuff_tensor *tuff_mean(tuff_tensor *x, const int *axes, int count, bool keep);
/* Divided by n - correction. */
TUFF_API tuff_tensor *tuff_variance(tuff_tensor *x, const int *axes, int count, bool keep, int correction);
/* Square root of the variance. */
TUFF_API tuff_tensor *tuff_std(tuff_tensor *x, const int *axes, int count, bool keep, int correction);
TUFF_API tuff_tensor *tuff_reduce_min(tuff_tensor *x, const int *axes, int count, bool keep);
/* i32: the first index of the largest element; a NaN counts as largest. */
TUFF_API tuff_tensor *tuff_argmax(tuff_tensor *x, int axis, bool keep);
/* f32 [..., classes]: 1 where the class is the index. */
TUFF_API tuff_tensor *tuff_one_hot(tuff_tensor *indices, int64_t classes);

TUFF_API tuff_tensor *tuff_relu(tuff_tensor *x);      /* gradient 0 at 0 */
TUFF_API tuff_tensor *tuff_gelu(tuff_tensor *x);      /* 0.5 x (1 + erf(x / sqrt 2)) */
TUFF_API tuff_tensor *tuff_gelu_tanh(tuff_tensor *x); /* the tanh form of GPT-2 */
TUFF_API tuff_tensor *tuff_silu(tuff_tensor *x);      /* x sigmoid(x) */
TUFF_API tuff_tensor *tuff_softplus(tuff_tensor *x);  /* log(1 + exp x) */
/* x where it is above 0, else alpha (exp x - 1), or slope x. */
TUFF_API tuff_tensor *tuff_elu(tuff_tensor *x, double alpha);
TUFF_API tuff_tensor *tuff_leaky_relu(tuff_tensor *x, double slope);
TUFF_API tuff_tensor *tuff_clamp(tuff_tensor *x, double low, double high); /* gradient 0 at a bound */
TUFF_API tuff_tensor *tuff_pow_scalar(tuff_tensor *x, double exponent);    /* small integers by multiplication */
TUFF_API tuff_tensor *tuff_swiglu(tuff_tensor *gate, tuff_tensor *up);     /* silu(gate) up */
TUFF_API tuff_tensor *tuff_glu(tuff_tensor *x, int axis);                  /* first half · sigmoid(second half) */
/* The largest element is subtracted first, and no gradient goes through it. A row of -inf only: zeros from softmax,
   -inf from the other two, no gradient. */
TUFF_API tuff_tensor *tuff_softmax(tuff_tensor *x, int axis);
TUFF_API tuff_tensor *tuff_log_softmax(tuff_tensor *x, int axis);
TUFF_API tuff_tensor *tuff_logsumexp(tuff_tensor *x, int axis, bool keep);
/* Over the last trailing axes, biased variance, eps inside the root. gain and bias: the trailing shape, or NULL. */
TUFF_API tuff_tensor *tuff_layer_norm(tuff_tensor *x, tuff_tensor *gain, tuff_tensor *bias, int trailing, double eps);
TUFF_API tuff_tensor *tuff_rms_norm(tuff_tensor *x, tuff_tensor *gain, int trailing, double eps);
/* x [N,C,...], statistics over each of groups of channels; gain and bias [C] or NULL. */
TUFF_API tuff_tensor *tuff_group_norm(tuff_tensor *x, tuff_tensor *gain, tuff_tensor *bias, int groups, double eps);
/* x [..., in] · weight [in, out] + bias [out] (or NULL). */
TUFF_API tuff_tensor *tuff_linear(tuff_tensor *x, tuff_tensor *weight, tuff_tensor *bias);
/* table [V, C], indices [...] i32 -> [..., C]. */
TUFF_API tuff_tensor *tuff_embedding(tuff_tensor *table, tuff_tensor *indices);
/* A list of whole slices along axis: indices [M] i32. */
TUFF_API tuff_tensor *tuff_gather_rows(tuff_tensor *x, tuff_tensor *indices, int axis);
TUFF_API tuff_tensor *tuff_scatter_add_rows(tuff_tensor *x, tuff_tensor *indices, tuff_tensor *source, int axis);
/* Zeroes elements with the given probability and divides the others by 1 - probability. Fresh in every run. */
TUFF_API tuff_tensor *tuff_dropout(tuff_tensor *x, double probability);

/* How rotary position embedding pairs the elements of a head. */
typedef enum tuff_rope_pairs {
    TUFF_ROPE_INTERLEAVED, /* (2i, 2i+1) */
    TUFF_ROPE_HALF         /* (i, i + D/2) */
} tuff_rope_pairs;
/* x [B,T,H,D]; the pair i of position t + offset turns by position · theta^(-2i/D). position, an i32 scalar tensor, is
   added to offset where not NULL. Su et al. 2021. */
TUFF_API tuff_tensor *tuff_rope(tuff_tensor *x, tuff_rope_pairs pairs, double theta, int64_t offset,
                                tuff_tensor *position);

/* Zero is default. */
typedef struct tuff_attention_options {
    double scale;      /* 0: 1 / sqrt(Dk) */
    bool causal;       /* query i sees keys j <= i + Tk - Tq */
    int64_t window;    /* > 0: also j > i + Tk - Tq - window */
    bool no_softmax;   /* masked scores count 0 */
    tuff_tensor *bias; /* added to the scores: q's dtype, whatever broadcasts to [B,H,Tq,Tk] and ends in Tk; or NULL */
    double dropout;    /* on the probabilities, or without softmax on the scores; 0 to 1 */
    uint32_t reserved[8];
} tuff_attention_options;
/* q [B,Tq,H,Dk], k [B,Tk,Hkv,Dk], v [B,Tk,Hkv,Dv] -> [B,Tq,H,Dv]; head h reads key and value head h / (H / Hkv).
   A query that sees no key, or whose scores are all -inf, gives zeros. No option needs memory for the scores: what
   there is grows with Tq and Tk, but for a bias and its gradient in the bias's own shape. (Vulkan drivers of CPUs keep
   scores of up to 64 MiB, which is quicker there.) Dropout draws the same numbers as tuff_dropout of [B,H,Tq,Tk]
   would. Has gradients by q, k, v and bias, but no second ones. */
TUFF_API tuff_tensor *tuff_attention(tuff_tensor *q, tuff_tensor *k, tuff_tensor *v,
                                     const tuff_attention_options *options);

/* logits [N, V], targets [N] i32 -> the mean over targets that are not ignore_index, of
   (1 - smoothing) · nll + smoothing · mean over classes of -log p. A target that is no class gives NaN. */
TUFF_API tuff_tensor *tuff_cross_entropy(tuff_tensor *logits, tuff_tensor *targets, int64_t ignore_index,
                                         double smoothing);
TUFF_API tuff_tensor *tuff_mse(tuff_tensor *x, tuff_tensor *target); /* mean of squares */

#ifdef __cplusplus
}
#endif
#endif
