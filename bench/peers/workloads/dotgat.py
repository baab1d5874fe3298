"""DynamicDotGAT: agents with causal memory attention and social graph attention (examples/dotgat.c)."""

import math

import torch
from torch.nn import functional

from workload import Form, normal, uniform

SIZES = dict(B=16, T=24, A=8, M=16, H=64, n=4, S=3, k=4, seen=4)
OPTIMIZER = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
EPSILON = 1.1920928955078125e-7


def ties(sizes):
    """Returns the neighbours on the ring, [A, A]."""
    A = sizes["A"]
    reach = min(sizes["k"], max(1, A - 1)) // 2
    apart = (torch.arange(A)[:, None] - torch.arange(A)).abs()
    distance = torch.minimum(apart, A - apart)
    return (distance >= 1) & (distance <= reach)


def parameters(sizes, generator):
    A, M, H = sizes["A"], sizes["M"], sizes["H"]
    gain, xavier = math.sqrt(2 / (1 + 1.5**2)), math.sqrt(3 / H)
    made = dict(W_embed=normal(generator, gain / math.sqrt(M), A, M, H))
    for name in ("mem", "soc"):
        made[f"Wq_{name}"] = uniform(generator, xavier, A, H, H)
        made[f"Wk_{name}"] = uniform(generator, xavier, A, H, H)
        made[f"Wv_{name}_shared"] = uniform(generator, 1 / math.sqrt(H), H, H)
    made["bias_param"] = torch.zeros(int(ties(sizes).sum()))
    for i in (1, 2):
        made[f"W{i}"] = normal(generator, gain / math.sqrt(H), A, H, H)
        made[f"b{i}"] = torch.zeros(A, H)
    for name in ("prenorm", "memnorm", "socnorm", "mlpnorm", "prednorm"):
        made[name + ".gain"] = torch.ones(H)
    made["W_dec"] = uniform(generator, math.sqrt(6 / (H + 1)), A, H, 1)
    made["b_dec"] = torch.zeros(A, 1)
    return made


def batches(sizes, count, generator):
    B, T, A, M = sizes["B"], sizes["T"], sizes["A"], sizes["M"]
    sensed = torch.zeros(A, M)
    for agent in sensed:
        agent[torch.randperm(M, generator=generator)[: sizes["seen"]]] = 1
    return [dict(X=normal(generator, 1, B, T, M), C=sensed, y=normal(generator, 1, B, T), ties=ties(sizes))
            for _ in range(count)]


def golden(file, sizes):
    return dict(X=file["input.X"], C=file["input.C"].float(), y=file["input.y_true"], ties=file["input.learn_mask"].bool())


class Before(Form):
    """Has three products per attention, copies heads to the front and back, and builds the bias in every message
    step."""

    reads_loss = True

    def norm(self, x, name):
        return functional.rms_norm(x, [x.shape[-1]], self.p[name + ".gain"], EPSILON)

    def bias(self, batch):
        A = self.sizes["A"]
        bias = torch.full((A, A), -math.inf)
        bias[batch["ties"]] = self.p["bias_param"]
        return bias.masked_fill(torch.eye(A, dtype=torch.bool), 1.0)

    def per_agent(self, x, weight):
        return torch.einsum("btak,akn->btan", x, weight)

    def project(self, u, name):
        q, k = self.per_agent(u, self.p["Wq_" + name]), self.per_agent(u, self.p["Wk_" + name])
        return q, k, functional.linear(u, self.p[f"Wv_{name}_shared"])

    def attend(self, qkv, rows, length, **options):
        """Maps q, k, v [..] with leading rows and length to [rows, length, H]."""
        n, H = self.sizes["n"], self.sizes["H"]
        q, k, v = (x.reshape(rows, length, n, H // n).permute(0, 2, 1, 3).contiguous() for x in qkv)
        out = functional.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, **options)
        return out.permute(0, 2, 1, 3).contiguous().view(rows, length, H)

    def attend_to_past(self, h):
        B, T, A, H = h.shape
        qkv = [x.permute(0, 2, 1, 3).contiguous() for x in self.project(self.norm(h, "memnorm"), "mem")]
        out = self.attend(qkv, B * A, T, is_causal=True).view(B, A, T, H)
        return h + self.drop(out.permute(0, 2, 1, 3))

    def attend_to_neighbours(self, h, batch):
        B, T, A, H = h.shape
        out = self.attend(self.project(self.norm(h, "socnorm"), "soc"), B * T, A, attn_mask=self.bias(batch))
        return h + self.drop(out.view(B, T, A, H))

    def mlp(self, h):
        inner = self.per_agent(self.norm(h, "mlpnorm"), self.p["W1"]) + self.p["b1"]
        return h + self.drop(self.per_agent(functional.silu(inner), self.p["W2"]) + self.p["b2"])

    def loss(self, batch):
        sensed = batch["X"][:, :, None, :] * batch["C"]
        h = self.norm(self.per_agent(sensed, self.p["W_embed"]), "prenorm")
        for _ in range(self.sizes["S"]):
            h = self.attend_to_past(h)
            h = self.attend_to_neighbours(h, batch)
            h = self.mlp(h)
        y = self.per_agent(self.norm(h, "prednorm"), self.p["W_dec"]) + self.p["b_dec"]
        return ((y[..., 0] - batch["y"][:, :, None]) ** 2).mean()


class After(Before):
    """Computes queries and keys in one product. Has the published MLP, which is linear: it computes two halves from its
    input and drops the activated one."""

    def own(self, parameters):
        made = dict(parameters)
        for name in ("mem", "soc"):
            made["Wqk_" + name] = torch.cat([made.pop("Wq_" + name), made.pop("Wk_" + name)], 2)
        made["W12"] = torch.cat([made.pop("W1"), made.pop("W2")], 2)
        made["b12"] = torch.cat([made.pop("b1"), made.pop("b2")], 1)
        return super().own(made)

    def project(self, u, name):
        q, k = self.per_agent(u, self.p["Wqk_" + name]).chunk(2, -1)
        return q, k, functional.linear(u, self.p[f"Wv_{name}_shared"])

    def mlp(self, h):
        halves = self.per_agent(self.norm(h, "mlpnorm"), self.p["W12"]) + self.p["b12"]
        inner, outer = halves.chunk(2, -1)
        functional.silu(inner)
        return h + self.drop(outer)


class Plain(Before):
    """Has agents as the first axis, [A, B, T, H], so that products per agent are batched without a copy; one product
    for queries and keys, attention on strided heads, and the bias built once."""

    fused = True
    reads_loss = False

    def per_agent(self, x, weight, bias=None):
        rows = x.reshape(x.shape[0], -1, x.shape[-1])
        made = torch.bmm(rows, weight) if bias is None else torch.baddbmm(bias[:, None], rows, weight)
        return made.view(*x.shape[:-1], -1)

    def project(self, u, name):
        n = self.sizes["n"]
        q, k = self.per_agent(u, self.joined[name]).chunk(2, -1)
        v = functional.linear(u, self.p[f"Wv_{name}_shared"])
        return [x.unflatten(-1, (n, -1)) for x in (q, k, v)]  # [A, B, T, n, D]

    def attend_to_past(self, h):
        q, k, v = (x.transpose(2, 3).flatten(0, 1) for x in self.project(self.norm(h, "memnorm"), "mem"))
        out = functional.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=True)
        return h + self.drop(out.transpose(1, 2).reshape(h.shape))

    def attend_to_neighbours(self, h, bias):
        A, B, T, H = h.shape
        q, k, v = (x.permute(1, 2, 3, 0, 4).flatten(0, 1) for x in self.project(self.norm(h, "socnorm"), "soc"))
        out = functional.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, attn_mask=bias)
        return h + self.drop(out.view(B, T, -1, A, H // self.sizes["n"]).permute(3, 0, 1, 2, 4).reshape(h.shape))

    def mlp(self, h):
        inner = functional.silu(self.per_agent(self.norm(h, "mlpnorm"), self.p["W1"], self.p["b1"]))
        return h + self.drop(self.per_agent(inner, self.p["W2"], self.p["b2"]))

    def loss(self, batch):
        A, device = self.sizes["A"], self.p["bias_param"].device
        bias = torch.full((A, A), -math.inf, device=device).masked_scatter(batch["ties"], self.p["bias_param"])
        bias = bias.masked_fill(torch.eye(A, dtype=torch.bool, device=device), 1.0)
        self.joined = {name: torch.cat([self.p["Wq_" + name], self.p["Wk_" + name]], 2) for name in ("mem", "soc")}
        sensed = batch["X"] * batch["C"][:, None, None, :]
        h = self.norm(self.per_agent(sensed, self.p["W_embed"]), "prenorm")
        for _ in range(self.sizes["S"]):
            h = self.mlp(self.attend_to_neighbours(self.attend_to_past(h), bias))
        y = self.per_agent(self.norm(h, "prednorm"), self.p["W_dec"], self.p["b_dec"])
        return functional.mse_loss(y[..., 0], batch["y"].expand(A, -1, -1))


FORMS = dict(before=Before, after=After, plain=Plain)
