"""Batches of a loader with several views of each sample: lists of arrays, one for each view."""

from __future__ import annotations

import itertools


class LentViews:
    """A lent batch in which each sample stands at `views` places, one behind the other, as one of samples."""

    def __init__(self, lent, views):
        self._lent = lent
        self._views = views

    def __getattr__(self, name):
        return getattr(self._lent, name)

    @property
    def count(self):
        return self._lent.count // self._views

    @property
    def sample_ids(self):
        return self._lent.sample_ids[:: self._views]

    @property
    def weight(self):
        """0 where any view of a sample was dropped."""
        return self._lent.weight.reshape(-1, self._views).min(axis=1)

    def ragged(self, field):
        data, offsets = self._lent.ragged(field)
        rows = [data[offsets[i] : offsets[i + 1]] for i in range(0, self._lent.count, self._views)]
        return b"".join(rows), list(itertools.accumulate(map(len, rows), initial=0))


def lend_views(views, moved, kind, lent):
    """The tuple over the memory of a lent batch. `moved`: names of the fields in which the views of a sample differ."""
    batch = tuple.__new__(kind, ([array[view::views] for view in range(views)] if name in moved else array[::views]
                                 for array, name in zip(lent.arrays(), kind._names)))  # fmt: skip
    batch._lent = LentViews(lent, views)
    return batch
