"""Runs fifty steps of every optimizer in float64, for tests/train/optimizers.c: PyTorch's own optimizer if it has the
rule, else the paper's formulas. Parameters have random shapes; gradients have different magnitudes. Both are exact in
float32.

    bench/peers/optimizers.py tests/data/golden/optimizers.safetensors [--seed N]

The file has in.NAME, the initial values; grad.NAME [50, ...]; CASE/NAME, the values after the last step in float64; and
in its metadata, for each case, the options of tuff_optimizer_options as JSON.
"""

import argparse
import json
import math
import struct

import torch

STEPS = 50
CASES = {
    "adamw": {"kind": "adamw", "rate": 0.01, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "decay": 0.1},
    "adam": {"kind": "adam", "rate": 0.01, "beta1": 0.8, "beta2": 0.999, "epsilon": 1e-6, "decay": 0},
    "adam_l2": {"kind": "adam", "rate": 0.003, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-8, "decay": 0.05},
    "sgd": {"kind": "sgd", "rate": 0.02, "decay": 0},
    "sgd_momentum": {"kind": "sgd", "rate": 0.02, "momentum": 0.9, "decay": 0.01},
    "sgd_nesterov": {"kind": "sgd", "rate": 0.02, "momentum": 0.8, "nesterov": True, "decay": 0.01},
    "lion": {"kind": "lion", "rate": 0.003, "beta1": 0.9, "beta2": 0.99, "decay": 0.1},
    "adafactor": {"kind": "adafactor", "rate": 0.05, "epsilon": 1e-30, "decay": 0},
    "adafactor_decay": {"kind": "adafactor", "rate": 0.3, "epsilon": 1e-30, "decay": 0.02},
    "muon": {"kind": "muon", "rate": 0.02, "momentum": 0.95, "decay": 0.1, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8},
}


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, algorithm 2."""

    def __init__(self, parameters, case):
        super().__init__(parameters, dict(case=case))

    def step(self):
        for group in self.param_groups:
            case = group["case"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                update = torch.sign(case["beta1"] * m + (1 - case["beta1"]) * p.grad) + case["decay"] * p
                m.mul_(case["beta2"]).add_((1 - case["beta2"]) * p.grad)
                p.sub_(case["rate"] * update)


class Muon(torch.optim.Optimizer):
    """Jordan 2024, but in float64 instead of bfloat16; for parameters of rank 2 and more, treated as matrices."""

    def __init__(self, parameters, case):
        super().__init__(parameters, dict(case=case))

    def step(self):
        for group in self.param_groups:
            case = group["case"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                m.mul_(case["momentum"]).add_(p.grad)
                x = (p.grad + case["momentum"] * m).reshape(p.shape[0], -1)
                rows, columns = x.shape
                x = x / (x.norm() + 1e-7)
                x = x.T if rows > columns else x
                for _ in range(5):
                    a = x @ x.T
                    x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
                x = x.T if rows > columns else x
                p.mul_(1 - case["rate"] * case["decay"])
                p.sub_(case["rate"] * math.sqrt(max(1, rows / columns)) * x.reshape(p.shape))


def adamw(parameters, case):
    return torch.optim.AdamW(parameters, lr=case["rate"], betas=(case["beta1"], case["beta2"]), eps=case["epsilon"],
                             weight_decay=case["decay"])


def optimizers(parameters, case):
    kind = case["kind"]
    if kind == "adamw":
        return [adamw(parameters, case)]
    if kind == "adam":
        return [torch.optim.Adam(parameters, lr=case["rate"], betas=(case["beta1"], case["beta2"]),
                                 eps=case["epsilon"], weight_decay=case["decay"])]
    if kind == "sgd":
        return [torch.optim.SGD(parameters, lr=case["rate"], momentum=case.get("momentum", 0),
                                nesterov=case.get("nesterov", False), weight_decay=case["decay"])]
    if kind == "lion":
        return [Lion(parameters, case)]
    if kind == "adafactor":  # PyTorch adds its first epsilon elsewhere; both are far below every square here
        return [torch.optim.Adafactor(parameters, lr=case["rate"], eps=(case["epsilon"], 1e-3), d=1.0, beta2_decay=-0.8,
                                      weight_decay=case["decay"])]
    return [Muon([p for p in parameters if p.dim() >= 2], case), adamw([p for p in parameters if p.dim() < 2], case)]


def shapes(generator):
    def extent(low, high):
        return int(torch.randint(low, high + 1, (1,), generator=generator))

    return {"wide": (extent(3, 9), extent(11, 19)), "tall": (extent(21, 35), extent(2, 7)), "row": (1, extent(5, 17)),
            "column": (extent(5, 13), 1), "block": (extent(2, 4), extent(2, 5), extent(3, 6)), "bias": (extent(5, 17),),
            "gain": (extent(17, 33),), "scalar": ()}


def run(case, first, gradients):
    parameters = {name: value.double().clone() for name, value in first.items()}
    rules = optimizers(list(parameters.values()), case)
    for step in range(STEPS):
        for name, p in parameters.items():
            p.grad = gradients[name][step].double()
        for rule in rules:
            rule.step()
    return parameters


def save(path, tensors, metadata):
    header, data = {"__metadata__": metadata}, b""
    for name, tensor in tensors.items():
        bits = tensor.contiguous().numpy().tobytes()
        header[name] = {"dtype": "F64" if tensor.dtype == torch.float64 else "F32", "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(bits)]}
        data += bits
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    generator = torch.Generator().manual_seed(arguments.seed)
    chosen = shapes(generator)
    first = {name: torch.randn(shape, generator=generator) * 0.5 for name, shape in chosen.items()}
    gradients = {name: torch.randn((STEPS, *shape), generator=generator) * 10.0 ** (i % 3 - 2)
                 for i, (name, shape) in enumerate(chosen.items())}
    tensors = {f"in.{name}": value for name, value in first.items()}
    tensors |= {f"grad.{name}": value for name, value in gradients.items()}
    for title, case in CASES.items():
        tensors |= {f"{title}/{name}": value for name, value in run(case, first, gradients).items()}
    save(arguments.file, tensors, {title: json.dumps(case) for title, case in CASES.items()})


if __name__ == "__main__":
    with torch.no_grad():
        main()
