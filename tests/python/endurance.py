#!/usr/bin/env python3
"""endurance.py [--long] [--only NAME ...] [--seed S]: what a loader has to bear, tried on the installed package, with figures.

Makes a dataset of 320 images and prints a table: what was tried how often, and what was seen. A case that finds something
raises, and the script ends with 1. --long is what benchmarks/results records; without it the counts are those of a quick
look (tests/python/test_endurance.py runs them). Needs dlpipe and NumPy."""
import argparse
import gc
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import dlpipe

CROP = "rrc(24) hflip"


class Found(Exception):
    """What no loader may do."""


def check(holds, words):
    if not holds:
        raise Found(words)


def loader_of(data, **options):
    return dlpipe.Loader(data, **{"as_": "numpy", "augment": CROP, "batch": 32, "seed": 1, "slots": 2, "slots_max": 6, **options})


def sums(loader):
    return [int(batch.image.sum()) for batch in loader]


def resident_kib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def count(folder):
    return len(os.listdir(f"/proc/self/{folder}"))


def child(program, *arguments, **options):
    return subprocess.Popen([sys.executable, "-c", program, *map(str, arguments)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **options)  # fmt: skip


def end_of(process, timeout=120):
    """(exit code, output, errors) of a child, which may not hang."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise Found(f"a process hung for {timeout} s: {process.args[3:]}") from None
    return process.returncode, out, err


def threads(data, long, draw):
    """100 threads over 10 loaders, each batch once and with its own pixels"""
    rounds, batches = (20 if long else 2), 0
    for _ in range(rounds):
        seeds = [draw.randrange(1 << 30) for _ in range(10)]
        loaders = [loader_of(data, seed=seed, slots_max=32, epochs=4) for seed in seeds]
        seen, failures = [[] for _ in loaders], []

        def work(number, iterator, seen=seen, failures=failures):
            try:
                for batch in iterator:
                    seen[number].append(int(batch.image.sum()))
            except BaseException as error:
                failures.append(error)

        iterators = [iter(loader) for loader in loaders]
        workers = [threading.Thread(target=work, args=(number % 10, iterators[number % 10])) for number in range(100)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(120)
            check(not worker.is_alive(), "a thread hung")
        check(not failures, failures)
        for seed, one in zip(seeds, seen):
            check(sorted(one) == sorted(sums(loader_of(data, seed=seed, epochs=4))), f"other batches with seed {seed}")
            batches += len(one)
    return f"{rounds} times", f"{batches:,} batches, all those of one thread"


def opened(data, long, draw):
    """loaders opened and dropped, some in mid-epoch, some with a batch kept"""
    turns, kept = (1000 if long else 100), None
    for turn in range(turns + 50):
        if turn == 50:
            gc.collect()
            before = resident_kib(), count("task"), count("fd")
        loader = loader_of(data, threads=1 + turn % 3, slots=1 + turn % 4)
        if draw.random() < 0.5:
            kept = next(iter(loader))
        if draw.random() < 0.2:
            loader.close()
    del loader, kept
    gc.collect()
    after = resident_kib(), count("task"), count("fd")
    check(after[1] <= before[1] + 2 and after[2] <= before[2] + 2, f"(KiB, threads, files) were {before}, are {after}")
    check(after[0] < before[0] + 8192, f"{after[0] - before[0]} KiB more")
    return f"{turns:,} loaders", f"{after[0] - before[0]:+,} KiB, {after[1] - before[1]:+} threads, {after[2] - before[2]:+} files"


def raises(data, long, draw):
    """a consumer that raises in mid-batch"""
    turns, loader = (1000 if long else 50), loader_of(data, epochs=-1)
    for _ in range(turns):
        stop = draw.randrange(4)
        try:
            for number, batch in enumerate(loader):
                if number == stop:
                    raise ZeroDivisionError(batch.image[3:])
        except ZeroDivisionError:
            pass
        del batch
    gc.collect()
    check(loader.held == 0, f"{loader.held} batches are still held")
    return f"{turns:,} times", "no batch held"


KILLED = """
import dlpipe, json, numpy, sys
print("begun", flush=True)
loader = dlpipe.Loader(sys.argv[1], augment="rrc(24) hflip", batch=32, seed=1, epochs=-1, as_="numpy", threads=int(sys.argv[2]))
if sys.argv[3]: loader.load_state_dict(json.loads(sys.argv[3]))
for batch in loader:
    print(json.dumps([int(batch.image.sum()), batch.sample_ids.tolist(), loader.state_dict()]), flush=True)
"""


def kills(data, long, draw):
    """kill -9 at a random moment, then load_state_dict in another process with another number of threads"""
    turns, got, state, empty = (50 if long else 3), [], "", 0
    for turn in range(turns):
        process = child(KILLED, data, 1 + turn % 3, state)
        check(process.stdout.readline() == "begun\n", "it did not begin")
        timer = threading.Timer(draw.uniform(0, 1), process.kill)
        timer.start()
        lines = [line for line in process.stdout.read().splitlines(True) if line.endswith("\n")]  # no half ones
        timer.join()
        process.communicate()
        check(process.returncode == -signal.SIGKILL, process.returncode)
        for line in lines:
            total, ids, place = json.loads(line)
            got.append((total, ids))
            state = json.dumps(place)
        empty += not lines
    expected = []
    for batch in loader_of(data, epochs=-1):
        if len(expected) == len(got):
            break
        expected.append((int(batch.image.sum()), batch.sample_ids.tolist()))
    check(got == expected, "other batches than without the kills")
    check(got, "no process came to a batch")
    return f"{turns} kills", f"{len(got):,} batches, all as without kills; {empty} kills before the first batch"


def removed(data, long, draw):
    """the dataset removed, and replaced by another, under a loader"""
    turns = 50 if long else 2
    expected = sums(loader_of(data, epochs=2))
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(turns):
            copy = pathlib.Path(folder) / f"data{turn}"
            shutil.copytree(data, copy)
            loader = loader_of(copy, epochs=2)
            iterator = iter(loader)
            got = [int(next(iterator).image.sum()) for _ in range(draw.randrange(12))]
            shutil.rmtree(copy)
            if turn % 2:
                copy.write_text("another")
            got += sums(iterator)
            check(got == expected, "other batches after the removal")
            try:
                loader_of(copy)
                raise Found("a loader of what isn't there")
            except dlpipe.Error:
                pass
    return f"{turns} times", "the open loader goes on to its end; a new one raises"


def slots(data, long, draw):
    """a consumer that keeps all batches"""
    turns = 200 if long else 10
    for _ in range(turns):
        most = draw.randrange(1, 8)
        loader = loader_of(data, slots=1, slots_max=most, epochs=-1)
        iterator, kept = iter(loader), []
        try:
            while len(kept) <= most:
                kept.append(next(iterator))
            raise Found(f"{len(kept)} batches out of {most} slots")
        except dlpipe.MisuseError as error:
            check("slots_max" in str(error) and len(kept) == most, error)
        del kept[draw.randrange(most)]
        kept.append(next(iterator))
        check(len({batch.image.ctypes.data for batch in kept}) == most, "two batches in one slot")
    return f"{turns} times", "MisuseError names slots_max; one batch dropped, and it goes on"


LIMITED = """
import resource, sys
spare = int(sys.argv[2])
def limit():
    with open("/proc/self/statm") as file: taken = int(file.read().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (taken + spare,) * 2)
import dlpipe, numpy
if sys.argv[3] == "begin": limit()
try:
    loader = dlpipe.Loader(sys.argv[1], augment="resize(256x256)", batch=64, slots_max=64, epochs=-1, as_="numpy", threads=2)
    iterator = iter(loader); first = next(iterator); total = int(first.image.sum())
    if sys.argv[3] == "later": limit()
    kept = []
    for _ in range(12): kept.append(next(iterator))
    print("batches", flush=True)
except MemoryError as error:
    print(type(error).__name__, error, flush=True)
if "first" in globals() and int(first.image.sum()) != total: print("the first batch changed")
"""


def limits(data, long, draw):
    """`ulimit -v` with so much to spare, from the beginning and after the first batch"""
    steps, ends = (40 if long else 2), {"batches": 0, "MemoryError": 0}
    for step in range(steps):
        for when in ("begin", "later"):
            spare = int((4 << 20) * 2 ** (8 * (step + draw.random()) / steps))  # 4 MiB to 1 GiB
            code, out, err = end_of(child(LIMITED, data, spare, when))
            line = out.strip()
            fine = line == "batches" or line.startswith(("OutOfMemoryError [", "MemoryError"))
            check(code == 0 and fine and "\n" not in line, f"{spare >> 20} MiB, {when}: exit {code}, {line!r}, {err[-800:]!r}")
            ends["batches" if line == "batches" else "MemoryError"] += 1
    return f"{2 * steps} limits", f"{ends['MemoryError']} MemoryError with the reason, {ends['batches']} had enough"


def ceiling(data, long, draw):
    """memory=, a ceiling of the loader's own"""
    turns, refused = (40 if long else 5), 0
    for _ in range(turns):
        try:
            next(iter(loader_of(data, augment="resize(512x512)", memory=draw.randrange(1 << 20, 200 << 20))))
        except MemoryError as error:
            check(isinstance(error, dlpipe.Error) and "memory" in str(error), error)
            refused += 1
    check(refused > 0, "none was refused")
    return f"{turns} ceilings", f"{refused} refused with MemoryError"


def flat(data, long, draw):
    """memory over 10,000 batches"""
    batches, loader = (10_000 if long else 1000), loader_of(data, batch=8, augment="rrc(8)", epochs=-1)
    iterator = iter(loader)
    for _ in range(2000):
        next(iterator)
    before = resident_kib()
    for _ in range(batches):
        batch = next(iterator)
        _ = batch.sample_ids, batch.weight, batch.image[1:]
    grown = resident_kib() - before
    check(grown < 2048, f"{grown} KiB more")
    return f"{batches:,} batches", f"{grown:+,} KiB"


WAITING = """
import dlpipe, os, sys, time
loader = dlpipe.Loader(sys.argv[1], augment="resize(4000x4000)", batch=320, threads=1, slots=1, as_="numpy")
iterator = iter(loader)
print("waiting", flush=True)
try:
    next(iterator)
except KeyboardInterrupt:
    print(time.monotonic(), flush=True)
    os._exit(0)
"""


def ctrl_c(data, long, draw):
    """Ctrl-C in a next() that waits"""
    turns, delays = (30 if long else 2), []
    for _ in range(turns):
        process = child(WAITING, data)
        check(process.stdout.readline() == "waiting\n", "it did not begin")
        time.sleep(draw.uniform(0.1, 0.3))
        pressed = time.monotonic()
        process.send_signal(signal.SIGINT)
        code, out, err = end_of(process, 60)
        check(code == 0 and out, f"it was not interrupted: {err[-500:]}")
        delays.append(1000 * (float(out) - pressed))
    return f"{turns} times", f"median {statistics.median(delays):.0f} ms, longest {max(delays):.0f} ms"


CASES = [threads, opened, raises, kills, removed, slots, limits, ceiling, flat, ctrl_c]


def make_dataset(folder):
    for words in (("synth", folder / "jpegs", "--per-class", 32, "--size", "32..56", "--seed", 5),
                  ("ingest", folder / "jpegs", folder / "data")):  # fmt: skip
        subprocess.run([sys.executable, "-m", "dlpipe", *map(str, words)], check=True, capture_output=True)
    return folder / "data"


def run(data, names=(), long=False, seed=1):
    """Rows of (what, how often, seen) of the cases with these names, or of all; raises Found."""
    for case in CASES:
        if not names or case.__name__ in names:
            yield " ".join(case.__doc__.split()), *case(data, long, random.Random(f"{seed} {case.__name__}"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--only", nargs="+", default=[], choices=[case.__name__ for case in CASES])
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts with & ignores it, and so would children
    with tempfile.TemporaryDirectory() as folder:
        data = make_dataset(pathlib.Path(folder))
        print(f"dlpipe {dlpipe.__version__}, Python {sys.version.split()[0]}, seed {args.seed}\n")
        print("| what | how often | seen | seconds |\n|---|---|---|---|")
        begin = time.monotonic()
        for row in run(data, args.only, args.long, args.seed):
            print(f"| {' | '.join(row)} | {time.monotonic() - begin:.1f} |", flush=True)
            begin = time.monotonic()


if __name__ == "__main__":
    main()
