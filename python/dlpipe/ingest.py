"""`dlpipe ingest` as a function."""

import os

from dlpipe import _dlpipe
from dlpipe.progress import Reporter


def _paths(given):
    if isinstance(given, (str, bytes, os.PathLike)):
        given = [given]
    return [os.fsencode(path) for path in given]


def _show(bar, now):
    shown = {"limit": now["limit"]}
    if now["skipped"]:
        shown["skipped"] = now["skipped"]
    bar.update(now["done"], now["total"], "img", **shown)


def ingest(
    src,
    dst,
    *,
    list="",
    manifest="",
    label="",
    field=(),
    labels="",
    classes_from="",
    on_error="skip",
    store="auto",
    jpeg="auto",
    trust=False,
    resize_max=0,
    quality=90,
    zstd=False,
    limit=-1,
    split="",
    no_splits=False,
    length=256,
    seed=0,
    window="256MiB",
    threads=0,
    map_size=0,
    max_pixels=178_956_970,
    progress=None,
):
    """Makes the dataset `dst` of raw files, as `dlpipe ingest` does: killed or stopped by Ctrl-C and called again with the
    same arguments, it goes on where it was. `dst` appears when it is whole.

    Args:
        src: what to read, a path or several: a folder with one folder per class, or with train, val and test folders of
            these; archives, WebDataset shards, lists of path,label, IDX files, texts ("shards-{000..127}.tar" and
            wildcards are expanded). `dlpipe help sources` lists all kinds.
        dst: the dataset to make.
        list: a file with further sources, one per line.
        manifest: a list of path,label[,split,...], paths below src or absolute.
        label: the column or JSON key that names the class, where it isn't found by itself.
        field: "COLUMN:KIND" for each column of a list that is more than text, such as "age:number", "tags:labels" or
            "bbox:boxes-xywh", or "COLUMN:KIND:BOXES" for one label or number of each box. One or several.
        labels: a file with a class per line, for pictures without class folders, in the order of their names.
        classes_from: a dataset whose class order to take.
        on_error: what to do about a bad file: "skip" (and list it) or "stop".
        store: "auto" (the file's own bytes; raw for IDX), "jpeg" or "raw".
        jpeg: layout of JPEGs: "auto", "coefficients", "coefficients-dense", "restart" or "standard".
        trust: don't compare the pixels of that layout with the file's.
        resize_max: scale longer sides down to so many pixels; 0: don't.
        quality: of JPEGs that are coded anew, 1 to 100.
        zstd: compress each record; pays for raw pixels.
        limit: at most so many files, chosen by the seed; -1: all.
        split: fractions of train, val and test, each class alike: "0.9,0.1" or (0.9, 0.1).
        no_splits: folders, files and a column called train, val or test make no splits.
        length: tokens of a sequence, of texts.
        seed: of split and limit.
        window: bytes read ahead of the writer, a number or a text such as "1GiB".
        threads: 0: as many as the process may use.
        map_size: most bytes of a dataset; 0: eight times the estimate.
        max_pixels: larger pictures are bad files.
        progress: called with a dict of done, total, skipped, samples_per_s, remaining_s, limit and more, a few times per
            second; True, or dlpipe.TqdmProgress(), for a tqdm bar.

    Returns:
        What `dlpipe ingest --json` prints, as a dict: datasets, classes, skipped, warnings, seconds, ...

    Raises:
        dlpipe.Error: of the kind that fits. Ctrl-C: dlpipe.CancelledError, which is a KeyboardInterrupt.
    """
    with Reporter(progress, _show) as call:
        return _dlpipe.ingest(
            sources=_paths(src),
            destination=os.fsencode(dst),
            list=os.fsencode(list),
            manifest=os.fsencode(manifest),
            label=label,
            field=[field] if isinstance(field, str) else [*field],
            labels=os.fsencode(labels),
            classes_from=os.fsencode(classes_from),
            on_error=on_error,
            store=store,
            jpeg=jpeg,
            trust=trust,
            resize_max=resize_max,
            quality=quality,
            zstd=zstd,
            limit=limit,
            split=split if isinstance(split, str) else ",".join(map(str, split)),
            no_splits=no_splits,
            length=length,
            seed=seed,
            window=f"{window}B" if isinstance(window, int) else window,
            threads=threads,
            map_size=f"{map_size}B" if isinstance(map_size, int) else map_size,
            max_pixels=max_pixels,
            progress=call,
        )
