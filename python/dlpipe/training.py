"""Training, evaluation and prediction, as the program's commands do them."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from dlpipe import _dlpipe
from dlpipe.errors import MisuseError
from dlpipe.arguments import MAX_PIXELS, Augment, Path, Progress, Reporter, encoded, kinds_checked, paths_as_bytes, read_file
from dlpipe.dataset import Sample
from dlpipe.images import as_image
from dlpipe.recipes import chain_of, channels_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from dlpipe.images import ImageLike


def _option(name, value):
    """The value as on the command line, in bytes: a path may not be valid text."""
    if hasattr(value, "tolist"):
        value = value.tolist()  # NumPy's and torch's numbers as Python's
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, (list, tuple)):
        return b",".join(_option(name, one) for one in value)
    if isinstance(value, str):
        encoded(f"[train] {name}", value)
    return os.fsencode(value if isinstance(value, (str, bytes, os.PathLike)) else str(value))


def _given(options):
    return [(name.replace("_", "-"), _option(name, value)) for name, value in options.items() if value is not None]


_ONE_PROCESS = "one call trains in one process; `dlpipe launch --np N train` starts several"
#: What other libraries' trainers take as options.
_NOT_OPTIONS = {
    "callbacks": "give functions as on_step=, on_validation= and progress=",
    **dict.fromkeys(("world_size", "num_processes", "devices", "strategy"), _ONE_PROCESS),
}


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
    """Trains a model, as `dlpipe train` does: the same run directory, receipt and weights, bit for bit.

        dlpipe.train("data", model="resnet18", augment="rrc(224) hflip", epochs=20, out="runs/a", progress=True)
        dlpipe.train(resume="runs/a")

    Ctrl-C saves a checkpoint and raises; a second Ctrl-C ends the process at once. If one of your functions raises, train
    saves a checkpoint and raises that exception.

    Args:
        data: the dataset, a folder of splits, or images (a folder per class or tar archives), which are linked first.
        resume: a run to resume, with the same bits as if it had never stopped.
        config: a TOML file of options; options given here override it. Its paths are relative to the current folder.
        on_step: called after every step as on_step(step, loss).
        on_validation: called after every validation with a dict: step, epoch, samples, loss, metrics, is_best.
        progress: called a few times per second with a dict of step, total_steps, epoch, loss (the mean over loss_steps, the
            steps since the previous call), lr, samples_per_s, limit (the bottleneck; "" while it is too early to judge) and
            more. True or dlpipe.TqdmProgress() for a bar.
        **options: those of `dlpipe train --help-all`, with _ for -: model, epochs, batch, lr, optimizer, weight_decay,
            val_augment, ... Options with several values accept lists; switches accept True or False.

    Returns:
        What `dlpipe train --json` prints, as a dict: run, steps, loss, validation, best, ledger, ...

    Raises:
        dlpipe.Error: a subclass that fits. Ctrl-C: dlpipe.CancelledError, which is a KeyboardInterrupt.
    """
    for name in options.keys() & _NOT_OPTIONS.keys():
        raise MisuseError(f"[train] there is no option {name!r}; {_NOT_OPTIONS[name]}")
    with Reporter(progress, _show) as call:
        chains = {name: chain_of(name, options[name]) for name in ("augment", "val_augment") if options.get(name) is not None}
        channels = channels_of("train", options.get("channels", 0), **chains)
        given = _given({"data": data, **options, **chains, **({"channels": channels} if channels else {})})
        answer = _dlpipe.train(os.fsencode(resume), os.fsencode(config), given, on_step, call, on_validation)
    return answer


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
    fold: int | str = "",
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
    """Evaluates a trained model on a dataset, as `dlpipe eval` does.

    Args:
        ckpt: a run (its best checkpoint), a checkpoint, a compiled model, an ONNX file, or a safetensors file.
        data: a dataset, or a folder of splits.
        model, classes: for a bare safetensors file, which doesn't record them; `classes` also for an ONNX file.
        val_augment, tta, dtype: override those of the checkpoint.
        split: the split to use, if `data` is a folder of splits. Default: "val".
        fold: only the samples with this value of the field "fold", as train(fold=) validates on. Default: all.
        batch: samples per batch.
        threads: 0: as many as the process may use.
        limit: use only this many samples, a fixed subset drawn from the whole dataset; -1: all.
        device: "cpu" or "cuda".
        tf32: let f32 convolutions and products use the GPU's TF32, with 10 bits of mantissa.
        report: also report each class, and the confusion matrix.
        predictions: also return the model's `top` classes for each sample.
        top: number of classes per sample in the predictions.
        progress: called as progress(done, total). True or dlpipe.TqdmProgress() for a bar.

    Returns:
        What `dlpipe eval --json` prints, as a dict: samples, loss, metrics, report, ...; with predictions=True also
        "predictions", a list of the dicts that --predictions writes.
    """
    with Reporter(progress, lambda bar, done, total: bar.update(done, total, "img")) as call:
        answer, lines = _dlpipe.evaluate(
            model=_model(ckpt, model, classes, val_augment, tta, dtype), data=os.fsencode(data), split=split, fold=str(fold), batch=batch,
            threads=threads, limit=limit, device=device, tf32=tf32, report=report, predictions=predictions, top=top,
            progress=call,
        )  # fmt: skip
    return {**answer, "predictions": lines} if predictions else answer


class Segmentation(NamedTuple):
    """The class of each pixel of an image."""

    #: uint8 [height, width] of the upright image: numbers of Predictor.classes; 255 where val_augment cropped the image.
    mask: npt.NDArray[np.uint8]
    #: The share of each class that occurs, by its name: of the pixels of the mask that are not 255.
    shares: dict[str, float]


class Detections(NamedTuple):
    """The objects in an image, the highest score first."""

    #: float32 [n, 4]: x_min, y_min, x_max, y_max in pixels of the upright image.
    boxes: npt.NDArray[np.float32]
    #: float32 [n].
    scores: npt.NDArray[np.float32]
    #: int64 [n]: numbers of Predictor.classes.
    labels: npt.NDArray[np.int64]


_OUTPUTS = {"segment": Segmentation, "detect": Detections}


class Predictor:
    """A trained model, ready for images.

        predictor = dlpipe.Predictor("runs/a")
        predictor("cat.jpg")                     # numpy float32 [classes]: their probabilities
        predictor([array, image, data])          # [3, classes], in batches
        predictor.top(array, 3)                  # [("cat", 0.97), ("dog", 0.02), ("fox", 0.004)]

    For a segmentation model, predictor("cat.jpg") is a dlpipe.Segmentation; for a detector, it is a dlpipe.Detections.

    An image is a path, bytes of a JPEG or PNG (also in an io.BytesIO), a uint8 array [height, width, channels], a PIL.Image, or a
    torch uint8 tensor [channels, height, width], of any size; or a sample of a dlpipe.Dataset, whose image is used. Several
    images are a list, an iterator, or an array or a tensor with four axes. Images are cropped and
    normalised as the checkpoint says, by the same code as in `dlpipe eval` and `dlpipe predict`, so that the probabilities are
    the same. The EXIF orientation of files and PIL.Images is applied. Any thread may call a Predictor; calls run one at a time.
    On a GPU, a thread's first call creates a stream, library handles and plans, which takes a while and uses memory for each
    thread: call it from a few long-lived threads.

    Args:
        ckpt: a run (its best checkpoint), a checkpoint, a compiled model, an ONNX file, or a safetensors file.
        model, classes: for a bare safetensors file, which doesn't record them: the model, and a text file of class names or a
            dataset. `classes` also for an ONNX file.
        val_augment, tta, dtype: override those of the checkpoint.
        device: "cpu" or "cuda".
        threads: 0: as many as the process may use.
        batch: maximum number of images per batch.
        max_pixels: larger images are an error.
        threshold: for a detector, the smallest score of a box that is returned. Default: 0.5.
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
        max_pixels: int = MAX_PIXELS,
        threshold: float | None = None,
        _top: int = 5,
    ) -> None:
        self._predictor = _dlpipe.Predictor(
            model=_model(ckpt, model, classes, val_augment, tta, dtype), batch=batch, threads=threads, device=device,
            max_pixels=max_pixels, top=_top, threshold=threshold,
        )  # fmt: skip
        self.classes: list[str] = self._predictor.classes
        self._ckpt = os.fsdecode(ckpt)

    def __repr__(self) -> str:
        return f"dlpipe.Predictor({self._ckpt!r}): {len(self.classes)} {'targets' if self.task == 'regress' else 'classes'}"

    def __call__(self, images: Path | ImageLike | Iterable[Path | ImageLike]) -> Any:
        """Probabilities, numpy float32: [classes] for one image, [n, classes] for a list, an iterator or an array with four axes.

        A regression model returns numbers instead, in the units of the data and in the order of `classes`. For a segmentation
        model or a detector: a dlpipe.Segmentation or dlpipe.Detections for one image, a list of them for several.

        Images are read and decoded one batch at a time. Ctrl-C takes effect between batches.
        """
        is_one = isinstance(images, (Sample, io.IOBase))  # a tuple of fields, an iterator of lines
        many = (isinstance(images, (list, tuple, Iterator)) and not is_one) or getattr(images, "ndim", 0) == 4
        all_of_them: Any = [*images] if many else [images]  # type: ignore[misc]
        kind = _OUTPUTS.get(self.task)
        found: Any = self._predictor.probabilities(all_of_them, _load) if kind is None else \
            [kind(*one) for one in self._predictor.predictions(all_of_them, _load)]  # fmt: skip
        return found if many else found[0]

    def top(self, images: Path | ImageLike | Iterable[Path | ImageLike], k: int = 5) -> list[Any]:
        """The k most probable classes of one image, a list of (name, probability), or a list of such lists for several images."""
        if k < 1:
            raise MisuseError(f"[predict] k is {k}; give a number of classes of at least 1")
        if self.task not in ("classify", "multilabel"):
            raise MisuseError(f"[predict] top ranks classes by probability, which a model of the task {self.task} doesn't have; "
                              "call the predictor itself: predictor(images)")  # fmt: skip
        found = self(images)
        if found.ndim == 2:
            return [self._top(row, k) for row in found]
        return self._top(found, k)

    def _top(self, row, k):
        return [(self.classes[i], float(row[i])) for i in (-row).argsort(kind="stable")[:k]]

    @property
    def task(self) -> str:
        """What the model was trained for: "classify", "multilabel", "regress", "segment" or "detect"."""
        return self._predictor.task

    @property
    def val_augment(self) -> str:
        """The expression that prepares images for the model."""
        return self._predictor.val_augment


def _load(one):
    if isinstance(one, Sample):
        one = one._pixels()
    return read_file("predict", one) if isinstance(one, (str, os.PathLike)) else as_image(one)


@kinds_checked("predict")
def predict(
    ckpt: Path,
    paths: Path | Iterable[Path],
    *,
    top: int = 5,
    threshold: float | None = None,
    draw: Path = "",
    model: str = "",
    classes: Path = "",
    val_augment: Augment = "",
    tta: str = "",
    dtype: str = "",
    device: str = "cpu",
    threads: int = 0,
    batch: int = 64,
    max_pixels: int = MAX_PIXELS,
    progress: Progress = None,
) -> list[dict[str, Any]]:
    """Classifies image files, and folders of them, or finds what is in them, as `dlpipe predict` does.

    Args:
        ckpt: a run (its best checkpoint), a checkpoint, a compiled model, an ONNX file, or a safetensors file.
        paths: one path or several.
        top: number of classes per file.
        threshold: for models of several labels or of boxes, the smallest probability of a label or a box that is reported. Default: 0.5.
        draw: for segmentation models and detectors: a folder to write NAME.png to, the model's input image with the masks or
            boxes. A segmentation model also writes NAME.mask.png, the class of each pixel. `drawing` of each result is NAME.png.
        model, classes, val_augment, tta, dtype, device, threads, batch, max_pixels: as for dlpipe.Predictor.
        progress: called as progress(done, total). True or dlpipe.TqdmProgress() for a bar.

    Returns:
        What `dlpipe predict --json` prints, as a list of dicts: path, class, probability and top (for a detector: path and boxes; for a
        segmentation model: path and shares), or path and error for a file that can't be used.
    """
    files = paths_as_bytes("predict", "paths", paths)
    predictor = Predictor(
        ckpt, model=model, classes=classes, val_augment=val_augment, tta=tta, dtype=dtype, device=device, threads=threads, batch=batch,
        max_pixels=max_pixels, threshold=threshold, _top=top,
    )  # fmt: skip
    with Reporter(progress, lambda bar, done, total: bar.update(done, total, "img")) as call:
        return predictor._predictor.predict(files, os.fsencode(draw), call)
