"""Shared code of the peers of `tuff bench --peer`: the protocol of tools/bench/peer.c, and the values that all
implementations work on. A peer is a function from (suite, work) to a list of (name, function without arguments); each
call of such a function is one run."""

import sys
import time
import traceback

import numpy


def values(seed, *shape):
    """Returns the values of bench_value of tools/bench/measure.c: f32 in [-1, 1)."""
    count = int(numpy.prod(shape, dtype=numpy.int64))
    bits = numpy.arange(count, dtype=numpy.uint32)
    bits *= numpy.uint32(2654435761)
    bits += numpy.uint32(seed * 2246822519 % 2**32)
    bits ^= bits >> numpy.uint32(15)
    bits *= numpy.uint32(2246822519)
    bits ^= bits >> numpy.uint32(13)
    bits >>= numpy.uint32(8)
    return (bits.astype(numpy.float32) * numpy.float32(2**-23) - numpy.float32(1)).reshape(shape)


def indices(seed, limit, *shape):
    return ((values(seed, *shape).astype(numpy.float64) + 1) * 0.5 * limit).astype(numpy.int32)


def timed(run, count, wait):
    """Times count runs. An untimed run first wakes up the threads and fills the caches; wait returns when the device
    has finished all work."""
    if count > 1:
        run()
    wait()
    processor, begin = time.process_time(), time.perf_counter()
    for _ in range(count):
        run()
    wait()
    return time.perf_counter() - begin, time.process_time() - processor


def serve(ways_of, wait=lambda: None):
    answers = sys.stdout
    sys.stdout = sys.stderr  # output of libraries must not mix with answers
    ways = []
    for line in sys.stdin:
        word, _, rest = line.rstrip("\n").partition(" ")
        try:
            if word == "work":
                suite, _, work = rest.partition(" ")
                ways = ways_of(suite, work)
                answer = "names " + "|".join(name for name, _ in ways)
            elif word == "run":
                index, count = map(int, rest.split())
                answer = "%.9f %.9f" % timed(ways[index][1], count, wait)
            elif word == "end":
                ways = []
                answer = "ended"
            else:
                answer = "hello"
        except Exception as problem:
            traceback.print_exc()
            answer = "error " + " ".join(str(problem).split())[:500]
        print(answer, file=answers, flush=True)
