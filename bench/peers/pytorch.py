"""PyTorch as a peer of `tuff bench`, on the CPU or with CUDA: each work as people write it, with preallocated outputs
if PyTorch accepts them, compiled, and compiled into CUDA graphs. Called by bench/compare, or: tuff bench --peer "python
bench/peers/pytorch.py"."""

import argparse
import os
import re

import torch
import torch._functorch.config
from torch.nn import functional

import gpt_pytorch
import peer

aten = torch.ops.aten
# A compiled backward pass that runs repeatedly must not donate its buffers.
torch._functorch.config.donated_buffer = False
forms = set()
device = torch.device("cpu")


def tensor(seed, *shape):
    return torch.from_numpy(peer.values(seed, *shape)).to(device)


def indices(seed, limit, *shape):
    return torch.from_numpy(peer.indices(seed, limit, *shape)).long().to(device)


def three(eager, out=None, compiled=True):
    """Returns the ways to do a work, made from a function and a variant that writes into preallocated memory."""
    ways = []
    if "eager" in forms:
        ways.append(("PyTorch", eager))
    if "out" in forms and out:
        ways.append(("PyTorch, out=", out))
    if "compile" in forms and compiled:
        ways.append(("PyTorch, compiled", torch.compile(eager)))
    if "graphs" in forms and compiled:
        ways.append(("PyTorch, compiled, graphs", torch.compile(eager, mode="reduce-overhead")))
    return ways


def dtype_of(work):
    return torch.bfloat16 if work.endswith(" bf16") else torch.half if work.endswith(" f16") else torch.float32


def matmul(work):
    m, n, k = map(int, re.match(r"(\d+)x(\d+)x(\d+)", work).groups())
    a = tensor(1, k, m).T if "A^T" in work else tensor(1, m, k)
    b = tensor(2, n, k).T if "B^T" in work else tensor(2, k, n)
    a, b = a.to(dtype_of(work)), b.to(dtype_of(work))
    c = torch.empty(m, n, dtype=a.dtype, device=device)
    return three(lambda: a @ b, lambda: torch.mm(a, b, out=c), compiled=False)


def attention(work):
    batch, heads, width, length = (int(re.search(r"\b" + letter + r"(\d+)", work).group(1)) for letter in "BHDT")
    queries = 1 if "last query" in work else length
    q, k, v, g = (
        tensor(seed, batch, rows, heads, width).transpose(1, 2).to(dtype_of(work))
        for seed, rows in ((1, queries), (2, length), (3, length), (99, queries))
    )

    def forward():
        return functional.scaled_dot_product_attention(q, k, v, is_causal=queries > 1)

    def backward_too():
        for x in (q, k, v):
            x.grad = None
        forward().backward(g)

    if "backward" not in work:
        return three(forward, compiled=False)
    for x in (q, k, v):
        x.requires_grad_()
    return three(backward_too, compiled=False)


def softmax_ways(x, g):
    y, out = torch.softmax(x, -1), torch.empty_like(x)
    return (
        lambda x: torch.softmax(x, -1),
        lambda: aten._softmax.out(x, -1, False, out=out),
        lambda: aten._softmax_backward_data.out(g, y, -1, torch.float32, grad_input=out),
    )


def layer_norm_ways(x, g):
    c = x.shape[-1]
    gain, bias = tensor(2, c).requires_grad_(), tensor(3, c).requires_grad_()
    with torch.no_grad():
        y, mean, scale = torch.native_layer_norm(x, [c], gain, bias, 1e-5)
    outs = torch.empty_like(x), torch.empty_like(gain), torch.empty_like(bias)
    return (
        lambda x: functional.layer_norm(x, [c], gain, bias, 1e-5),
        lambda: aten.native_layer_norm.out(x, [c], gain, bias, 1e-5, out0=y, out1=mean, out2=scale),
        lambda: aten.native_layer_norm_backward.out(
            g, x, [c], mean, scale, gain, bias, [True] * 3, out0=outs[0], out1=outs[1], out2=outs[2]
        ),
    )


def rms_norm_ways(x, g):
    gain = tensor(2, x.shape[-1]).requires_grad_()
    return lambda x: functional.rms_norm(x, [x.shape[-1]], gain, 1e-5), None, None


def cross_entropy_ways(x, g):
    targets = indices(7, x.shape[1], x.shape[0])
    return lambda x: functional.cross_entropy(x, targets), None, None


def norms(work):
    kinds = {"softmax": softmax_ways, "layer": layer_norm_ways, "rms": rms_norm_ways, "cross-entropy": cross_entropy_ways}
    rows, columns = map(int, re.search(r"(\d+)x(\d+)$", work).groups())
    x, g = tensor(1, rows, columns), tensor(99, rows, columns)
    op, forward_out, backward_out = kinds[work.split()[0]](x, g)

    def quiet(run):
        def without_gradients():
            with torch.no_grad():
                return run()

        return run and without_gradients

    if "backward" not in work:
        return three(quiet(lambda: op(x)), quiet(forward_out))
    wanted = x.clone().requires_grad_()
    ways = []
    for name, function in (("PyTorch", op), ("PyTorch, compiled", torch.compile(op) if "compile" in forms else None)):
        if function and (name != "PyTorch" or "eager" in forms):
            y = function(wanted)
            upstream = g if y.dim() else torch.tensor(1.0, device=device)
            ways.append((name, lambda y=y, upstream=upstream: torch.autograd.grad(y, wanted, upstream, retain_graph=True)))
    if "out" in forms and backward_out:
        ways.append(("PyTorch, out=", quiet(backward_out)))
    return ways


def elementwise(work):
    count = int(re.search(r"(\d+) KiB", work).group(1)) * 256
    x, y, z = (tensor(seed, count) if seed == 1 or "x" in work else None for seed in (1, 2, 3))
    out = torch.empty_like(x)
    if work.startswith("gelu tanh backward"):
        g = tensor(99, count)
        into = lambda: aten.gelu_backward.grad_input(g, x, approximate="tanh", grad_input=out)
        return three(lambda: aten.gelu_backward(g, x, approximate="tanh"), into)
    if work.startswith("gelu tanh"):
        return three(
            lambda: functional.gelu(x, approximate="tanh"), lambda: aten.gelu.out(x, approximate="tanh", out=out)
        )
    if work.startswith("gelu erf"):
        return three(lambda: functional.gelu(x), lambda: aten.gelu.out(x, out=out))
    if work.startswith("silu"):
        return three(lambda: functional.silu(x), lambda: aten.silu.out(x, out=out))
    if work.startswith("x + y"):
        return three(lambda: x + y, lambda: torch.add(x, y, out=out))
    return three(lambda: functional.gelu(1.5 * x + y, approximate="tanh") * z)


def sizes_of(work):
    return [int(re.search(pattern, work).group(1)) for pattern in (r"(\d+)x", r"H(\d+)", r"x(\d+)", r"T(\d+)", r"B(\d+)")]


def optimizer(work):
    if "x" not in work:  # "AdamW N M": a single pass over N million parameters
        return []
    layers, heads, width, length, _ = sizes_of(work)
    parameters = list(gpt_pytorch.Gpt(layers, heads, width, length).to(device).parameters())
    for p in parameters:
        p.grad = tensor(3, *p.shape)
    rule = gpt_pytorch.optimizer(parameters)

    def update():
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        rule.step()

    return three(update, compiled=False)


def gpt_step(layers, heads, width, length, batch, dtype, compile):
    torch.manual_seed(1)
    model = gpt_pytorch.Gpt(layers, heads, width, length).to(device)
    rule = gpt_pytorch.optimizer(model.parameters())
    forward = compile(model)
    windows = indices(5, 256, batch, length + 1)

    def step():
        with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
            loss = forward(windows[:, :-1], windows[:, 1:])
        rule.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        rule.step()

    return step


def gpt(work):
    ways = dict(
        eager=("PyTorch", lambda model: model),
        compile=("PyTorch, compiled", torch.compile),
        graphs=("PyTorch, compiled, graphs", lambda model: torch.compile(model, mode="reduce-overhead")),
    )
    return [(name, gpt_step(*sizes_of(work), dtype_of(work), compile)) for form, (name, compile) in ways.items() if form in forms]


def launch(work):
    x = tensor(1, 16)

    def chain():
        y = x
        for _ in range(100 if "100" in work else 1):
            y = torch.sin(y)

    return three(chain, compiled=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forms", default="eager,out,compile", help="forms to run: eager, out, compile, graphs")
    parser.add_argument("--device", default="cpu", type=torch.device, help="cpu or cuda")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    global device
    device = options.device
    forms.update(options.forms.split(","))
    torch.set_num_threads(options.threads)
    suites = dict(
        matmul=matmul, attention=attention, norms=norms, elementwise=elementwise, optimizer=optimizer, gpt=gpt, launch=launch
    )
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None

    # No ways mean that this program has nothing to compare with: another suite, such as a program's graph, or a precision
    # that these functions do not implement.
    def ways_of(suite, work):
        is_narrow = dtype_of(work) != torch.float32
        if suite not in suites or (is_narrow and suite not in ("matmul", "attention", "gpt")):
            return []
        return suites[suite](work)

    peer.serve(ways_of, wait)


if __name__ == "__main__":
    main()
