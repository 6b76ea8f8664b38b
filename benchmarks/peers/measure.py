"""The inside of a peer: warm up, time, and print one JSON line. It runs in the peer's environment."""

import json
import os
import pathlib
import statistics
import time

WARM_UP_S = 1.0


def timed(step, samples_a_step, seconds, warm_up_steps, min_steps, wants_per_s=None):
    """Calls `step` at least `warm_up_steps` times and for a second, then times at least `min_steps` steps and
    `seconds`; {samples_per_s, step_ms (median), cpu_ms_per_sample, ...}.

    With `wants_per_s` a consumer takes each step's samples at that rate and no CPU, as a GPU would: after a step it
    sleeps for samples_a_step / wants_per_s. `waited_share` is then the share of the time in which it waited in `step`."""
    work_s = samples_a_step / wants_per_s if wants_per_s else 0.0
    until = time.monotonic() + WARM_UP_S
    warmed = 0
    while warmed < warm_up_steps or time.monotonic() < until:
        step()
        time.sleep(work_s)
        warmed += 1
    step_s = []
    cpu_start, start = cpu_seconds(), time.monotonic()
    last = start
    while len(step_s) < min_steps or last - start < seconds:
        step()
        now = time.monotonic()
        step_s.append(now - last)
        if wants_per_s:
            time.sleep(work_s)
            now = time.monotonic()
        last = now
    elapsed = last - start
    samples = samples_a_step * len(step_s)
    waited = {"waited_share": sum(step_s) / elapsed, "wants_per_s": wants_per_s} if wants_per_s else {}
    return {
        **waited,
        "samples_per_s": samples / elapsed,
        "samples": samples,
        "seconds": elapsed,
        "step_ms": 1e3 * statistics.median(step_s),
        "cpu_ms_per_sample": 1e3 * (cpu_seconds() - cpu_start) / samples,
    }


def cpu_seconds():
    """User and system time of this process and all its descendants, running ones included."""
    parent, spent = {}, {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # it ended meanwhile
        pid = int(stat.parent.name)
        parent[pid] = int(fields[1])
        spent[pid] = int(fields[11]) + int(fields[12])
    me = os.getpid()

    def mine(pid):
        while pid not in (me, 0, 1) and pid in parent:
            pid = parent[pid]
        return pid == me

    return sum(ticks for pid, ticks in spent.items() if mine(pid)) / os.sysconf("SC_CLK_TCK")


def report(**result):
    print(json.dumps(result), flush=True)
