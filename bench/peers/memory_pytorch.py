"""Prints the peak bytes of tensors that are live at once during a training step of the GPT of gpt_pytorch.py in eager
PyTorch: everything that the step allocates, including gradients, but neither parameters nor moments. Scratch memory
inside ops is not counted."""

import argparse
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

import gpt_pytorch
import peer


class Ledger(TorchDispatchMode):
    """Counts every storage once, from the op that allocates it until it is freed."""

    def __init__(self, known):
        super().__init__()
        self.seen = {t.untyped_storage()._cdata for t in known}
        self.live = self.peak = 0

    def forget(self, key, size):
        self.seen.discard(key)
        self.live -= size

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        made = function(*arguments, **(options or {}))
        for one in tree_flatten(made)[0]:
            storage = one.untyped_storage() if isinstance(one, torch.Tensor) else None
            if storage is None or storage._cdata in self.seen:
                continue
            self.seen.add(storage._cdata)
            self.live += storage.nbytes()
            weakref.finalize(storage, self.forget, storage._cdata, storage.nbytes())
        self.peak = max(self.peak, self.live)
        return made


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("layers", 6), ("heads", 6), ("width", 384), ("context", 256), ("batch", 4)):
        parser.add_argument("--" + name, type=int, default=value)
    sizes = parser.parse_args()
    model = gpt_pytorch.Gpt(sizes.layers, sizes.heads, sizes.width, sizes.context)
    rule = gpt_pytorch.optimizer(model.parameters())
    windows = torch.from_numpy(peer.indices(5, 256, sizes.batch, sizes.context + 1)).long()

    def step():
        rule.zero_grad(set_to_none=True)
        model(windows[:, :-1], windows[:, 1:]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        rule.step()
        rule.zero_grad(set_to_none=True)

    step()  # makes the moments
    moments = [value for state in rule.state.values() for value in state.values() if torch.is_tensor(value)]
    with Ledger([*model.parameters(), *moments, windows]) as ledger:
        step()
    print(ledger.peak)


if __name__ == "__main__":
    main()
