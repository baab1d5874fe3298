"""Vision-BDH: an image classifier with recurrent sparse codes and linear attention (examples/vision_bdh.c)."""

import math

import torch
from torch.nn import functional

from workload import Form, normal, uniform

SIZES = dict(B=16, C=3, s=32, p=4, D=64, n=4, mult=8, L=3)
OPTIMIZER = dict(lr=2e-4, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.05)


def parameters(sizes, generator):
    C, p, D, n, T = sizes["C"], sizes["p"], sizes["D"], sizes["n"], (sizes["s"] // sizes["p"]) ** 2 + 1
    N = sizes["mult"] * D // n
    code = math.sqrt(6 / ((D + n) * N))
    return {
        "Dc": uniform(generator, math.sqrt(6 / (n * N + D)), n * N, D),
        "E": uniform(generator, code, n, D, N),
        "F": uniform(generator, code, n, D, N),
        "patch.weight": uniform(generator, math.sqrt(6 / ((C + D) * p * p)), D, C, p, p),
        "patch.bias": torch.zeros(D),
        "cls": torch.zeros(1, 1, D),
        "pos": normal(generator, 0.02, 1, T, D),
        "head.weight": uniform(generator, math.sqrt(6 / (D + 10)), 10, D),
        "head.bias": torch.zeros(10),
    }


def batches(sizes, count, generator):
    shape = sizes["B"], sizes["C"], sizes["s"], sizes["s"]
    return [dict(images=normal(generator, 1, *shape), labels=torch.randint(10, shape[:1], generator=generator))
            for _ in range(count)]


def golden(file, sizes):
    return dict(images=file["input.images"], labels=file["input.labels"].long())


def norm(x):
    return functional.layer_norm(x, [x.shape[-1]], None, None, 1e-5)


class Before(Form):
    """Reads x by broadcasting in every head, computes the angles in every recurrence, and keeps the scores in
    memory."""

    reads_loss = True

    def code_size(self):
        return self.sizes["mult"] * self.sizes["D"] // self.sizes["n"]

    def angles(self, T):
        N = self.code_size()
        pairs = (torch.arange(N) // 2 * 2).float()
        turns = torch.arange(T).float()[:, None] * (1 / (65536 ** (pairs / N)) / (2 * math.pi))
        phase = (turns % 1) * (2 * math.pi)
        return phase.cos(), phase.sin()

    def rope(self, u, angles):
        turned = torch.stack((-u[..., 1::2], u[..., ::2]), -1).view(*u.shape)
        return u * angles[0] + turned * angles[1]

    def tokens(self, images):
        patches = functional.conv2d(images, self.p["patch.weight"], self.p["patch.bias"], self.sizes["p"])
        x = patches.flatten(2).transpose(1, 2)
        return torch.cat([self.p["cls"].expand(len(x), -1, -1), x], 1) + self.p["pos"]

    def recur(self, x):
        B, T, _ = x.shape
        x = norm(x)
        values = x[:, None]
        u = functional.relu(values @ self.p["E"])
        r = self.rope(u, self.angles(T))
        y = norm(r @ r.mT @ values)
        z = functional.relu(y @ self.p["F"])
        gated = self.drop(u * z)
        w = gated.transpose(1, 2).reshape(B, T, -1)
        return norm(x + norm(w @ self.p["Dc"]))

    def classify(self, x, labels):
        logits = functional.linear(norm(x), self.p["head.weight"], self.p["head.bias"])
        return functional.cross_entropy(logits, labels)

    def loss(self, batch):
        x = self.tokens(batch["images"])
        for _ in range(self.sizes["L"]):
            x = self.recur(x)
        return self.classify(x[:, 0], batch["labels"])


class After(Before):
    """Has one linear layer per head as encoder, called one after the other; computes the angles once. The residual is
    not normalised, so that the first recurrence is a different function."""

    fused = True

    def own(self, parameters):
        made = dict(parameters)
        for name in "EF":
            for head, weight in enumerate(made.pop(name)):
                made[f"{name}.{head}"] = weight.T.contiguous()
        made["Dc"] = made["Dc"].T.contiguous()
        return super().own(made)

    def __init__(self, sizes, parameters, dropout):
        super().__init__(sizes, parameters, dropout)
        self.table = self.angles((sizes["s"] // sizes["p"]) ** 2 + 1)

    def recur(self, x):
        B, T, _ = x.shape
        n, normed = self.sizes["n"], norm(x)
        u = functional.relu(torch.stack([functional.linear(normed, self.p[f"E.{h}"]) for h in range(n)], 1))
        r = self.rope(u, self.table)
        y = norm(r @ r.mT @ normed[:, None])
        z = functional.relu(torch.stack([functional.linear(y[:, h], self.p[f"F.{h}"]) for h in range(n)], 1))
        w = self.drop(u * z).transpose(1, 2).reshape(B, T, -1)
        return norm(x + norm(functional.linear(w, self.p["Dc"])))


class Plain(Before):
    """Has heads as the first axis, so that products with E and F are one batched product each; computes the angles
    once; patches are rows of one product."""

    fused = True
    reads_loss = False

    def __init__(self, sizes, parameters, dropout):
        super().__init__(sizes, parameters, dropout)
        self.table = [x[:, ::2].contiguous() for x in self.angles((sizes["s"] // sizes["p"]) ** 2 + 1)]

    def rope(self, u, angles):
        even, odd = u.unflatten(-1, (-1, 2)).unbind(-1)
        c, s = angles
        return torch.cat([even * c - odd * s, even * s + odd * c], -1)  # R·Rᵀ does not depend on the order

    def tokens(self, images):
        B, C, s, _ = images.shape
        p, side = self.sizes["p"], s // self.sizes["p"]
        rows = images.view(B, C, side, p, side, p).permute(0, 2, 4, 1, 3, 5).reshape(B, side * side, -1)
        x = functional.linear(rows, self.p["patch.weight"].flatten(1), self.p["patch.bias"])
        return torch.cat([self.p["cls"].expand(B, -1, -1), x], 1) + self.p["pos"]

    def recur(self, x, count=None):
        """Computes a recurrence of the first count tokens, or of all if count is None."""
        B, T, D = x.shape
        n, N, count = self.sizes["n"], self.code_size(), count or T
        x = norm(x)
        u = functional.relu(torch.matmul(x.view(B * T, D), self.p["E"])).view(n, B, T, N)
        r = self.rope(u, self.table)
        y = norm(r[:, :, :count] @ r.mT @ x)
        z = functional.relu(torch.bmm(y.reshape(n, B * count, D), self.p["F"])).view(n, B, count, N)
        w = self.drop(u[:, :, :count] * z).permute(1, 2, 0, 3).reshape(B, count, -1)
        return norm(x[:, :count] + norm(w @ self.p["Dc"]))


class Less(Plain):
    """Computes only the class token in the last recurrence, because nothing else of it is read."""

    def loss(self, batch):
        x = self.tokens(batch["images"])
        for _ in range(self.sizes["L"] - 1):
            x = self.recur(x)
        return self.classify(self.recur(x, 1)[:, 0], batch["labels"])


FORMS = dict(before=Before, after=After, plain=Plain, less=Less)
