"""Progress of long work: any function of your own, or tqdm's bar ready-made."""


class TqdmProgress:
    """A tqdm bar. Give one as `progress=` to whatever takes a progress function, or `progress=True` for the same.

    Args:
        **options: tqdm's own, such as desc="val" or file=sys.stdout.
    """

    def __init__(self, **options):
        from tqdm.auto import tqdm

        self._make = lambda total, unit: tqdm(**{"total": total, "unit": unit, **options})
        self._bar = None

    def update(self, done, total, unit, **shown):
        """Moves the bar to `done` of `total` (None: nobody knows) and shows the rest behind it."""
        if self._bar is None:
            self._bar = self._make(total, unit)
        if shown:
            self._bar.set_postfix(shown, refresh=False)
        self._bar.update(done - self._bar.n)

    def close(self):
        """Leaves the bar as it is. Called at the end of the work, whatever the end was."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class Reporter:
    """What `progress=` means: nothing, a function of the work's own arguments, or a bar. A context manager."""

    def __init__(self, progress, show):
        """`show(bar, *arguments)` moves a bar by what a function would be called with."""
        if progress is None or progress is False:
            self.call = None
        elif progress is True or isinstance(progress, TqdmProgress):
            self._bar = TqdmProgress() if progress is True else progress
            self.call = lambda *arguments: show(self._bar, *arguments)
        elif callable(progress):
            self.call = progress
        else:
            raise TypeError(f"progress={progress!r}; give a function, True for a tqdm bar, or dlpipe.TqdmProgress()")

    _bar = None

    def __enter__(self):
        return self.call

    def __exit__(self, *_):
        if self._bar is not None:
            self._bar.close()
