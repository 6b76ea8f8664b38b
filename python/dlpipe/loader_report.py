"""What a loader did, in words and numbers: who waited for whom."""

from __future__ import annotations

import time


def counted(number, what):
    return f"{number} {what}{'' if number == 1 else 's'}"


#: A loop that waits less than this share of its time is not what a faster loader would help; run/record/stage_report.h.
_NEGLIGIBLE = 0.05


def who_waits(stats, rows, now, possible):
    """Two sentences: how long the loop and the loader waited for each other, and which of them to speed up. `possible`:
    samples per second of the loader's threads if they did nothing else."""
    busiest = max((row for row in rows if row[2] > 0), key=lambda row: row[3], default=None)
    if busiest is None or stats["samples"] == 0:
        return ["Nothing was measured: take some batches first."]
    stager = stats["stages"][-1]  # there the loop waits for a batch, or a finished batch for the loop
    loop, batch = (stager[name] / stats["wall_s"] for name in ("wait_input_s", "wait_output_s"))
    waited = (f"At {now:,.0f} samples/s your loop waited for the loader {loop:.1%} of the time, and a finished batch waited for "
              f"your loop {batch:.1%} of it.")  # fmt: skip
    work = f"most of its work is in the {busiest[0]}"
    if loop < _NEGLIGIBLE:
        return [waited, f"Your loop limits. The loader could give {possible:,.0f} samples/s; {work}."]
    if possible > 3 * now:
        return [waited, f"The loader's threads alone could give {possible:,.0f} samples/s: they and your loop share the cores, or "
                        f"batches are few; {work}."]  # fmt: skip
    return [waited, f"The loader limits: give it more threads or cores, or make samples cheaper; {work}."]


def doctor_text(feed, transform, samples_per_s):
    """What Loader.doctor() says of its feed and its transform."""
    stats = feed.stats()
    rows, now, _ = feed.report(0.0)
    rate = now if samples_per_s is None else float(samples_per_s)
    cores, of_one = (feed.report(wanted)[2] for wanted in (rate, 1.0))
    said = who_waits(stats, rows, now, feed.threads / of_one if of_one > 0 else 0.0)
    if transform is not None:
        rows.append(transform.row(stats["wall_s"]))
    lines = [f"{'stage':<10} {'samples':>12} {'samples/s alone':>16} {'busy':>7} {'waiting':>8}"]
    lines += [f"{name:<10} {samples:>12,} {round(alone):>16,} {busy:>7.1%} {waiting:>8.1%}" if alone else
              f"{name:<10} {samples:>12,} {'':>16} {busy:>7.1%} {waiting:>8.1%}"
              for name, samples, alone, busy, waiting in rows]
    if "cache" in stats:
        said.append(stats["cache"]["text"])
    return "\n".join([*lines, *said, f"{rate:,.0f} samples/s need {cores:.2f} cores for decoding and augmenting; this "
                                     f"loader has {counted(feed.threads, 'thread')}."])  # fmt: skip


class Timed:
    """The user's function over a batch, and how long it takes. Its samples are views, as those of the other stages."""

    def __init__(self, function, views):
        self._function = function
        self._views = views
        self.samples = 0
        self.seconds = 0.0

    def __call__(self, batch):
        begin = time.perf_counter()
        made = self._function(batch)
        self.seconds += time.perf_counter() - begin
        self.samples += batch._lent.count * self._views
        return made

    def row(self, wall_s):
        alone = self.samples / self.seconds if self.seconds > 0 else 0.0
        return ("transform", self.samples, alone, self.seconds / wall_s if wall_s > 0 else 0.0, 0.0)
