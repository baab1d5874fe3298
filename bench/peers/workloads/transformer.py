"""Post-norm encoder layers like those of PyTorch's library, with named parameters, for the sequence and language
models."""

import math

import torch
from torch.nn import functional

from workload import uniform

NAMES = ("in_proj.weight", "in_proj.bias", "out_proj.weight", "out_proj.bias", "ln1.gain", "ln1.bias",
         "W1", "b1", "W2", "b2", "ln2.gain", "ln2.bias")


def layer_parameters(generator, D, F):
    """Returns the library's own initial values."""
    return {
        "in_proj.weight": uniform(generator, math.sqrt(6 / (4 * D)), 3 * D, D),
        "in_proj.bias": torch.zeros(3 * D),
        "out_proj.weight": uniform(generator, 1 / math.sqrt(D), D, D),
        "out_proj.bias": torch.zeros(D),
        "ln1.gain": torch.ones(D),
        "ln1.bias": torch.zeros(D),
        "W1": uniform(generator, 1 / math.sqrt(D), F, D),
        "b1": uniform(generator, 1 / math.sqrt(D), F),
        "W2": uniform(generator, 1 / math.sqrt(F), D, F),
        "b2": uniform(generator, 1 / math.sqrt(F), D),
        "ln2.gain": torch.ones(D),
        "ln2.bias": torch.zeros(D),
    }


def norm(x, p, name):
    return functional.layer_norm(x, [x.shape[-1]], p[name + ".gain"], p[name + ".bias"], 1e-5)


def library_attention(x, p, heads, dropout, mask, need_weights):
    """Calls what nn.MultiheadAttention calls. x is [B, S, D]."""
    turned = x.transpose(0, 1)
    out, _ = functional.multi_head_attention_forward(
        turned, turned, turned, x.shape[-1], heads, p["in_proj.weight"], p["in_proj.bias"], None, None, False, dropout,
        p["out_proj.weight"], p["out_proj.bias"], training=True, need_weights=need_weights, attn_mask=mask)
    return out.transpose(0, 1)


def plain_attention(x, p, heads, dropout):
    """Computes queries, keys and values in one product, and attention on strided heads. x is [B, S, D]."""
    B, S, D = x.shape
    qkv = functional.linear(x, p["in_proj.weight"], p["in_proj.bias"]).view(B, S, 3, heads, D // heads)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    out = functional.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
    return functional.linear(out.transpose(1, 2).reshape(B, S, D), p["out_proj.weight"], p["out_proj.bias"])


def layer(x, p, attended, drop):
    """Computes the rest of a layer from the result of its attention."""
    h = norm(x + drop(attended), p, "ln1")
    inner = drop(functional.gelu(functional.linear(h, p["W1"], p["b1"])))
    return norm(h + drop(functional.linear(inner, p["W2"], p["b2"])), p, "ln2")


def causal_mask(S):
    return torch.triu(torch.ones(S, S), 1).bool()
