"""Whose memory a batch is, and for how long."""

import copy
import gc
import json
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import dlpipe
from conftest import measures_memory, side_by_side

CROP = "rrc(24) hflip"


def loader_of(data, **options):
    return dlpipe.Loader(data, **{"as_": "numpy", "augment": CROP, "batch": 32, "seed": 1, "slots": 2, "slots_max": 6, **options})


def addresses(loader):
    return {batch.image.ctypes.data for batch in loader}


def test_pixels_stay_where_they_were_made(train):
    loader = loader_of(train, epochs=8, slots=3)
    assert len(addresses(loader)) == 3  # the slots, over and over


def test_a_kept_batch_is_never_overwritten_and_more_slots_come(train):
    expected = [batch.image.copy() for batch in loader_of(train)]
    loader = loader_of(train, epochs=4)
    kept = []
    for batch in loader:
        kept.append(batch)
        if len(kept) == 5:
            break
    # the rest of the pass goes on beside them
    for kept_one, image in zip(kept, expected):
        np.testing.assert_array_equal(kept_one.image, image)


def test_who_keeps_more_than_slots_max_is_told_so(train):
    loader = loader_of(train)
    iterator = iter(loader)
    kept = [next(iterator) for _ in range(6)]
    with pytest.raises(dlpipe.MisuseError, match="all 6 allowed batches .*slots_max.* are held"):
        next(iterator)
    del kept[2]
    assert next(iterator).index == 6


@pytest.mark.parametrize("view", [
    lambda batch: batch.image,
    lambda batch: batch.image[3:5, ::2],
    lambda batch: batch.image[3:5].reshape(-1)[7:],
    lambda batch: batch.image.view(np.int8).T,
    lambda batch: memoryview(batch.image),
    lambda batch: batch,
    lambda batch: iter(batch.image),
    lambda batch: [batch.image[0]],
    lambda batch: lambda: batch,
], ids=range(9))
def test_any_view_keeps_its_slot_and_nothing_else_does(train, view):
    loader = loader_of(train, epochs=-1)
    iterator = iter(loader)
    kept = view(next(iterator))
    gc.collect()
    assert loader.held == 1
    assert next(iterator).index == 1
    gc.collect()
    assert loader.held == 1
    del kept
    gc.collect()
    assert loader.held == 0


@pytest.mark.parametrize("as_", ["numpy", "torch", "jax"])
def test_labels_and_numbers_may_be_kept_of_a_whole_epoch(tmp_path, as_):
    pytest.importorskip(as_)
    with dlpipe.Writer(tmp_path / "d", fields={"image": "image", "label": "label", "x": ("f32", (16,))}) as writer:
        for i in range(160):
            writer.write(image=np.full((24, 24, 3), i, np.uint8), label=i % 7, x=np.full(16, i))
    options = {"augment": "", "batch": 8, "train": False, "as_": as_}
    for more, names in (({}, ["label", "x", "sample_ids", "weight"]),
                        ({"fields": ["image", "label"], "dtype": "f32", "mixup": 0.5}, ["label", "partner_label", "lam", "sample_ids"])):
        loader = loader_of(tmp_path / "d", **options, **more)
        kept = []
        for batch in loader:
            kept.append([getattr(batch, name) for name in names])
            del batch
            gc.collect()
            assert loader.held == 0
        arrays = {name: np.concatenate([np.asarray(one) for one in some]) for name, some in zip(names, zip(*kept))}
        assert arrays["sample_ids"].tolist() == list(range(160))
        np.testing.assert_array_equal(arrays["label"], arrays["sample_ids"] % 7)
        if not more:
            assert arrays["weight"].tolist() == [1.0] * 160
            np.testing.assert_array_equal(arrays["x"], np.repeat(np.arange(160)[:, None], 16, 1))
        else:
            assert len(set(arrays["lam"].tolist())) > 100 and (arrays["partner_label"] != arrays["label"]).any()


@pytest.mark.parametrize("name, held", [("label", 0), ("y", 1)])
def test_what_is_large_stays_in_the_batch(tmp_path, name, held):
    with dlpipe.Writer(tmp_path / "d", fields={"label": "label", "y": ("f32", (17,))}) as writer:
        for i in range(64):
            writer.write(label=i % 7, y=np.full(17, i))
    loader = loader_of(tmp_path / "d", augment="")
    kept = next(iter(loader))[name]
    gc.collect()
    assert len(kept) == 32 and loader.held == held


def test_writing_into_a_kept_label_changes_no_batch(train):
    expected = [batch.label.copy() for batch in loader_of(train)]
    kept = []
    for batch, labels in side_by_side(loader_of(train), expected):
        np.testing.assert_array_equal(batch.label, labels)
        batch.label[:] = -1
        assert batch["label"][0] == -1  # it is the batch's
        kept.append(batch.label)
        with pytest.raises(ValueError, match="read-only"):
            batch.sample_ids[0] = 7
    assert all((labels == -1).all() for labels in kept)


@pytest.mark.parametrize("copied", [
    lambda batch: batch.image.copy(),
    lambda batch: pickle.loads(pickle.dumps(batch)),
    lambda batch: copy.deepcopy(batch),
    lambda batch: batch.image + 1,
    lambda batch: batch.image.tolist(),
], ids=range(5))
def test_copies_let_go_of_the_slot(train, copied):
    loader = loader_of(train)
    kept = copied(next(iter(loader)))
    gc.collect()
    assert loader.held == 0
    assert kept is not None


def test_batches_live_on_after_the_loader(train):
    expected = [batch.image.copy() for batch in loader_of(train)]
    loader = loader_of(train)
    iterator = iter(loader)
    kept = [next(iterator) for _ in range(3)]
    loader.close()
    del loader, iterator
    gc.collect()
    for one, image in zip(kept, expected):
        np.testing.assert_array_equal(one.image, image)
        one.image[:] = 0  # it is its owner's


def test_writing_into_a_batch_changes_no_other(train):
    expected = [batch.image.copy() for batch in loader_of(train)]
    for batch, image in side_by_side(loader_of(train), expected):
        np.testing.assert_array_equal(batch.image, image)
        batch.image[:] = 255


def test_a_consumer_that_raises_in_mid_batch_loses_nothing(train):
    loader = loader_of(train, epochs=-1)
    for turn in range(20):
        with pytest.raises(RuntimeError):
            for batch in loader:
                raise RuntimeError(batch.index)
        del batch
    gc.collect()
    assert loader.held == 0


def test_threads_share_a_loader(train):
    loader = loader_of(train, epochs=30, slots_max=64)
    iterator = iter(loader)
    seen, failures = [], []

    def work():
        kept = None
        try:
            for batch in iterator:
                seen.append((batch.epoch, batch.index, int(batch.image.sum())))
                kept = batch  # dropped one later, on whatever thread
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(seen) == [(batch.epoch, batch.index, int(batch.image.sum())) for batch in loader_of(train, epochs=30)]


def test_a_hundred_threads_over_ten_loaders(train):
    loaders = [loader_of(train, seed=seed, slots_max=32, epochs=4) for seed in range(10)]
    expected = [sorted(int(batch.image.sum()) for batch in loader_of(train, seed=seed, epochs=4)) for seed in range(10)]
    sums = [[] for _ in loaders]
    failures = []

    def work(number, iterator):
        try:
            for batch in iterator:
                sums[number].append(int(batch.image.sum()))
        except BaseException as error:
            failures.append(error)

    threads = []
    for number, loader in enumerate(loaders):
        iterator = iter(loader)
        threads += [threading.Thread(target=work, args=(number, iterator)) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [sorted(one) for one in sums] == expected


def test_a_thousand_loaders_opened_and_dropped(train):
    for turn in range(1000):
        loader = loader_of(train, threads=1 + turn % 3, slots=1 + turn % 4)
        if turn % 2:
            kept = next(iter(loader))
        if turn % 5 == 0:
            loader.close()
    assert kept.image.shape == (32, 24, 24, 3)
    assert threading.active_count() == 1
    assert len(os.listdir("/proc/self/task")) < 60
    assert len(os.listdir("/proc/self/fd")) < 60


def resident_mib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@measures_memory
def test_memory_stays_flat_over_ten_thousand_batches(train):
    loader = loader_of(train, batch=8, augment="rrc(8)", epochs=-1)
    iterator = iter(loader)
    for _ in range(2000):
        next(iterator)
    before = resident_mib()
    for _ in range(10_000):
        batch = next(iterator)
        _ = batch.sample_ids, batch.weight
    assert resident_mib() < before + 2


# --- the end of things


def run_python(program, *arguments, **options):
    return subprocess.run([sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True,
                          timeout=60, **options)


@pytest.mark.parametrize("end", [
    "",
    "sys.exit(0)",
    "threading.Thread(target=lambda: [len(list(loader)) for _ in range(99)], daemon=True).start()",
    "threading.Thread(target=loader.dataset.export, args=(sys.argv[2],), kwargs={'progress': lambda *_: time.sleep(0.01)}, "
    "daemon=True).start(); time.sleep(0.3)",
    "cycle = [batch]; cycle.append(cycle); cycle.append(loader); del loader, iterator, batch",
    "import builtins; builtins.kept = (loader, batch)",
    "loader.close()",
])
def test_the_interpreter_ends_with_batches_in_flight(train, tmp_path, end):
    program = ("import dlpipe, sys, threading, time\n"
               "loader = dlpipe.Loader(sys.argv[1], augment='rrc(24)', batch=32)\n"
               "iterator = iter(loader)\n"
               "batch = next(iterator); other = next(iterator).image[3:]\n"
               "print('begun', flush=True)\n" + end)
    for turn in range(3):
        done = run_python(program, train, tmp_path / str(turn))
        assert (done.returncode, done.stdout, done.stderr) == (0, "begun\n", "")


@pytest.mark.parametrize("end, code, words", [("", 0, ""), ("1 / 0", 1, "ZeroDivisionError: division by zero\n")])
def test_the_interpreter_ends_while_a_daemon_thread_takes_batches(train, end, code, words):
    """As a program's own prefetching does."""
    program = ("import dlpipe, sys, threading, time\n"
               "loader = dlpipe.Loader(sys.argv[1], augment='rrc(24)', batch=4, epochs=-1)\n"
               "def take():\n"
               "    for batch in loader: pass\n"
               "threading.Thread(target=take, daemon=True).start()\n"
               "time.sleep(0.3)\n" + end)
    for _ in range(3):
        done = run_python(program, train)
        assert (done.returncode, done.stdout) == (code, "")
        assert done.stderr.endswith(words) and (words or not done.stderr)


def test_ctrl_c_ends_a_waiting_next_at_once(train, tmp_path):
    # one batch of 15 GB of pixels takes long, and is never touched but as far as it has come
    program = ("import dlpipe, sys, time\n"
               "loader = dlpipe.Loader(sys.argv[1], augment='resize(4000x4000)', batch=320, threads=1, slots=1)\n"
               "iterator = iter(loader)\n"
               "print('waiting', flush=True)\n"
               "try:\n"
               "    next(iterator)\n"
               "except KeyboardInterrupt:\n"
               "    print(time.monotonic(), flush=True)\n"
               "    import os; os._exit(0)\n")
    process = subprocess.Popen([sys.executable, "-c", program, str(train)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "waiting\n"
    time.sleep(0.2)
    pressed = time.monotonic()
    process.send_signal(signal.SIGINT)
    said = process.stdout.readline()
    process.kill()
    process.wait()
    assert said, "it was not interrupted"
    assert float(said) - pressed < 10  # how long it takes: endurance.py --only ctrl_c


FORK = """
import dlpipe, gc, os, signal, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, which is what this is about
def open_loader():
    return dlpipe.Loader(sys.argv[1], augment="rrc(24)", batch=32)
loader = open_loader()
iterator = iter(loader)
batch = next(iterator)
expected = int(batch.image.sum())
child = os.fork()
if child == 0:
    signal.alarm(30)
    for what in (lambda: next(iterator), lambda: iter(loader), open_loader, loader.state_dict, loader.stats,
                 lambda: loader.load_state_dict({}), lambda: loader.set_epoch(1), lambda: loader.held):
        try:
            what()
            print("nothing was raised", flush=True)
        except dlpipe.MisuseError as error:
            if "forked" not in str(error) or "spawn" not in str(error): print(error, flush=True)
    print("pixels as before:", int(batch.image.sum()) == expected, flush=True)
    del batch, iterator
    loader.close()
    del loader
    gc.collect()
    sys.exit(0)
print("child:", os.waitpid(child, 0)[1])
print("parent:", next(iterator).index)
"""


def test_a_forked_child_is_told_what_to_do(train):
    done = run_python(FORK, train)
    assert (done.returncode, done.stdout) == (0, "pixels as before: True\nchild: 0\nparent: 1\n"), done.stderr


def test_a_child_that_is_forked_while_a_thread_waits_ends(train):
    # one batch of 15 GB of pixels takes long, and is never touched but as far as it has come
    program = ("import dlpipe, os, signal, sys, threading, time, warnings\n"
               "warnings.simplefilter('ignore', DeprecationWarning)  # of forking with threads, which is what this is about\n"
               "loader = dlpipe.Loader(sys.argv[1], augment='resize(4000x4000)', batch=320, threads=1, slots=1)\n"
               "threading.Thread(target=lambda: next(iter(loader)), daemon=True).start()\n"
               "time.sleep(0.2)\n"
               "child = os.fork()\n"
               "if child == 0:\n"
               "    signal.alarm(5)\n"
               "    sys.exit(0)\n"
               "print(os.waitpid(child, 0)[1], flush=True)\n"
               "os._exit(0)\n")
    done = run_python(program, train)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def count_batches(data):
    return sum(1 for _ in loader_of(data))


def test_spawned_processes_have_loaders_of_their_own(train):
    next(iter(loader_of(train)))
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(count_batches, [train, train]) == [10, 10]


def test_a_killed_process_is_gone_on_with(train):
    program = ("import dlpipe, sys, json\n"
               "loader = dlpipe.Loader(sys.argv[1], augment='rrc(24) hflip', batch=32, seed=1, epochs=-1)\n"
               "if sys.argv[2]: loader.load_state_dict(json.loads(sys.argv[2]))\n"
               "for batch in loader:\n"
               "    print(json.dumps([int(batch.image.sum()), loader.state_dict()]), flush=True)\n")
    expected = []
    for batch in loader_of(train, epochs=-1):
        expected.append(int(batch.image.sum()))
        if len(expected) == 100:
            break
    got, state = [], ""
    draw = random.Random(7)
    for _ in range(50):
        process = subprocess.Popen([sys.executable, "-c", program, str(train), state], stdout=subprocess.PIPE, text=True)
        for _ in range(draw.randrange(3)):
            total, place = json.loads(process.stdout.readline())
            got.append(total)
            state = json.dumps(place)
        process.kill()
        process.wait()
    assert len(got) > 30 and got == expected[:len(got)]


def test_a_dataset_that_is_removed_under_a_loader(images, tmp_path):
    import shutil

    from conftest import run_program
    run_program("ingest", images, tmp_path / "data")
    loader = loader_of(tmp_path / "data", epochs=2)
    iterator = iter(loader)
    next(iterator)
    shutil.rmtree(tmp_path / "data")
    assert sum(1 for _ in iterator) == 2 * 12 - 1  # the map stays
    with pytest.raises(FileNotFoundError):
        loader_of(tmp_path / "data")


@measures_memory
def test_no_memory_is_a_memory_error(train):
    program = ("import dlpipe, resource, sys\n"
               "loader = dlpipe.Loader(sys.argv[1], augment='resize(512x512)', batch=32, threads=1, slots=1, slots_max=1000, epochs=-1)\n"
               "iterator = iter(loader); first = next(iterator)\n"
               "with open('/proc/self/statm') as file: taken = int(file.read().split()[0]) * 4096\n"
               "resource.setrlimit(resource.RLIMIT_AS, (taken + (256 << 20),) * 2)\n"
               "kept = [first]\n"
               "try:\n"
               "    while True: kept.append(next(iterator))\n"
               "except MemoryError as error:\n"
               "    print(type(error).__name__, error)\n"
               "try:\n"
               "    dlpipe.Loader(sys.argv[1], augment='resize(4096x4096)', batch=320)\n"
               "except MemoryError as error:\n"
               "    print(type(error).__name__, error)\n"
               "del kept[3:]\n"
               "print(next(iterator).epoch > 0)\n")
    done = run_python(program, train)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3 and all(line.startswith("OutOfMemoryError [loader] ") for line in lines[:2]), done.stdout
    assert lines[2] == "True"
