"""Worker processes that take the samples of from_dataset."""

from __future__ import annotations

import collections
import contextlib
import itertools
import multiprocessing
import os
import pickle
import signal
import sys
import traceback
from typing import Any

from dlpipe.errors import Error

_converter: Any = None


def _begin_worker(converter):
    global _converter
    _converter = converter
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(Exception):
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: not to outlive a parent that is killed
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


class WorkerTraceback(Exception):
    """Where an exception was raised in a worker: the cause of that exception, as pickle leaves tracebacks behind."""


def _take_range(begin, end, read):
    """What the converter's method `read` returns of each number, and the exception that ended them with its cause and where that
    was raised; None where nothing did."""
    samples = []
    try:
        for number in range(begin, end):
            samples.append(getattr(_converter, read)(number))
    except Exception as error:
        cause = error.__cause__
        where = "".join(traceback.format_exception(error if cause is None else cause))
        if not _can_travel(error):
            error = Error(f"[from_dataset] a sample of {begin} to {end - 1} raised {type(error).__qualname__}: {error}")
        if not _can_travel(cause):
            error, cause = type(error)(f"{error}; it can't be pickled, so here is where:\n{where}"), None
        return samples, (error, cause, where)
    return samples, None


def _can_travel(error):
    """Whether it comes whole out of pickle. Else the pool would take its worker for broken."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return False
    return True


def _ready():
    return os.getpid()


class Workers:
    """Worker processes that make ranges of samples, some ahead of the writer, handed over in order."""

    RANGE = 32

    def __init__(self, count, converter):
        from concurrent.futures import ProcessPoolExecutor

        # As Python's default was before 3.14: datasets that a notebook's cell defines can't be sent to other processes. Here no
        # thread of the library is needed behind the fork. Who has chosen another way keeps it.
        method = multiprocessing.get_start_method(allow_none=True) or "fork"
        self.count = count
        self.pool = ProcessPoolExecutor(count, multiprocessing.get_context(method), _begin_worker, (converter,))
        self._run(lambda: [f.result() for f in [self.pool.submit(_ready) for _ in range(count)]])

    @staticmethod
    def _run(work):
        from concurrent.futures.process import BrokenProcessPool

        try:
            return work()
        except BrokenProcessPool as error:
            raise Error("[from_dataset] a worker process ended: it was killed (out of memory?), or could not start "
                        "(the dataset can't be pickled, or the program lacks `if __name__ == '__main__':`); try workers=0"
                        ) from error  # fmt: skip

    def samples(self, begin, end, read):
        ahead: collections.deque[Any] = collections.deque()
        ranges = ((i, min(i + self.RANGE, end)) for i in range(begin, end, self.RANGE))
        for one in itertools.islice(ranges, 4 * self.count):
            ahead.append(self.pool.submit(_take_range, *one, read))
        while ahead:
            taken = self._run(ahead.popleft().result)
            for one in itertools.islice(ranges, 1):
                ahead.append(self.pool.submit(_take_range, *one, read))
            yield from taken[0]
            if taken[1] is not None:
                error, cause, where = taken[1]
                if cause is not None:
                    cause.__cause__ = WorkerTraceback(where)
                raise error from cause

    def close(self):
        self.pool.shutdown(wait=False, cancel_futures=True)
