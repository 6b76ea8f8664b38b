"""Interleaved rounds of several programs on the same work, and the table of their results. Standard library only.

Every round runs every contestant on every case once, in an order that rotates from round to round, so that a change
of the machine's speed meets all of them. A contestant answers with one JSON object, the last line of its stdout,
with at least `samples_per_s`; where it tells `samples` and `seconds`, too, they are its rate, since dlpipe's `samples_per_s` is
of the median step, run or window and the others' of all the time. Ratios are taken within a round; the table shows the median over rounds.
"""

import dataclasses
import json
import os
import pathlib
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import machine

REFERENCE = "dlpipe"


@dataclasses.dataclass
class Contestant:
    """`command(case)` is the argument list of one run; `about` is what the table says of it."""

    name: str
    about: str
    command: Callable[[dict], list[str]]


def run_once(command, timeout_s, cores=None):
    """One run: its JSON object, with `other_load` (cores that the rest of the machine kept busy meanwhile) added.
    On failure {"error": text}."""
    others_before, start = machine.busy_seconds() - children_seconds(), time.monotonic()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None,
    )
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    except BaseException as interruption:  # whatever ends this program ends the run with all its workers
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(interruption, subprocess.TimeoutExpired):
            return {"error": f"not finished after {timeout_s:g} s"}
        raise
    elapsed = time.monotonic() - start
    if process.returncode != 0:
        lines = [line for line in (stderr or stdout).splitlines() if line.strip()] or ["no message"]
        return {"error": f"exit status {process.returncode}: {lines[-1].strip()[:200]}"}
    try:
        result = last_json(stdout)
        result["samples_per_s"] = float(result["samples_per_s"])
        if "samples" in result and "seconds" in result:
            result["samples_per_s"] = result["samples"] / result["seconds"]
    except (ValueError, KeyError, TypeError, ZeroDivisionError) as problem:
        return {"error": f"no JSON object with samples_per_s on stdout ({problem})"}
    others = machine.busy_seconds() - children_seconds() - others_before
    result["other_load"] = round(max(0.0, others) / elapsed, 2)
    return result


def children_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def last_json(stdout):
    """The whole output, if it is one JSON object (it may span lines), else its last line."""
    text = stdout.strip()
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(text.splitlines()[-1] if text else "")


def play(contestants, cases, rounds, timeout_s, cores_of=lambda case: None):
    """{case key: {contestant: [result of each round]}}. A contestant that failed a case is not asked again."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    results = {key(case): {one.name: [] for one in contestants} for case in cases}
    for turn in range(rounds):
        order = contestants[turn % len(contestants) :] + contestants[: turn % len(contestants)]
        for case in cases:
            for one in order:
                runs = results[key(case)][one.name]
                if runs and "error" in runs[-1]:
                    continue
                result = run_once(one.command(case), timeout_s, cores_of(case))
                runs.append(result)
                shown = result.get("error") or f"{result['samples_per_s']:.1f}/s (others {result['other_load']} cores)"
                print(
                    f"[peers] round {turn + 1}/{rounds}  {key(case)}  {one.name}: {shown}", file=sys.stderr, flush=True
                )
    return results


def key(case):
    return " ".join(str(value) for value in case.values())


def rates(runs):
    return [run["samples_per_s"] for run in runs if "error" not in run]


def ratio(reference_runs, runs):
    """Median over rounds of reference / this one; None where either has no result."""
    pairs = [
        mine["samples_per_s"] / theirs["samples_per_s"]
        for mine, theirs in zip(reference_runs, runs)
        if "error" not in mine and "error" not in theirs
    ]
    return statistics.median(pairs) if pairs else None


def table(contestants, cases, results):
    """Lines of a Markdown table: a row a contestant; for each case the median rate, its range, and dlpipe over it
    (left out where dlpipe does not take part)."""
    with_reference = any(one.name == REFERENCE for one in contestants)
    heads = ["contestant", "what it does"]
    for case in cases:
        heads += [key(case), f"{REFERENCE} is"] if with_reference else [key(case)]
    rows = []
    for one in contestants:
        row = [one.name, one.about]
        for case in cases:
            runs = results[key(case)][one.name]
            times = ratio(results[key(case)].get(REFERENCE, []), runs)
            row.append(rate_cell(runs))
            if with_reference:
                row.append("" if one.name == REFERENCE else f"{times:.2f} x" if times else "-")
        rows.append(row)
    return markdown(heads, rows)


def rate_cell(runs):
    """Median (min-max) of the rounds, or that there is none."""
    values = rates(runs)
    return f"{number(statistics.median(values))} ({number(min(values))}-{number(max(values))})" if values else "failed"


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def markdown(heads, rows):
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in [heads, *rows]]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return lines


def failures(results):
    """One line for each contestant and case that failed, with its reason."""
    return [
        f"{name}, {case}: {run['error']}"
        for case, by_name in results.items()
        for name, runs in by_name.items()
        for run in runs
        if "error" in run
    ]


def other_load(results):
    """The median and the largest load of other programs during the runs, in cores."""
    loads = [
        r["other_load"] for by_name in results.values() for runs in by_name.values() for r in runs if "error" not in r
    ]
    return (statistics.median(loads), max(loads)) if loads else (0.0, 0.0)


def settings(args):
    """The options of a run without its paths: results are committed, and another machine's paths say nothing."""
    values = {name: value for name, value in vars(args).items() if not isinstance(value, pathlib.Path)}
    return {name: value for name, value in values.items() if value is not None}


def commit():
    here = pathlib.Path(__file__).resolve().parent
    run = subprocess.run(["git", "-C", here, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return run.stdout.strip() or "unknown"


def publish(lines, record, out):
    """Prints the lines; with `out`, writes them there and the whole record (every round) to `out`.json beside it."""
    text = "\n".join([*lines, "", f"dlpipe at commit {commit()}."]) + "\n"
    sys.stdout.write(text)
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text)
        out.with_name(out.name + ".json").write_text(json.dumps(record, indent=1) + "\n")
        print(f"[peers] written: {out} and {out.name}.json beside it", file=sys.stderr)
