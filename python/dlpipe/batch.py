"""What a loader's iterator gives: a tuple of the dataset's fields, with names."""

import collections
import functools
import os


class _Facts:
    """What a batch knows beside its fields. Mixed into the named tuples."""

    __slots__ = ()

    @property
    def sample_ids(self):
        """numpy int64 [count]: which samples of the dataset these are."""
        return self._lent.sample_ids

    @property
    def weight(self):
        """numpy float32 [count]: 1, or 0 for a sample that was dropped because it is damaged."""
        return self._lent.weight

    @property
    def path(self):
        """list of str: the files that the samples came from, below the folder that was ingested."""
        data, offsets = self._lent.ragged("path")
        return [os.fsdecode(data[begin:end]) for begin, end in zip(offsets, offsets[1:])]

    def ragged(self, field):
        """A field without a fixed size, such as a text or a manifest's column: (bytes, offsets), numpy uint8 [total] and
        int64 [count + 1]; sample i has bytes[offsets[i]:offsets[i + 1]]. Read from the dataset once more."""
        import numpy

        data, offsets = self._lent.ragged(field)
        return numpy.frombuffer(data, numpy.uint8), numpy.array(offsets, numpy.int64)

    @property
    def epoch(self):
        """The epoch, from 0."""
        return self._lent.epoch

    @property
    def index(self):
        """The batch's number within the epoch, from 0."""
        return self._lent.index

    @property
    def last_in_epoch(self):
        """Whether the epoch ends with it."""
        return self._lent.last_in_epoch

    @property
    def substitutions(self):
        """Damaged samples and what stood in for them: dicts of position, bad_sample, used_sample (-1: none), reason."""
        return self._lent.substitutions


def _make(fields, values):
    return batch_type(fields)(*values)


def _reduce(self):
    return _make, (self._fields, tuple(self))


@functools.cache
def batch_type(fields):
    """The class of batches with these fields. Copies and unpickled ones are plain: their memory is their own."""
    base = collections.namedtuple("Batch", fields)
    return type("Batch", (_Facts, base), {"__reduce__": _reduce, "__module__": "dlpipe"})


def lend(kind, lent):
    """The tuple over the memory of a lent batch."""
    batch = tuple.__new__(kind, lent.arrays())
    batch._lent = lent
    return batch
