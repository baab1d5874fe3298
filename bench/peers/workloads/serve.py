"""Runs training programs in PyTorch on commands of bench/workloads. Usage: serve.py WORKLOAD --batch N
FORM[+compile]...; makes the forms and prints a line of JSON for each, then replies to a line `steps INDEX COUNT` with
the seconds of that many steps by phase, and to `memory INDEX` with the peak bytes that are live within a step, without
parameters and moments. serve.py WORKLOAD --verify FILE compares the forms with a golden file."""

import argparse
import importlib
import json
import os
import pathlib
import sys
import time

import torch

import workload

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))  # after this folder, whose names take precedence
from memory_pytorch import Ledger


def peak_memory(training):
    state = [value for one in training.rule.state.values() for value in one.values() if torch.is_tensor(value)]
    batch = training.batches[training.count % len(training.batches)]
    inputs = [value for value in batch.values() if torch.is_tensor(value)]
    with Ledger([*training.form.p.values(), *state, *inputs]) as ledger:
        training.step()
    return ledger.peak


def make(options, module, name, answer):
    form, _, compiled = name.partition("+")
    kind = module.FORMS.get(form)
    begin = time.perf_counter()
    if kind is None or (compiled and not kind.compiles):
        answer(dict(form=name, error="unknown form" if kind is None else "cannot be compiled as a graph"))
        return None
    try:
        made = workload.Training(module, form, module.SIZES, options.batch, bool(compiled), options.compile_limit)
    except Exception as problem:  # compiling may raise anything
        answer(dict(form=name, error=" ".join(str(problem).split())[:200]))
        return None
    answer(dict(form=name, ready=time.perf_counter() - begin))
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload")
    parser.add_argument("forms", nargs="*")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--device", default="cpu", type=torch.device, help="cpu or cuda")
    parser.add_argument("--compile-limit", type=int, default=300,
                        help="time limit for a compilation in seconds of processor time")
    parser.add_argument("--verify", metavar="FILE")
    options = parser.parse_intermixed_args()
    module = importlib.import_module(options.workload)
    torch.set_num_threads(options.threads)
    torch.set_default_device(options.device)
    if options.verify:
        workload.verify(module, options.verify)
        return
    answers = sys.stdout
    sys.stdout = sys.stderr  # output of libraries must not mix with answers
    answer = lambda one: print(json.dumps(one), file=answers, flush=True)
    options.batch = options.batch or module.SIZES["B"]
    trainings = [make(options, module, name, answer) for name in options.forms]
    for line in sys.stdin:
        word, *numbers = line.split()
        training = trainings[int(numbers[0])]
        answer(training.steps(int(numbers[1])) if word == "steps" else dict(peak=peak_memory(training)))


if __name__ == "__main__":
    main()
