"""What from_dataset reads samples of: another library's dataset by number, or one after another."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from dlpipe import arrow, hugging_face
from dlpipe.errors import MisuseError


def _refuse(*words):
    raise MisuseError("[from_dataset] " + "".join(map(str, words)))


class _Indexed:
    """Any object with a length and samples by their number: torch's map-style datasets, lists."""

    def __init__(self, dataset):
        self.dataset = dataset
        classes = getattr(dataset, "classes", None)
        self.classes = list(classes) if isinstance(classes, (list, tuple)) else None

    @property
    def fields(self):
        """What its samples are known to hold; None: they say it themselves."""
        return None

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, i):
        return self.dataset[i]

    def name(self):
        return f"{type(self.dataset).__module__}.{type(self.dataset).__qualname__} of {len(self)}"


class _Files(_Indexed):
    """torchvision's folders without a transform: the files themselves instead of decoded pictures."""

    @property
    def fields(self):
        return {"image": "image", "label": "label", "path": "text"}

    @staticmethod
    def fits(dataset):
        from_torchvision = any(kind.__module__ == "torchvision.datasets.folder" for kind in type(dataset).__mro__)
        plain = all(getattr(dataset, name, None) is None for name in ("transform", "target_transform", "transforms"))
        own = type(dataset).__getitem__.__module__ == "torchvision.datasets.folder" if from_torchvision else False
        return own and plain and dataset.loader.__module__ == "torchvision.datasets.folder"

    def __getitem__(self, i):
        path, label = self.dataset.samples[i]
        with open(path, "rb") as file:
            return {"image": file.read(), "label": label, "path": os.path.relpath(path, self.dataset.root)}


class _Subset(_Indexed):
    """torch's Subset, which random_split makes, too: some samples of another source, as that one has them."""

    def __init__(self, subset, source):
        super().__init__(subset)
        self.source = source
        self.classes = source.classes

    @property
    def fields(self):
        return self.source.fields

    @staticmethod
    def fits(dataset):
        return type(dataset).__module__ == "torch.utils.data.dataset" and type(dataset).__name__ == "Subset"

    def __getitem__(self, i):
        return self.source[int(self.dataset.indices[i])]

    def name(self):
        numbers = hashlib.sha256(repr([int(i) for i in self.dataset.indices]).encode()).hexdigest()[:16]
        return f"{numbers} of {self.source.name()}"


class _Iterable:
    """WebDataset, torch's IterableDataset, generators."""

    fields = classes = None

    def __init__(self, dataset):
        self.dataset = dataset

    def __iter__(self):
        return iter(self.dataset)

    def name(self):
        return f"{type(self.dataset).__module__}.{type(self.dataset).__qualname__}"


def _has_class(dataset, module, name):
    """Whether it is of that class or one of its subclasses."""
    return any((kind.__module__, kind.__name__) == (module, name) for kind in type(dataset).__mro__)


def _adapt(dataset, boxes):
    if arrow.fits(dataset):
        dataset = arrow.Table(arrow.files(dataset))
    if isinstance(dataset, arrow.Table):
        if boxes is not None:
            _refuse("boxes= is for Hugging Face's datasets; of Parquet give fields= with 'boxes' or 'boxes-xywh'")
        return dataset
    if _has_class(dataset, "torch.utils.data.dataloader", "DataLoader"):
        _refuse("this is a DataLoader, whose items are batches; give its dataset: from_dataset(loader.dataset, ...)")
    # torch's IterableDataset has a __getitem__ that raises
    is_stream = _has_class(dataset, "torch.utils.data.dataset", "IterableDataset")
    has_number = not is_stream and hasattr(type(dataset), "__getitem__") and hasattr(type(dataset), "__len__")
    if hugging_face.fits(dataset):
        return (hugging_face.Rows if has_number else hugging_face.Stream)(dataset, boxes)
    if boxes is not None and not _Subset.fits(dataset):
        _refuse("boxes= is for Hugging Face's datasets; of others give fields= with 'boxes' or 'boxes-xywh'")
    if _Subset.fits(dataset):
        return _Subset(dataset, _adapt(dataset.dataset, boxes))
    if has_number:
        return _Files(dataset) if _Files.fits(dataset) else _Indexed(dataset)
    if hasattr(dataset, "__iter__"):
        return _Iterable(dataset)
    _refuse(f"{type(dataset).__name__} is no dataset: it has neither samples by their number nor an iterator")


def by_split(parts, boxes):
    """The datasets by their splits' names, Hugging Face's "validation" called val, as that of files is."""
    sources: dict[str, Any] = {}
    for split, part in parts.items():
        name = arrow.SPLITS.get(str(split).lower(), str(split))
        if name in sources:
            _refuse(f"{list(parts)} name the split {name!r} twice; give each a name of its own")
        sources[name] = _adapt(part, boxes)
    return sources
