"""What from_dataset reads samples of: another library's dataset by number, or one after another."""

from __future__ import annotations

import bisect
import hashlib
import itertools
import logging
import os
from typing import Any

from dlpipe import arrow, hugging_face
from dlpipe.errors import MisuseError
from dlpipe.pictures import read_image


def _refuse(*words):
    raise MisuseError("[from_dataset] " + "".join(map(str, words)))


def _warn(*words):
    logging.getLogger("dlpipe").warning("[from_dataset] " + "".join(map(str, words)))


def _is_transformed(dataset):
    """Whether it changes its images; torchvision's have `transforms` where they change labels alone, too."""
    transform, both, target = (getattr(dataset, name, None) for name in ("transform", "transforms", "target_transform"))
    return callable(transform) or (callable(both) and target is None)


def _class_names(dataset):
    """The names of its classes by label, where it has them."""
    classes = getattr(dataset, "classes", None)
    if not isinstance(classes, (list, tuple)):
        return None
    if getattr(dataset, "target_transform", None) is not None:
        _warn("the dataset has a target_transform, so its labels may not be those of its classes: the names are left out, and "
              "images are stored as pixels; give classes=, or leave it out (target_transform=None)")
        return None
    if all(isinstance(name, str) for name in classes):
        return list(classes)
    # torchvision's ImageNet has tuples of words, not all different, for folders that are called as `wnids`
    return list(getattr(dataset, "wnids", None) or map(str, classes))


class _Indexed:
    """Any object with a length and samples by their number: torch's map-style datasets, lists."""

    def __init__(self, dataset):
        self.dataset = dataset
        self.classes = _class_names(dataset)
        if _is_transformed(dataset):
            _warn("the dataset's transform is applied once, and its answer stored: what it draws at random is the same in every "
                  "epoch, and files aren't kept as they are; leave it out (transform=None): what it does in training is "
                  "dlpipe.Loader's augment")

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
        return {"image": read_image(path), "label": label, "path": os.path.relpath(path, self.dataset.root)}


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


class _Concatenated(_Indexed):
    """torch's ConcatDataset: the samples of several sources behind each other, each as its source has them."""

    def __init__(self, dataset, sources):
        self.dataset, self.sources = dataset, sources
        self._are_alike = len({_form(source) for source in sources}) == 1
        self._ends = list(itertools.accumulate(map(len, sources)))
        same = all(source.classes == sources[0].classes for source in sources)
        self.classes = sources[0].classes if same else None
        if not same:
            _warn("the parts of the ConcatDataset have different classes, and each part's labels are numbers of its own: the names "
                  "are left out; give classes=, and sample= where the numbers mean different classes")

    @property
    def fields(self):
        return self.sources[0].fields if self._are_alike else None

    @staticmethod
    def fits(dataset):
        return type(dataset).__module__ == "torch.utils.data.dataset" and type(dataset).__name__ == "ConcatDataset"

    def __getitem__(self, i):
        if not self._are_alike:  # the datasets' own items are, as PyTorch's loop wants them
            return self.dataset[i]
        part = bisect.bisect_right(self._ends, i)
        return self.sources[part][i - (self._ends[part - 1] if part else 0)]

    def name(self):
        return f"{len(self)} of {', '.join(source.name() for source in self.sources)}"


def _form(source):
    """Sources of one form have items of one kind."""
    inner = source.source if isinstance(source, _Subset) else source.sources[0] if isinstance(source, _Concatenated) else None
    return type(source) if inner is None else _form(inner)


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
    if boxes is not None and not _Subset.fits(dataset) and not _Concatenated.fits(dataset):
        _refuse("boxes= is for Hugging Face's datasets; of others give fields= with 'boxes' or 'boxes-xywh'")
    if _Subset.fits(dataset):
        return _Subset(dataset, _adapt(dataset.dataset, boxes))
    if _Concatenated.fits(dataset):
        return _Concatenated(dataset, [_adapt(part, boxes) for part in dataset.datasets])
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
