"""Who waits for whom, and how a process ends: threads that drop batches while others seek, and interpreters that end with a loader,
a batch or an array alive. Each case is a process of its own, which may neither hang nor crash."""

import shutil
import signal
import subprocess
import sys

import pytest
from loaders import CROP

import dlpipe

DATA = f"import sys, dlpipe\ndata, crop = sys.argv[1], {CROP!r}\n"

# An augmentation that needs the interpreter lock, threads that drop batches, and a thread that has the workers waited for.
LOCKS = DATA + """
import ctypes, gc, queue, threading

@dlpipe.CFunction
def in_python(pixels, height, width, channels, key, parameters):
    if in_op is not None:
        in_op()
    first = ctypes.cast(pixels, ctypes.POINTER(ctypes.c_uint8))
    first[0] = (first[0] + 1) % 256

in_op = None
dlpipe.add_augmentation("in_python", in_python, version=1)
options = dict(augment=crop + " in_python", batch=16, seed=1, threads=2, slots=4, slots_max=32, as_="numpy")
loader = dlpipe.Loader(data, **options)
"""

DROPPERS = LOCKS + """
batches, state = queue.SimpleQueue(), loader.state_dict()
def drop():
    while (batch := batches.get()) is not None:
        del batch
droppers = [threading.Thread(target=drop) for _ in range(3)]
for dropper in droppers: dropper.start()
for turn in range(30):
    for number, batch in enumerate(loader):
        batches.put(batch)
        del batch
        if number == turn % 5: break
    move(turn)
for _ in droppers: batches.put(None)
for dropper in droppers: dropper.join()
loader.close()
print("done")
"""


def run(program, train, *arguments, timeout=120):
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", program, str(train), *arguments], capture_output=True,
                          text=True, timeout=timeout)
    return done.returncode, done.stdout.strip(), done.stderr


@pytest.mark.parametrize("move", ["pass", "loader.load_state_dict(state)", "loader.set_epoch(turn % 3)"])
def test_batches_are_dropped_while_an_augmentation_waits_for_the_interpreter(train, move):
    program = DROPPERS.replace("    move(turn)", f"    {move}")
    assert run(program, train) == (0, "done", "")


def test_the_garbage_collector_runs_in_an_augmentation(train):
    """What it finds there are batches, in one thread's own cycles, and loaders, the one that runs the augmentation, too."""
    program = LOCKS + """
in_op = gc.collect
gc.disable()
for turn in range(4):
    for number, batch in enumerate(loader):
        cycle = [batch]
        cycle.append(cycle)
        del batch, cycle
        if number == 3: break
    loader.set_epoch(turn % 2)
class Owner: pass
for turn in range(4):
    owner = Owner()
    owner.loader, owner.owner = dlpipe.Loader(data, **options), owner
    next(iter(owner.loader))
    del owner
gc.collect()
print("done")
"""
    assert run(program, train) == (0, "done", "")


def test_an_augmentation_that_calls_its_own_loader_is_told_so(train):
    program = LOCKS + """
told = []
def in_op():
    try:
        loader.set_epoch(1)
    except dlpipe.MisuseError as error:
        told.append(str(error))
next(iter(loader))
print("which would deadlock" in told[0])
"""
    assert run(program, train) == (0, "True", "")


# --- paths of which reading never ends

ENDLESS = """
import os, resource, sys
import numpy as np
import dlpipe

data, run, out = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
os.mkfifo(f"{out}/pipe")
good = np.zeros((30, 30, 3), np.uint8)
predictor = dlpipe.Predictor(run)
calls = {
    "Predictor": lambda path: dlpipe.Predictor(path),
    "Predictor classes": lambda path: dlpipe.Predictor(run, classes=path),
    "predictor": lambda path: predictor(path),
    "predictor of several": lambda path: predictor([good, path]),
    "evaluate ckpt": lambda path: dlpipe.evaluate(path, data),
    "evaluate data": lambda path: dlpipe.evaluate(run, path),
    "train data": lambda path: dlpipe.train(path, model="lenet", epochs=1, out=f"{out}/a"),
    "train config": lambda path: dlpipe.train(data, config=path, out=f"{out}/b"),
    "train resume": lambda path: dlpipe.train(resume=path),
    "train init": lambda path: dlpipe.train(data, model="lenet", init=path, epochs=1, out=f"{out}/c"),
    "Dataset": lambda path: dlpipe.Dataset(path),
    "Loader": lambda path: dlpipe.Loader(path),
    "Loader of bytes": lambda path: dlpipe.Loader(os.fsencode(path)),
    "Loader quarantine": lambda path: dlpipe.Loader(data, augment="rrc(8)", quarantine=path),
    "Loader cache": lambda path: dlpipe.Loader(data, augment="rrc(8)", cache=path),
    "Writer": lambda path: dlpipe.Writer(path),
    "from_dataset": lambda path: dlpipe.from_dataset([(good, 1)], path),
    "ingest src": lambda path: dlpipe.ingest(path, f"{out}/d"),
    "ingest several": lambda path: dlpipe.ingest([data, path], f"{out}/e"),
    "ingest dst": lambda path: dlpipe.ingest(data, path),
    **{f"ingest {name}": (lambda path, name=name: dlpipe.ingest(data, f"{out}/f", **{name: path}))
       for name in ("list", "manifest", "labels", "images", "classes_from")},
}
for path in ("/dev/zero", f"{out}/pipe"):
    assert "error" in dlpipe.predict(run, [path])[0]
    for name, call in calls.items():
        try:
            call(path)
            print(name, path, "was taken")
        except dlpipe.Error:
            pass
        except Exception as error:
            print(name, path, repr(error))
"""


def test_a_device_and_a_pipe_are_refused_wherever_a_path_is_taken(splits, tmp_path):
    out = tmp_path / "run"
    dlpipe.train(splits, model="lenet", augment="rrc(24)", epochs=1, batch=64, seed=1, out=out)
    code, taken, said = run(ENDLESS, splits, str(out), str(tmp_path))
    assert (code, taken) == (0, ""), said


# --- a dataset that is truncated while it is in use

TRUNCATED = """
import os, sys, dlpipe
data, opened = sys.argv[1:]
os.close(os.open(f"{data}/data.mdb", os.O_RDWR))
dataset = dlpipe.Dataset(data) if opened == "dataset" else None
loader = dlpipe.Loader(data, augment="rrc(8)") if opened == "loader" else None
os.truncate(f"{data}/data.mdb", 0)
if dataset is not None:
    for sample in dataset: pass
else:
    for batch in loader: pass
print("read")
"""


@pytest.mark.parametrize("opened", ["dataset", "loader"])
def test_a_truncated_dataset_is_named_before_the_signal_ends_python(train, tmp_path, opened):
    shutil.copytree(train, tmp_path / "d")
    code, out, said = run(TRUNCATED, str(tmp_path / "d"), opened)
    assert (code, out) == (-signal.SIGBUS, "")
    assert f"{tmp_path}/d/data.mdb: a page could not be read" in said


# --- how an interpreter ends

LOADER = "loader = dlpipe.Loader(data, augment=crop, batch=32, as_=sys.argv[2], epochs=-1)\n"
ENDS = {
    "a loader": (0, LOADER),
    "a batch of a loader that is gone": (0, LOADER + "batch = next(iter(loader))\ndel loader\n"),
    "a loop left early": (0, "for batch in dlpipe.Loader(data, augment=crop, batch=32, as_=sys.argv[2]): break\n"),
    "a closed loader": (0, LOADER + "iterator = iter(loader)\nbatch = next(iterator)\nloader.close()\n"),
    "an iterator": (0, LOADER + "iterator = iter(loader)\nbatch = next(iterator)\n"),
    "sys.exit in the loop": (3, LOADER + "for batch in loader: sys.exit(3)\n"),
    "an exception in the loop": (1, LOADER + "for batch in loader: raise KeyError\n"),
    "a thread that takes batches": (0, LOADER + "import threading, time\n"
                                    "threading.Thread(target=lambda: [0 for _ in loader], daemon=True).start()\ntime.sleep(0.2)\n"),
    "a child": (5, LOADER + "import os\nbatch = next(iter(loader))\nchild = os.fork()\nif child == 0: sys.exit(5)\n"
                "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"),
}


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
def test_an_interpreter_ends_with_the_code_that_it_is_told(train, framework):
    pytest.importorskip(framework)
    endings = ENDS if framework == "numpy" else {"an iterator": ENDS["an iterator"]}
    for name, (code, program) in endings.items():
        ended, _, said = run(f"import {framework}\n{DATA}{program}", train, framework)
        assert ended == code, f"{name}: {said}"
        assert code != 0 or said == "", name


def test_jax_computes_while_the_interpreter_ends(train):
    pytest.importorskip("jax")
    program = "import jax, jax.numpy as jnp\n" + DATA + """
step = jax.jit(lambda x: jnp.sin(x @ jnp.ones((3, 256))).sum())
for i, batch in enumerate(dlpipe.Loader(data, augment=crop, batch=64, dtype="f32")):
    loss = step(batch.image)
    if i == 3: break
"""
    assert run(program, train) == (0, "", "")
