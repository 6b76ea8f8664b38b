"""Readers of what other programs print or write: GoogleTest, compute-sanitizer, nvidia-smi, tables, runs. Pure
functions; standard library only."""

import json
import re

GTEST_END = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] ([\w/.\-]+)(?:, where [^\n]*?)?(?: \((\d+) ms\))?$")
GTEST_RUN = re.compile(r"^\[ RUN +\] (\S+)$")
SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (.*)")
GPU_FIELDS = ["name", "driver_version", "memory.total", "power.limit", "clocks.max.sm", "temperature.gpu"]


def gtest(text):
    """[{test, result: ok|failed|skipped|cut, ms, said}] in order. "cut": it began and never ended, so the program
    crashed there or was stopped. `said` is what was printed between."""
    tests, running, said = [], None, []
    for line in text.splitlines():
        begins, ends = GTEST_RUN.match(line), GTEST_END.match(line)
        if begins:
            running, said = begins[1], []
        elif ends and running == ends[2]:
            tests.append(
                {"test": running, "result": ends[1].lower(), "ms": int(ends[3] or 0), "said": " ".join(said)[:400]}
            )
            running = None
        elif running and line.strip():
            said.append(line.strip())
    if running:
        tests.append({"test": running, "result": "cut", "ms": 0, "said": " ".join(said)[-400:]})
    return tests


def skip_reason(said):
    """The words of GTEST_SKIP without the place."""
    return re.sub(r"^\S+:\d+: Skipped\s*", "", said) or "it gives no reason"


def sanitizer(text):
    """(errors, the summary line) of compute-sanitizer's last summary; errors is None where it wrote none."""
    found = SUMMARY.findall(text)
    if not found:
        return None, ""
    number = re.search(r"(\d+) (?:error|hazard)", found[-1])
    return (int(number[1]) if number else None), found[-1].strip()


def gpus(text):
    """nvidia-smi --query-gpu=GPU_FIELDS --format=csv,noheader: a dict a GPU."""
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
    return [dict(zip(GPU_FIELDS, row)) for row in rows if len(row) == len(GPU_FIELDS)]


def models(text):
    """[(name, image size or None)] of `dlpipe train --help models`."""
    rows = [re.split(r" {2,}", line.strip()) for line in text.splitlines()]
    rows = [row for row in rows if len(row) >= 3 and not row[0].startswith("-") and row[0] != "model"]
    return [(row[0], int(row[1]) if row[1].isdigit() else None) for row in rows]


def losses(metrics_jsonl):
    """{step: training loss}."""
    lines = [json.loads(line) for line in metrics_jsonl.splitlines() if line.strip()]
    return {line["step"]: line["loss"] for line in lines if "loss" in line}


def loss_difference(first, second):
    """How far two runs' losses are apart, as shares of the first's: {first_step, mean, largest, steps}. None where
    they have no steps in common."""
    steps = sorted(first.keys() & second.keys())
    if not steps:
        return None
    apart = [abs(second[step] - first[step]) / max(abs(first[step]), 1e-12) for step in steps]
    return {"first_step": apart[0], "mean": sum(apart) / len(apart), "largest": max(apart), "steps": len(steps)}


def last_json(text):
    """The last line of a chatty program, as an object; {} where it is none."""
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        value = json.loads(lines[-1]) if lines else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def waiting_share(ledger):
    """(share of time without work for want of a batch, by whose clock) of a ledger.json."""
    device = ledger.get("device")
    if device:
        total = device["wall_seconds"]
        return (device["waited_seconds"] / total if total > 0 else 0.0), "the device's clock"
    return ledger["data_wait_share"], "the host's clock"
