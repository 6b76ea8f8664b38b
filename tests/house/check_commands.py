#!/usr/bin/env python3
"""Checks the commands in documents and recipes: each is one of the program's, and its help lists each option that it has. Values
aren't looked at. A command is a line of a code block, or a code span, that begins with `dlpipe `.
Standard library of Python only. Usage: check_commands.py DLPIPE SOURCE_DIR
"""
import functools
import pathlib
import re
import subprocess
import sys

import check_documents

DOCUMENTS = ["*.md", "docs/*.md", "docs/guide/*.md", "recipes/*.toml"]
SPAN = re.compile(r"`(dlpipe [^`]+)`")
LINE = re.compile(r"^[ #]*(?:\$ |.*[|&] )?(dlpipe (?:\\\n|[^\n])*)$", re.M)
OPTION = re.compile(r"(?<!\S)--?[a-z][\w-]*")
QUOTED = re.compile(r'"[^"]*"|\'[^\']*\'')


def commands(text):
    """(line, command), once each."""
    code = [match for pattern in (check_documents.FENCE, check_documents.INDENTED) for match in pattern.finditer(text)]
    places = [(match.start() + line.start(1), line[1]) for match in code for line in LINE.finditer(match[0])]
    places += [(match.start(1), match[1]) for match in SPAN.finditer(text)]
    for place, command in sorted(places):
        command = QUOTED.sub("X", command.replace("\\\n", " ")).partition(" #")[0].partition(" > ")[0]
        yield text.count("\n", 0, place) + 1, " ".join(command.split())


@functools.lru_cache(maxsize=None)
def help_of(program, words):
    done = subprocess.run([program, "help", *words, "--all"], text=True, capture_output=True)
    return done.stdout if done.returncode == 0 else None


def what_is_wrong(program, command):
    own, _, launched = command.partition(" -- ")
    for words in (own.split()[1:], launched.split()):
        names = words[:2 if words[:1] == ["bench"] else 1]
        if not names or names[0] == "help" or not all(re.fullmatch(r"[a-z][a-z0-9-]*", name) for name in names):
            continue
        text = help_of(program, tuple(names))
        if text is None:
            return f"there is no command '{' '.join(names)}'"
        for option in OPTION.findall(" ".join(words)):
            if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text + " --help --help-all"):
                return f"'{' '.join(names)}' has no {option}"
    return None


def main(program, root):
    root, count, errors = pathlib.Path(root), 0, []
    for path in sorted(path for pattern in DOCUMENTS for path in root.glob(pattern)):
        text = path.read_text()
        for line, command in commands(text if path.suffix == ".md" else f"```\n{text}\n```"):
            count += 1
            for one in command.split(" && "):
                if one.startswith("dlpipe ") and (problem := what_is_wrong(program, one)):
                    errors.append(f"{path.relative_to(root)}:{line}: {problem}: {one}")
    for error in errors:
        print(error)
    print(f"{count} commands, {len(errors)} errors")
    return 1 if errors or count < 50 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
