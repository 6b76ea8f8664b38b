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
from dlpipe.kinds import kinds_checked
from dlpipe.paths import Path, paths_as_bytes
from dlpipe.progress import Progress, Reporter, TqdmProgress
from dlpipe.storing import StoringOptions, check_names, documented

if TYPE_CHECKING:
    from typing_extensions import Unpack


def _fractions(split):
    """What --split takes."""
    if isinstance(split, str):
        return split
    if not isinstance(split, Iterable):
        raise TypeError(f"split={split!r}; give the fractions of train, val and test, as (0.9, 0.1)")
    return ",".join(map(str, split))


def _show(bar, now):
    shown = {"limit": now["limit"]}
    if now["skipped"]:
        shown["skipped"] = now["skipped"]
    bar.update(now["done"], now["total"], "img", **shown)


def _as_dicts(progress: Callable[..., object]) -> Callable[[int, int], None]:
    """Calls `progress` with a dict, as ingest does, for (done, total)."""
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
            raise MisuseError(f"[ingest] {name} does nothing for Parquet and Arrow files; leave it out, or see dlpipe.from_dataset")
    if callable(progress) and not isinstance(progress, TqdmProgress):
        progress = _as_dicts(progress)
    tables = arrow.parts(files, no_splits)
    if split or limit != -1:
        tables = arrow.draw(tables, limit, split, seed)
    # Bad pictures are skipped here, as those of all files.
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
    part: str = "",
    no_splits: bool = False,
    length: int = 256,
    seed: int = 0,
    window: int | str = "256MiB",
    progress: Progress = None,
    **storing: Unpack[StoringOptions],
) -> dict[str, Any]:
    """Makes the dataset `dst` of raw files, as `dlpipe ingest` does: killed or stopped by Ctrl-C and called again with the
    same arguments, it goes on where it was. `dst` appears when it is whole.

    Args:
        src: what to read, a path or several: a folder with one folder per class, or with train, val and test folders of
            these; archives, WebDataset shards, lists of path,label, IDX files, texts ("shards-{000..127}.tar" and
            wildcards are expanded). `dlpipe help sources` lists all kinds. Parquet and Arrow files, or a folder of them as
            downloaded from the Hugging Face hub, are read by pyarrow; they take limit, split, no_splits, seed, progress and the
            options of storing, and refuse a dst that exists: whether it holds these rows can't be told.
        dst: the dataset to make.
        list: a file with further sources, one per line.
        manifest: a list of path,label[,split,...], paths below src or absolute.
        label: the column or JSON key that names the class, where it isn't found by itself.
        field: "COLUMN:KIND" for each column of a list that is more than text, such as "age:number", "tags:labels" or
            "bbox:boxes-xywh", or "COLUMN:KIND:BOXES" for one label or number of each box. One or several.
        labels: a file with a class per line, for pictures without class folders, in the order of their names.
        images: the folder of the pictures that src, a list or a COCO .json, describes; found by itself where it lies beside it.
        classes_from: a dataset whose class order to take, or a file with a class per line.
        limit: at most so many files, chosen by the seed; -1: all.
        split: fractions of train, val and test, each class alike: "0.9,0.1" or (0.9, 0.1).
        part: store this part of the files alone, "3/16", here or on another machine; `dlpipe join` makes one dataset of all.
        no_splits: folders, files and a column called train, val or test make no splits.
        length: tokens of a sequence, of texts.
        seed: of split and limit.
        window: bytes read ahead of the writer, a number or a text such as "1GiB".
        progress: called with a dict of done, total, skipped, samples_per_s, remaining_s, limit and more, a few times per
            second; True, or dlpipe.TqdmProgress(), for a tqdm bar.
        {storing}

    Returns:
        What `dlpipe ingest --json` prints, as a dict: datasets, classes, skipped, warnings, seconds, ... Files that were skipped
        are named in a warning, too.

    Raises:
        dlpipe.Error: of the kind that fits. Ctrl-C: dlpipe.CancelledError, which is a KeyboardInterrupt.
    """
    check_names(storing, ingest)
    sources = paths_as_bytes("ingest", "src", src)
    if not isinstance(src, (str, bytes, os.PathLike)):
        src = [*map(os.fsdecode, sources)]
    if files := arrow.source(src):
        others = {"list": list, "manifest": manifest, "label": label, "field": field, "labels": labels, "images": images,
                  "classes_from": classes_from, "part": part, "length": length, "window": window}  # fmt: skip
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
            part=part,
            no_splits=no_splits,
            length=length,
            seed=seed,
            window=window,
            storing={**storing},
            progress=call,
        )
