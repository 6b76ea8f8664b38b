#!/usr/bin/env python3
"""Checks the documents:
  1. words that CONTRIBUTING.md's table replaces do not appear in prose. Code, code spans and links' targets don't count. Checked are
     the documents in CHECKED; others join the list when they have been cleaned;
  2. a link of any Markdown file leads to a file that exists, and its #anchor to a heading of that file;
  3. a source file that a document names by its path exists. Names in capitals (ops/NAME.cpp), recipes under a heading "Adding ..."
     and records of what was (HISTORY) do not count.
Standard library of Python only. Usage: check_documents.py SOURCE_DIR
"""
import pathlib
import re
import sys

CHECKED = ["*.md", "benchmarks/**/*.md", "deploy/*.md", "docs/**/*.md", "scripts/*.md", "tests/**/*.md"]
RECORDS = "benchmarks/results"  # what was printed then
HISTORY = (RECORDS, "docs/decisions", "CHANGELOG.md")

# What is always wrong -> what to write.
WORDS = {
    r"pictures?": "image",
    r"anew": "again",
    r"as ever": "nothing: leave it out",
    r"likewise": "also",
    r"thus": "so",
    r"told": "reported, warned",
    r"tells? of": "reports",
    r"whoever": "the caller",
    r"mend(?:s|ed|ing)?": "fix",
    r"damaged": "corrupt (data), invalid (input), truncated (file)",
    r"go(?:es)? on|gone on|went on": "continue, resume",
    r"lends?|lent|lending": "borrow, return",
    r"by (?:itself|themselves)": "automatically, or separately",
    r"as they are": "unchanged",
    r"at hand": "available",
    r"rooms?": "module, directory",
    r"beside": "versus, compared with; next to",
    r"who wait(?:s|ed) for whom": "which side is the bottleneck",
    r"stands?": "is",
    r"(?<!there )(?:is|are) no (?!longer|more|less|fewer)": "is not a",
    r"held by": "tested by",
}
WRONG = re.compile(r"(?<![\w-])(?:" + "|".join(f"(?P<w{i}>{word})" for i, word in enumerate(WORDS)) + r")(?![\w-])", re.I)
ADVICE = list(WORDS.values())

FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.M | re.S)
INDENTED = re.compile(r"(?<=\n\n) {4,}\S.*\n(?:(?: {4,}.*)?\n)*")
SPAN = re.compile(r"(`+)(?:(?!\1).)+?\1", re.S)
TARGET = re.compile(r"\]\([^)\s]*\)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
SOURCE = re.compile(r"(?<![\w./<-])(?:[\w.-]+/)+[\w.-]+\.(?:h|cpp|cu|cuh|py|cmake)(?![\w/.])")
RECIPE = re.compile(r"^#+ Adding .*\n(?:(?!#).*\n)*", re.M)
HEADING = re.compile(r"^#+ +(.*?) *$", re.M)


def blank(match):
    """As many lines, nothing on them."""
    return "\n" * match.group(0).count("\n")


def without_code(text):
    return SPAN.sub(lambda m: "x" + blank(m), INDENTED.sub(blank, FENCE.sub(blank, text)))


def prose(text):
    """A document without what isn't its own words; CONTRIBUTING.md's table of words is not either."""
    table = text.find("\n| not | but |\n")
    if table >= 0:
        end = text.find("\n\n", table)
        end = len(text) if end < 0 else end
        text = text[:table] + "\n" * text.count("\n", table, end) + text[end:]
    return TARGET.sub(lambda m: "]" + blank(m), without_code(text))


def check_words(text, where):
    for match in WRONG.finditer(text):
        advice = ADVICE[int(match.lastgroup[1:])]
        yield f"{where}:{text.count(chr(10), 0, match.start()) + 1}: '{' '.join(match.group(0).split())}': write {advice}"


def anchors(text):
    """Of the headings, as GitHub makes them."""
    found = set()
    for heading in HEADING.findall(FENCE.sub(blank, text)):
        heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = sum(1 for one in found if re.fullmatch(re.escape(slug) + r"(?:-\d+)?", one))
        found.add(f"{slug}-{number}" if slug in found else slug)
    return found


def check_links(root, path, text):
    text = without_code(text)
    for match in LINK.finditer(text):
        name, _, anchor = match.group(1).partition("#")
        place = f"{path.relative_to(root)}:{text.count(chr(10), 0, match.start()) + 1}"
        if re.match(r"[a-z]+:", name):
            continue
        target = path.parent / name if name else path
        if not target.exists():
            yield f"{place}: the link {match.group(1)} leads nowhere"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
            yield f"{place}: {name or path.name} has no heading #{anchor}"


def check_sources(sources, where, text):
    """Paths may begin in any directory. `sources` holds every end of every path."""
    text = RECIPE.sub(blank, FENCE.sub(blank, text))
    for match in SOURCE.finditer(text):
        name = re.sub(r"^(?:\.\.?/)+", "", match.group(0))
        if name not in sources and not re.search(r"(?<![a-z])[A-Z]{3,}(?![a-z])", name):
            yield f"{where}:{text.count(chr(10), 0, match.start()) + 1}: there is no file {name}"


def check(root):
    """(number of documents, errors)"""
    errors = []
    for path in sorted(path for pattern in CHECKED for path in root.glob(pattern)):
        where = path.relative_to(root).as_posix()
        if not where.startswith(RECORDS):
            errors += check_words(prose(path.read_text()), where)
    folders = [path for path in root.iterdir() if path.is_dir() and path.name not in ("build", ".git", ".venv")]
    sources = set()
    for path in (path for folder in folders for path in folder.rglob("*.*")):
        parts = path.relative_to(root).parts
        sources.update("/".join(parts[i:]) for i in range(len(parts)))
        sources.add("/".join(("dlpipe", *parts)))  # as includes have it
    documents = sorted([*root.glob("*.md"), *(path for folder in folders for path in folder.rglob("*.md"))])
    for path in documents:
        where = path.relative_to(root).as_posix()
        errors += check_links(root, path, path.read_text())
        if not where.startswith(HISTORY):
            errors += check_sources(sources, where, path.read_text())
    return len(documents), errors


def main(root):
    count, errors = check(pathlib.Path(root))
    for error in errors:
        print(error)
    print(f"{count} documents, {len(errors)} errors")
    return 1 if errors or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
