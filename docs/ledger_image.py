#!/usr/bin/env python3
"""Draws the ledger of a run as an SVG: where every second of it went.

    docs/ledger_image.py RUN OUT.svg    # RUN/ledger.json, as `dlpipe train` leaves it
"""

import html
import json
import pathlib
import sys

WIDTH, LEFT, RIGHT, ROW = 820, 150, 150, 26
BAR = WIDTH - LEFT - RIGHT
COLOURS = {"data": "#c2543d", "forward": "#3b6ea5", "backward": "#2d4f7c", "optimizer": "#6b9ac4"}


def text(x, y, words, anchor="start", weight="normal"):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-weight="{weight}">{html.escape(words)}</text>'


def colour(name):
    return next((code for begin, code in COLOURS.items() if name.startswith(begin)), "#9aa5b1")


def draw(ledger, title):
    wall = ledger["wall_seconds"]
    rows = sorted(((name, span["seconds"]) for name, span in ledger["spans"].items()), key=lambda row: -row[1])
    rows.append(("unaccounted", ledger["unaccounted_seconds"]))
    height = ROW * (len(rows) + 2) + 14
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="14" fill="#1f2933">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        text(10, ROW - 6, title, weight="bold"),
    ]
    for i, (name, seconds) in enumerate(rows):
        y = ROW * (i + 1) + 8
        share = seconds / wall
        parts.append(text(LEFT - 10, y + 15, name, "end"))
        length = max(1.0, BAR * share)
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{ROW - 6}" fill="{colour(name)}"/>')
        parts.append(text(LEFT + length + 8, y + 15, f"{seconds:.2f} s, {100 * share:.1f} %"))
    y = ROW * (len(rows) + 1) + 8
    parts.append(text(LEFT - 10, y + 15, "all", "end", "bold"))
    parts.append(text(LEFT, y + 15, f"{wall:.2f} s, from the process's start to its end", weight="bold"))
    return "\n".join([*parts, "</svg>", ""])


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    run, out = map(pathlib.Path, sys.argv[1:])
    ledger = json.loads((run / "ledger.json").read_text())
    title = f"{ledger['steps']:,} steps: training waited for data {100 * ledger['data_wait_share']:.1f} % of the time"
    out.write_text(draw(ledger, title))


if __name__ == "__main__":
    main()
