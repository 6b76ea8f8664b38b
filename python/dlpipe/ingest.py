"""`dlpipe ingest` as a function."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from dlpipe import _dlpipe, arrow
from dlpipe.errors import MisuseError
from dlpipe.from_dataset import from_dataset
from dlpipe.arguments import kinds_checked
from dlpipe.arguments import Path, paths_as_bytes
from dlpipe.arguments import Progress, Reporter, TqdmProgress
from dlpipe.writer import StoringOptions, check_names, documented

if TYPE_CHECKING:
    from typing_extensions import Unpack


def _fractions(split):
    """The value for --split."""
    if isinstance(split, str):
        return split
    if not isinstance(split, Iterable):
        raise TypeError(f"split={split!r}; give the fractions of train, val and test, such as (0.9, 0.1)")
    return ",".join(map(str, split))


def _show(bar, now):
    shown = {"limit": now["limit"]}
    if now["skipped"]:
        shown["skipped"] = now["skipped"]
    bar.update(now["done"], now["total"], "img", **shown)


def _as_dicts(progress: Callable[..., object]) -> Callable[[int, int], None]:
    """A function of (done, total) that calls `progress` with a dict, as ingest does."""
    begin = time.monotonic()

    def call(done, total):
        seconds = max(time.monotonic() - begin, 1e-9)
        progress({"split": "", "done": done, "total": total, "skipped": 0, "seconds": seconds, "samples_per_s": done / seconds,
                  "remaining_s": seconds / max(done, 1) * (total - done), "limit": ""})  # fmt: skip

    return call


def _ingest_arrow(files, dst, no_splits, limit, split, seed, progress, storing, others):
    options = inspect.signature(ingest).parameters
    for name, value in others.items():
        if value != options[name].default:
            raise MisuseError(f"[ingest] {name} has no effect on Parquet and Arrow files; leave it out, or see dlpipe.from_dataset")
    if callable(progress) and not isinstance(progress, TqdmProgress):
        progress = _as_dicts(progress)
    tables = arrow.parts(files, no_splits)
    if split or limit != -1:
        tables = arrow.draw(tables, limit, split, seed)
    # Bad images are skipped, as with all other files.
    return from_dataset(tables, dst, progress=progress, **{"on_error": "auto", **storing})


@documented
@kinds_checked("ingest")
def ingest(
    src: Path | Iterable[Path],
    dst: Path,
    *,
    list: Path = "",
    manifest: Path = "",
    label: str = "",
    field: str | Iterable[str] = (),
    labels: Path = "",
    images: Path = "",
    classes_from: Path = "",
    limit: int = -1,
    split: str | Iterable[float] = "",
    group: str = "",
    folds: int = 0,
    part: str = "",
    dedup: str = "off",
    no_splits: bool = False,
    length: int = 256,
    seed: int = 0,
    window: int | str = "256MiB",
    progress: Progress = None,
    **storing: Unpack[StoringOptions],
) -> dict[str, Any]:
    """Creates the dataset `dst` from files, as `dlpipe ingest` does. If it is killed or stopped by Ctrl-C, call it again with
    the same arguments to resume. `dst` appears once it is complete.

    Args:
        src: what to read, a path or several: a folder with one folder per class, or with train, val and test folders of
            those; archives, WebDataset shards, lists of path,label, IDX files, texts ("shards-{000..127}.tar" and
            wildcards are expanded). `dlpipe help sources` lists all kinds. Parquet and Arrow files, or a folder of them as
            downloaded from the Hugging Face hub, are read with pyarrow. They accept limit, split, no_splits, seed, progress and
            the options of storing, and an existing dst is refused, because it can't be compared with the rows.
        dst: the dataset to create.
        list: a file with more sources, one per line.
        manifest: a list of path,label[,split,...]. Paths are absolute or relative to src.
        label: the column or JSON key that names the class, if it isn't found automatically.
        field: "COLUMN:KIND" for each column of a list that is not plain text, such as "age:number", "tags:labels" or
            "bbox:boxes-xywh", or "COLUMN:KIND:BOXES" for one label or number per box. One or several.
        labels: a file with one class per line, for images without class folders, in the order of their names.
        images: the folder of the images that src (a list or a COCO .json) describes. Found automatically if it is next to src.
        classes_from: a dataset with the class order to use, or a file with one class per line.
        limit: use at most this many files, chosen with the seed; -1: all.
        split: fractions of train, val and test, applied to each class: "0.9,0.1" or (0.9, 0.1).
        group: a field whose equal values stay together in splits and folds, such as "patient"; "folder": images of the same
            folder. The splits of src itself are checked for it.
        folds: number the samples 1 to `folds` in a field "fold", each class evenly, for cross-validation: train(fold="1").
        part: store only this part of the files, such as "3/16", here or on another machine; `dlpipe join` joins the parts.
        dedup: what to do about copies, images with the same pixels or nearly the same: "drop" stores only the first by path,
            "group" keeps them together in `split` and `folds`. Both decode every file twice.
        no_splits: don't make splits of folders, files and a column called train, val or test.
        length: tokens per sequence, for texts.
        seed: of split, folds and limit.
        window: bytes to read ahead of the writer, a number or a string such as "1GiB".
        progress: called a few times per second with a dict of done, total, skipped, samples_per_s, remaining_s, limit and more.
            True or dlpipe.TqdmProgress() for a tqdm bar.
        {storing}

    Returns:
        What `dlpipe ingest --json` prints, as a dict: datasets, classes, skipped, warnings, seconds, ... A warning also names
        the files that were skipped.

    Raises:
        dlpipe.Error: a subclass that fits. Ctrl-C: dlpipe.CancelledError, which is a KeyboardInterrupt.
    """
    check_names(storing, ingest)
    sources = paths_as_bytes("ingest", "src", src)
    if not isinstance(src, (str, bytes, os.PathLike)):
        src = [*map(os.fsdecode, sources)]
    if files := arrow.source(src):
        others = {"list": list, "manifest": manifest, "label": label, "field": field, "labels": labels, "images": images,
                  "classes_from": classes_from, "group": group, "folds": folds, "part": part, "dedup": dedup, "length": length,
                  "window": window}  # fmt: skip
        return _ingest_arrow(files, dst, no_splits, limit, _fractions(split), seed, progress, storing, others)
    with Reporter(progress, _show) as call:
        return _dlpipe.ingest(
            sources=sources,
            destination=os.fsencode(dst),
            list=os.fsencode(list),
            manifest=os.fsencode(manifest),
            label=label,
            field=[field] if isinstance(field, str) else [*field],
            labels=os.fsencode(labels),
            images=os.fsencode(images),
            classes_from=os.fsencode(classes_from),
            limit=limit,
            split=_fractions(split),
            group=group,
            folds=folds,
            part=part,
            dedup=dedup,
            no_splits=no_splits,
            length=length,
            seed=seed,
            window=window,
            storing={**storing},
            progress=call,
        )
