"""What a run of scripts/gpu_check found: parts, each of checks, figures and tables; as text and as JSON.

A check passes, fails, or is not checked for a reason. A part fails when one of its checks does; "skip" means that
nothing in it was checked. Standard library only.
"""

import json
import time

RESULTS = ("pass", "fail", "skip")
EXIT_CODES = {"pass": 0, "fail": 1, "skip": 3}


class Part:
    """One part while it runs: what it finds is printed at once. `left()` is what remains of its time."""

    def __init__(self, name, question, deadline, say, clock=time.monotonic):
        self.name, self.question = name, question
        self.checks, self.tables, self.notes = [], [], []
        self.targets, self.figures = {}, {}
        self._deadline, self._say, self._clock = deadline, say, clock
        self._started = clock()
        self.budget_s = max(0.0, deadline - self._started)

    def left(self):
        """Seconds until this part has to end."""
        return self._deadline - self._clock()

    def seconds(self):
        return self._clock() - self._started

    def check(self, name, passed, text, **figures):
        self._add({"name": name, "result": "pass" if passed else "fail", "text": text, **figures})
        return passed

    def not_checked(self, name, reason):
        self._add({"name": name, "result": "skip", "reason": reason})

    def note(self, text):
        self.notes.append(text)
        self._say(f"  {text}")

    def target(self, name, figure, wanted, met):
        """A figure beside the one that is wanted. It is reported, and fails nothing."""
        self.targets[name] = {"figure": figure, "target": wanted, "met": met}
        self._say(f"  target {'met' if met else 'MISSED'}: {name}: {figure}; wanted {wanted}")

    def table(self, title, heads, rows):
        self.tables.append({"title": title, "heads": heads, "rows": rows})
        for line in [title, *markdown(heads, rows)]:
            self._say(f"  {line}")

    def _add(self, check):
        self.checks.append(check)
        self._say("  " + check_line(check))

    def record(self):
        return {
            "name": self.name,
            "question": self.question,
            "result": result_of(self.checks),
            "seconds": round(self.seconds(), 1),
            "budget_s": round(self.budget_s, 1),
            "checks": self.checks,
            "targets": self.targets,
            "figures": self.figures,
            "tables": self.tables,
            "notes": self.notes,
        }


def check_line(check):
    if check["result"] == "skip":
        return f"not checked: {check['name']}: {check['reason']}"
    return f"{check['result'].upper()}: {check['name']}: {check['text']}"


def result_of(checks):
    """fail, where one failed; pass, where one passed; else skip."""
    found = {check["result"] for check in checks}
    return next((result for result in ("fail", "pass") if result in found), "skip")


def verdict(parts):
    """The result of all, and one line that says it. Passing with something unchecked is "skip"."""
    checks = [(part["name"], check) for part in parts for check in part["checks"]]
    count = {result: sum(check["result"] == result for _, check in checks) for result in RESULTS}
    missed = [name for part in parts for name, figure in part["targets"].items() if not figure["met"]]
    line = f"{count['pass']} checks passed, {count['fail']} failed, {count['skip']} not checked"
    if missed:
        line += f"; targets missed: {', '.join(missed)}"
    result = "fail" if count["fail"] or not checks else "skip" if count["skip"] else "pass"
    return result, line


def markdown(heads, rows):
    cells = [[str(cell) for cell in row] for row in [heads, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return lines


def summary_table(parts):
    rows = []
    for part in parts:
        reasons = [check_line(check) for check in part["checks"] if check["result"] != "pass"]
        rows.append([part["name"], part["result"], f"{part['seconds']:.0f} of {part['budget_s']:.0f}", len(reasons)])
    return markdown(["part", "result", "seconds", "failed or not checked"], rows)


def write(path, record):
    path.write_text(json.dumps(record, indent=1) + "\n")
