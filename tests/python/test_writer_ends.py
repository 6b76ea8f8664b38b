"""How a dlpipe.Writer ends: done, by an exception, forgotten, forked, killed."""

import gc
import json
import pathlib
import random
import signal
import subprocess
import sys
import time

import dlpipe
import pytest
from test_dataset import dataset_files
from test_writer import pixels_of


def test_a_damaged_image_stops_it_and_nothing_stays(images, tmp_path):
    data = (images / "disc" / "00001.jpg").read_bytes()
    with pytest.raises(dlpipe.CorruptError, match=r"sample 1 \(half.jpg\)"):
        with dlpipe.Writer(tmp_path / "d") as writer:
            writer.write(image=data, label=0, path="whole.jpg")
            writer.write(image=data[: len(data) // 2], label=0, path="half.jpg")
    assert list(tmp_path.iterdir()) == []
    with dlpipe.Writer(tmp_path / "d", on_error="skip") as writer:
        writer.write(image=data, label=0, path="whole.jpg")
        writer.write(image=data[: len(data) // 2], label=0, path="half.jpg")
    assert [s["path"] for s in writer.report["skipped"]] == ["half.jpg"]


def test_an_exception_leaves_nothing_where_nothing_was_committed(tmp_path):
    with pytest.raises(ZeroDivisionError):
        with dlpipe.Writer(tmp_path / "d") as writer:
            writer.write(image=pixels_of(1), label=0)
            1 / 0
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(dlpipe.MisuseError, match="finished or abandoned"):
        writer.write(image=pixels_of(1), label=0)


def test_close_makes_the_dataset(tmp_path):
    writer = dlpipe.Writer(tmp_path / "d", classes=["a"])
    writer.write(image=pixels_of(1), label="a")
    writer.close()
    writer.close()
    assert len(dlpipe.Dataset(tmp_path / "d")) == 1 and writer.report["datasets"][0]["samples"] == 1
    with dlpipe.Writer(tmp_path / "e") as writer:
        writer.write(image=pixels_of(1), label=0)
        writer.close()
    assert len(dlpipe.Dataset(tmp_path / "e")) == 1


def test_close_says_why_there_is_no_dataset(images, tmp_path):
    data = (images / "disc" / "00001.jpg").read_bytes()
    writer = dlpipe.Writer(tmp_path / "d")
    writer.write(image=data[: len(data) // 2], label=0, path="half.jpg")
    with pytest.raises(dlpipe.CorruptError, match=r"sample 0 \(half.jpg\)"):
        writer.close()
    writer.close()
    assert list(tmp_path.iterdir()) == []


def test_abandon_drops_the_samples(tmp_path):
    with dlpipe.Writer(tmp_path / "d") as writer:
        writer.write(image=pixels_of(1), label=0)
        writer.abandon()
    assert list(tmp_path.iterdir()) == [] and writer.report is None


def test_a_forgotten_writer_warns(tmp_path):
    writer = dlpipe.Writer(tmp_path / "d")
    writer.write(image=pixels_of(1), label=0)
    with pytest.warns(ResourceWarning, match="1 samples was destroyed before its dataset was completed; call close"):
        del writer
        gc.collect()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("error")
def test_writers_that_are_done_or_never_began_do_not_warn(tmp_path):
    with dlpipe.Writer(tmp_path / "d") as writer:
        writer.write(image=pixels_of(1), label=0)
    del writer
    with pytest.raises(dlpipe.MisuseError):
        dlpipe.Writer(tmp_path / "e", quality=101)
    del_me = dlpipe.Writer(tmp_path / "f")
    del del_me
    gc.collect()


def test_what_is_there_is_not_written_over(train, tmp_path):
    with pytest.raises(dlpipe.MisuseError, match="already exists"):
        dlpipe.Writer(train)
    with dlpipe.Writer(tmp_path / "d") as writer:
        writer.write(image=pixels_of(1), label=0)
        with pytest.raises(dlpipe.MisuseError, match="process .* is writing"):
            dlpipe.Writer(tmp_path / "d")


FORKING = """
import gc, os, sys, warnings
import dlpipe
import numpy as np
warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, which is what this is about
end, pixels, count = sys.argv[2], np.zeros((1000, 1000, 3), np.uint8), int(sys.argv[3])
writer = dlpipe.Writer(sys.argv[1])
for i in range(count):
    writer.write(image=pixels + np.uint8(i), label=i)
child = os.fork()
if child == 0:
    try:
        if end == "exit":
            with writer:
                sys.exit(0)
        elif end == "del":
            del writer
            gc.collect()
        elif end == "abandon":
            writer.abandon()
        else:
            getattr(writer, end)(**({"image": pixels} if end == "write" else {}))
    except dlpipe.MisuseError as error:
        print(error, flush=True)
    except SystemExit:
        pass
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
writer.write(image=pixels, label=0)
writer.close()
print(len(dlpipe.Dataset(sys.argv[1])))
"""


# Of 13 such images the first are written and none is committed, of 20 some are, and some are with the writer's threads.
@pytest.mark.parametrize("count", [1, 13, 20])
@pytest.mark.parametrize("end, is_refused", [("exit", False), ("del", False), ("abandon", False), ("write", True),
                                             ("close", True)])  # fmt: skip
def test_a_forked_child_leaves_its_parents_writer_alone(tmp_path, end, is_refused, count):
    done = subprocess.run([sys.executable, "-W", "error", "-c", FORKING, tmp_path / "d", end, str(count)], capture_output=True,
                          text=True, timeout=120)  # fmt: skip
    assert done.returncode == 0 and done.stderr == "", done.stderr
    *refused, samples = done.stdout.splitlines()
    assert int(samples) == count + 1
    assert len(refused) == is_refused and all("[writer] this process was forked" in line for line in refused)


WRITING = """
import sys
import dlpipe
import numpy as np
rng = np.random.default_rng(1)
base = rng.integers(0, 256, (120, 120, 3), np.uint8)
with dlpipe.Writer(sys.argv[1], interrupted=sys.argv[2]) as writer:
    print(writer.position, flush=True)
    for i in range(writer.position, 3000):
        writer.write(image=np.roll(base, i, axis=1), label=f"c{i // 1000}", path=str(i))
        if i == 2500 and sys.argv[2] == "refuse":
            print("there", flush=True)
            sys.stdin.readline()
"""


def test_killed_and_resumed_gives_the_same_bytes(tmp_path):
    def run(name, interrupted, kill_after=None, kill_there=False):
        process = subprocess.Popen([sys.executable, "-c", WRITING, tmp_path / name, interrupted],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip
        position = int(process.stdout.readline())
        if kill_there:
            process.stdout.readline()
            process.send_signal(signal.SIGKILL)
        elif kill_after is not None:
            time.sleep(kill_after)
            process.send_signal(signal.SIGKILL)
        else:
            process.stdin.close()
        process.wait(timeout=120)
        return position

    begin = time.monotonic()
    run("whole", "restart")
    whole = time.monotonic() - begin
    run("killed", "refuse", kill_there=True)
    assert not (tmp_path / "killed").exists()
    with pytest.raises(dlpipe.MisuseError, match="interrupted 'resume'"):
        dlpipe.Writer(tmp_path / "killed")
    draws = random.Random(5)
    positions = []
    for attempt in range(6):
        is_last = attempt == 5
        positions.append(run("killed", "resume", kill_after=None if is_last else draws.uniform(0, whole / 3)))
        if (tmp_path / "killed").exists():
            break
    assert positions[0] > 0 and positions == sorted(positions)
    assert dataset_files(tmp_path / "killed") == dataset_files(tmp_path / "whole")
    assert json.loads((pathlib.Path(tmp_path) / "killed" / "provenance.json").read_text())["files"] == 3000


def test_after_an_exception_another_writer_goes_on(tmp_path):
    image = pixels_of(1, 4, 4)
    with pytest.raises(KeyError):
        with dlpipe.Writer(tmp_path / "d", classes=["a"]) as first:
            for _ in range(40_000):
                first.write(image=image, label=0)
            raise KeyError
    second = dlpipe.Writer(tmp_path / "d", classes=["a"], interrupted="resume")  # while `first` is still there
    assert 16_000 < second.position < 40_000
    second.abandon()
    third = dlpipe.Writer(tmp_path / "d", classes=["a"], interrupted="restart")
    assert third.position == 0
    third.abandon()
    assert first.position > 0 and list(tmp_path.iterdir()) == []
