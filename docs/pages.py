#!/usr/bin/env python3
"""Collects the pages of the documentation site (scripts/docs), in a Python that has dlpipe:

    docs/pages.py PAGES    # a folder to make anew: every Markdown file of the repository at its own path, and what they link to

Two pages are made: docs/commands.md of `dlpipe help`, docs/python_api.md of the package's docstrings.
"""

import inspect
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]
LINK = re.compile(r"\]\(([^)\s#]+)")
SECTION = re.compile(r"^(Args|Returns|Raises):$")
ENTRY = re.compile(r"^    (\w[\w, .]*): (.*)$")
LISTS = ("ops", "models", "optimizers", "schedules", "losses", "metrics", "sources")


def collect(pages):
    """Copies the Markdown files and the files that they link to."""
    names = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    linked = {os.path.normpath(pathlib.Path(name).parent / link)
              for name in names if (ROOT / name).exists() for link in LINK.findall((ROOT / name).read_text())}  # fmt: skip
    for name in sorted({*names, *linked}):
        if (ROOT / name).is_file():
            (pages / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, pages / name)


def program_help(*words):
    program = pathlib.Path(sys.executable).parent / "dlpipe"
    return subprocess.run([program, "help", *words], check=True, capture_output=True, text=True,
                          env={**os.environ, "COLUMNS": "100"}).stdout  # fmt: skip


def listed(text, heading):
    """The names in the first column below a heading of `dlpipe help`."""
    block = text.partition(f"\n{heading}:\n")[2].partition("\n\n")[0]
    return re.findall(r"^  ([a-z][\w-]*)(?=  |$)", block, re.M)


def commands():
    overview = program_help()
    page = ["# Commands\n", "Made from `dlpipe help`.\n", f"```text\n{overview}```\n"]
    for command in listed(overview, "Commands"):
        text = program_help(command, "--all")
        page.append(f"## dlpipe {command}\n\n```text\n{text}```\n")
        page += [f"### dlpipe {command} {part}\n\n```text\n{program_help(command, part, '--all')}```\n" for part in listed(text, "Parts")]
    page += [f"## List: {name}\n\n```text\n{program_help(name)}```\n" for name in LISTS]
    return "\n".join(page)


def formatted(docstring):
    """A docstring as Markdown: its arguments become a list."""
    lines, inside = [], False
    for line in inspect.cleandoc(docstring).splitlines():
        if section := SECTION.match(line):
            inside = True
            lines.append(f"**{section[1]}**\n")
        elif inside and (entry := ENTRY.match(line)):
            lines.append(f"- `{entry[1]}`: {entry[2]}")
        elif inside:
            lines.append("    " + line.strip() if line.strip() else "")
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def signature(name, value):
    try:
        text = re.sub(r"""(: |-> )(["'])(.*?)\2(?=[,) ]|$)""", r"\1\3", str(inspect.signature(value)))
    except (TypeError, ValueError):
        return name
    parts = text if len(text) < 100 else re.sub(r"(?<=[,(]) ?(?=\*|\w+(?::|=|,))", "\n    ", text)
    return name + parts


def described(name, value, level):
    own = inspect.getdoc(value)
    heading = f"{'#' * level} {name}\n"
    code = "" if isinstance(value, property) else f"```python\n{signature(name.rpartition('.')[2], value)}\n```\n"
    return [part for part in (heading, code, formatted(own)) if part] if own else []


def members(kind):
    """Public methods and properties that the class itself defines."""
    return [(name, value) for name, value in vars(kind).items()
            if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))]  # fmt: skip


def python_api():
    import dlpipe

    page = ["# Python API\n", "Made from the docstrings. `help(dlpipe.Loader)` shows the same.\n"]
    for name in dlpipe.__all__:
        value = getattr(dlpipe, name)
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        page += described(f"dlpipe.{name}", value, 2)
        if inspect.isclass(value) and not issubclass(value, Exception):
            for member, own in members(value):
                page += described(f"{name}.{member}", own, 3)
    return "\n".join(page)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    pages = pathlib.Path(sys.argv[1])
    shutil.rmtree(pages, ignore_errors=True)
    collect(pages)
    (pages / "docs/commands.md").write_text(commands())
    (pages / "docs/python_api.md").write_text(python_api())


if __name__ == "__main__":
    main()
