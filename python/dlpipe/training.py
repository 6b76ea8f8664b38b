"""Training, evaluation and prediction, as the program's commands do them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dlpipe import _dlpipe
from dlpipe.errors import MisuseError
from dlpipe.kinds import Augment, kinds_checked
from dlpipe.paths import Path, paths_as_bytes, read_file
from dlpipe.pictures import picture
from dlpipe.progress import Progress, Reporter
from dlpipe.recipes import chain_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from dlpipe.pictures import Picture


def _option(value):
    """As on the command line, in bytes: a path may be no text."""
    if hasattr(value, "tolist"):
        value = value.tolist()  # NumPy's and torch's numbers as Python's
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, (list, tuple)):
        return b",".join(map(_option, value))
    return os.fsencode(value if isinstance(value, (str, bytes, os.PathLike)) else str(value))


def _given(options):
    return [(name.replace("_", "-"), _option(value)) for name, value in options.items() if value is not None]


def _show(bar, now):
    bar.update(now["step"], now["total_steps"], "step", loss=f"{now['loss']:.4f}", epoch=f"{now['epoch']:.2f}",
               **({"limit": now["limit"]} if now["limit"] else {}))  # fmt: skip


@kinds_checked("train")
def train(
    data: Path | None = None,
    *,
    resume: Path = "",
    config: Path = "",
    on_step: Callable[[int, float], object] | None = None,
    on_validation: Callable[[dict[str, Any]], object] | None = None,
    progress: Progress = None,
    **options: Any,
) -> dict[str, Any]:
    """Trains a model, as `dlpipe train` does: the same run directory, the same receipt and weights, bit for bit.

        dlpipe.train("data", model="resnet18", augment="rrc(224) hflip", epochs=20, out="runs/a", progress=True)
        dlpipe.train(resume="runs/a")

    Ctrl-C saves a checkpoint and raises; a second one ends the process at once. An exception of a function of yours does
    the same and comes out.

    Args:
        data: the dataset, a folder of splits, or pictures (a folder by class or tar archives), which are linked first.
        resume: a run to go on with, the same bits as if it had never stopped.
        config: a TOML file of options; those given here go before it. Its paths are relative to the current folder.
        on_step: called after every step as on_step(step, loss).
        on_validation: called after every validation with a dict: step, epoch, samples, loss, metrics, is_best.
        progress: called with a dict of step, total_steps, epoch, loss (the mean over loss_steps, those since the call
            before), lr, samples_per_s, limit ("" while it is too early to judge) and more, a few times per second; True, or
            dlpipe.TqdmProgress(), for a bar.
        **options: those of `dlpipe train --help-all`, with _ for -: model, epochs, batch, lr, optimizer, weight_decay,
            val_augment, ... Lists may be lists, switches True or False.

    Returns:
        What `dlpipe train --json` prints, as a dict: run, steps, loss, validation, best, ledger, ...

    Raises:
        dlpipe.Error: of the kind that fits. Ctrl-C: dlpipe.CancelledError, which is a KeyboardInterrupt.
    """
    with Reporter(progress, _show) as call:
        chains = {name: chain_of(name, options[name]) for name in ("augment", "val_augment") if options.get(name) is not None}
        given = _given({"data": data, **options, **chains})
        return _dlpipe.train(os.fsencode(resume), os.fsencode(config), given, on_step, call, on_validation)


def _model(weights, model, classes, val_augment, tta, dtype):
    return {"weights": os.fsencode(weights), "model": model, "classes": os.fsencode(classes), "val_augment": val_augment,
            "tta": tta, "dtype": dtype}  # fmt: skip


@kinds_checked("eval")
def evaluate(
    ckpt: Path,
    data: Path,
    *,
    model: str = "",
    classes: Path = "",
    val_augment: Augment = "",
    tta: str = "",
    dtype: str = "",
    split: str = "",
    batch: int = 64,
    threads: int = 0,
    limit: int = -1,
    device: str = "cpu",
    tf32: bool = False,
    report: bool = False,
    predictions: bool = False,
    top: int = 5,
    progress: Progress = None,
) -> dict[str, Any]:
    """Judges a trained model on a dataset, as `dlpipe eval` does.

    Args:
        ckpt: a run (its best checkpoint), a checkpoint, a compiled model, an ONNX file, or a safetensors file.
        data: a dataset, or a folder of splits, of which `split` is taken, by default "val".
        model, classes: of a bare safetensors file, which doesn't say; `classes` of an ONNX file, too.
        val_augment, tta, dtype: other than the checkpoint says.
        split: which one of a folder of splits.
        batch: samples at once.
        threads: 0: as many as the process may use.
        limit: so many samples, a fixed subset from the whole dataset; -1: all.
        device: "cpu" or "cuda".
        tf32: f32 convolutions and products may use the GPU's TF32, with 10 bits of mantissa.
        report: also each class, and the confusion matrix.
        predictions: also what the model answered to each sample, its `top` classes.
        top: how many these are.
        progress: called as progress(done, total); True, or dlpipe.TqdmProgress(), for a bar.

    Returns:
        What `dlpipe eval --json` prints, as a dict: samples, loss, metrics, report, ...; with predictions=True also
        "predictions", a list of the dicts that --predictions writes.
    """
    with Reporter(progress, lambda bar, done, total: bar.update(done, total, "img")) as call:
        answer, lines = _dlpipe.evaluate(
            model=_model(ckpt, model, classes, val_augment, tta, dtype), data=os.fsencode(data), split=split, batch=batch,
            threads=threads, limit=limit, device=device, tf32=tf32, report=report, predictions=predictions, top=top,
            progress=call,
        )  # fmt: skip
    return {**answer, "predictions": lines} if predictions else answer


class Predictor:
    """A trained model, ready for pictures.

        predictor = dlpipe.Predictor("runs/a")
        predictor("cat.jpg")                     # numpy float32 [classes]: their probabilities
        predictor([array, image, data])          # [3, classes], in batches
        predictor.top(array, 3)                  # [("cat", 0.97), ("dog", 0.02), ("fox", 0.004)]

    A picture is a path, bytes of a JPEG or PNG, a uint8 array [height, width, channels], a PIL.Image, or a torch uint8
    tensor [channels, height, width], of any size; an array or a tensor of four axes is several. Each is cut and normalised as
    the checkpoint says, by the code that does it for `dlpipe eval` and `dlpipe predict`, so that the probabilities are
    theirs. A file and a PIL.Image are turned as their EXIF orientation says. Any thread may call it; one works at a time. On a
    GPU a thread's first call makes its stream, its handles and its plans of the libraries, which takes a while, and memory
    of its own: call it from a few threads that stay.

    Args:
        ckpt: a run (its best checkpoint), a checkpoint, a compiled model, an ONNX file, or a safetensors file.
        model, classes: of a bare safetensors file, which doesn't say: the model, and a text file of names or a dataset.
            `classes` of an ONNX file, too.
        val_augment, tta, dtype: other than the checkpoint says.
        device: "cpu" or "cuda".
        threads: 0: as many as the process may use.
        batch: pictures at once, at most.
        max_pixels: larger pictures are an error.
    """

    @kinds_checked("predict")
    def __init__(
        self,
        ckpt: Path,
        *,
        model: str = "",
        classes: Path = "",
        val_augment: Augment = "",
        tta: str = "",
        dtype: str = "",
        device: str = "cpu",
        threads: int = 0,
        batch: int = 64,
        max_pixels: int = 178_956_970,
        _top: int = 5,
    ) -> None:
        self._predictor = _dlpipe.Predictor(
            model=_model(ckpt, model, classes, val_augment, tta, dtype), batch=batch, threads=threads, device=device,
            max_pixels=max_pixels, top=_top,
        )  # fmt: skip
        self.classes: list[str] = self._predictor.classes
        self._ckpt = os.fsdecode(ckpt)

    def __repr__(self) -> str:
        return f"dlpipe.Predictor({self._ckpt!r}): {len(self.classes)} classes"

    def __call__(self, pictures: Path | Picture | Sequence[Path | Picture]) -> npt.NDArray[np.float32]:
        """Probabilities, numpy float32: [classes] of one picture, [n, classes] of a list, or of four axes.

        No more than a batch of them is read and decoded at once, and Ctrl-C ends it between batches.
        """
        many = isinstance(pictures, (list, tuple)) or getattr(pictures, "ndim", 0) == 4
        all_of_them: Any = [*pictures] if many else [pictures]  # type: ignore[misc]
        found = self._predictor.probabilities(all_of_them, _load)
        return found if many else found[0]

    def top(self, pictures: Path | Picture | Sequence[Path | Picture], k: int = 5) -> list[Any]:
        """The k most probable classes of one picture as (name, probability), or a list of these for several."""
        if k < 1:
            raise MisuseError(f"[predict] k is {k}; give a number of classes from 1 on")
        found = self(pictures)
        if found.ndim == 2:
            return [self._top(row, k) for row in found]
        return self._top(found, k)

    def _top(self, row, k):
        return [(self.classes[i], float(row[i])) for i in (-row).argsort(kind="stable")[:k]]

    @property
    def val_augment(self) -> str:
        """What happens to a picture before the model sees it."""
        return self._predictor.val_augment


def _load(one):
    return read_file("predict", one) if isinstance(one, (str, os.PathLike)) else picture(one)


@kinds_checked("predict")
def predict(
    ckpt: Path, paths: Path | Iterable[Path], *, top: int = 5, progress: Progress = None, **options: Any
) -> list[dict[str, Any]]:
    """Classifies image files, and folders of them, as `dlpipe predict` does.

    Args:
        ckpt, **options: as of dlpipe.Predictor.
        paths: a path or several.
        top: classes for each file.
        progress: called as progress(done, total); True, or dlpipe.TqdmProgress(), for a bar.

    Returns:
        What `dlpipe predict --json` prints, as a list of dicts: path, class, probability, top; or error, where a file can't
        be used.
    """
    files = paths_as_bytes("predict", "paths", paths)
    predictor = Predictor(ckpt, _top=top, **options)
    with Reporter(progress, lambda bar, done, total: bar.update(done, total, "img")) as call:
        return predictor._predictor.predict(files, call)
