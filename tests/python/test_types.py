"""What mypy makes of the package."""

import pathlib
import re
import subprocess
import sys

import dlpipe
import pytest

pytest.importorskip("mypy")

PROGRAM = '''
import pathlib

import numpy as np
import numpy.typing as npt

import dlpipe


def count(loader: dlpipe.Loader) -> int:
    seen = 0
    for images, labels in loader:
        seen += len(labels)
    return seen


report = dlpipe.ingest(pathlib.Path("a"), "b", split=(0.9, 0.1), on_error="stop", map_size="1GiB", progress=True)
with dlpipe.Writer("c", fields={"image": "image", "x": ("f32", 3)}, quality=80) as writer:
    writer.write(image=np.zeros((4, 4, 3), np.uint8), x=[1, 2, 3])
    writer.write({"image": b""}, split="val")
dlpipe.from_dataset([1, 2], "d", sample=lambda item: {"image": item}, workers=2, store="jpeg")

dataset = dlpipe.Dataset("b")
part: dlpipe.Dataset = dataset[::2]
sample: dlpipe.Sample = dataset[np.int64(3)]
data: bytes = dataset.file(3)
labels: npt.NDArray[np.int64] = dataset.labels

chosen = [dlpipe.Loader(part), dlpipe.Loader("b", subset=labels == 3), dlpipe.Loader("b", subset=["cat"], on_bad="drop"),
          dlpipe.Loader("b", subset=np.where(labels == 3)), dlpipe.Loader("b", subset=np.array(["cat"]))]
with dlpipe.Loader("b", augment="rrc(8)", batch=4, as_="numpy", mean=(0.5,), std=(0.5,)) as loader:
    place = loader.state_dict()
    batch: dlpipe.Batch
    for batch in loader:
        ids: npt.NDArray[np.int64] = batch.sample_ids
        names: list[str] = batch.path
        print(batch["image"], batch.label, ids, names, batch.epoch + 1)
    loader.load_state_dict(place)
    print(loader.doctor(4000).upper(), len(loader))

trained = dlpipe.train("b", model="cifarnet", epochs=1, on_step=lambda step, loss: print(step, loss))
predictor = dlpipe.Predictor("run")
probabilities: npt.NDArray[np.float32] = predictor(["a.jpg", b""])
print(predictor.top("a.jpg", 2), dlpipe.evaluate("run", "b")["loss"], dlpipe.predict("run", ["a.jpg"])[0]["class"])
try:
    count(loader)
except dlpipe.NotFoundError as error:
    print(error.code, error.filename)
'''

#: What must be told: a line of a program, and mypy's word for its mistake.
MISTAKES = [
    ("dlpipe.Loader('b', batch='4')", "arg-type"),
    ("dlpipe.Loader('b', batsh=4)", "call-arg"),
    ("dlpipe.Loader('b', layout='CHW')", "arg-type"),
    ("dlpipe.Loader('b', on_bad='skip')", "arg-type"),
    ("number: str = next(iter(dlpipe.Loader('b'))).epoch", "assignment"),
    ("dlpipe.ingest('a', 'b', qualty=4)", "call-arg"),
    ("dlpipe.Writer('a', quality='high')", "arg-type"),
    ("dlpipe.Dataset('a').class_name('cat')", "arg-type"),
    ("dlpipe.Dataset('a')['cat']", "index"),
    ("dlpipe.Louder('a')", "attr-defined"),
]


def mypy(*arguments):
    done = subprocess.run([sys.executable, "-m", "mypy", "--no-incremental", "--python-executable", sys.executable,
                           *map(str, arguments)], capture_output=True, text=True)  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_a_users_program_and_its_mistakes(tmp_path):
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(PROGRAM)
    bad.write_text("import dlpipe\n" + "".join(line + "\n" for line, _ in MISTAKES))
    _, said = mypy("--strict", good, bad)
    found = re.findall(r"(good|bad)\.py:(\d+): error: .*\[([a-z-]+)\]", said)
    assert found == [("bad", str(2 + i), code) for i, (_, code) in enumerate(MISTAKES)], said


def test_the_package_agrees_with_its_module(tmp_path):
    """Calls into _dlpipe, whose types are read off the module itself."""
    package = pathlib.Path(dlpipe.__file__).parent
    assert (package / "py.typed").exists() and "class Feed:" in (package / "_dlpipe.pyi").read_text()
    code, said = mypy("--check-untyped-defs", "--ignore-missing-imports", "-p", "dlpipe")
    assert code == 0, said
