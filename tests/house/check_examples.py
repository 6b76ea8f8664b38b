#!/usr/bin/env python3
"""Holds the examples in headers and READMEs to code that is compiled.

A block of code in the comment of a public header (lines that begin with `//   `, at least one of which ends in `;`; headers of
engine/cpu and engine/cuda aside) and in a README (```cpp, or lines indented by four, one of which ends in `;`) must stand,
token by token, in a source file of tests/examples. Comments and white space don't count. Standard library of Python only.
Usage: check_examples.py SOURCE_DIR
"""
import pathlib
import re
import sys

import check_tree

TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|\w+|[^\w\s]', re.S)
INTERNAL = re.compile(r"(^|/)engine/(cpu|cuda)/")
CODE_END = re.compile(r";\s*(//.*)?$")


def tokens(code):
    return [t for t in TOKEN.findall(code) if not t.startswith(("//", "/*"))]


def header_blocks(text):
    """(line, code) of each run of comment lines that are indented by three blanks and hold code."""
    block, begin = [], 0
    for number, line in enumerate(text.splitlines() + [""], 1):
        match = re.match(r"\s*//(?:/|!)?   (\S.*|\s*\S.*)$", line)
        if match:
            if not block:
                begin = number
            block.append(line[line.index("//") + 2:].lstrip("/"))
            continue
        if any(CODE_END.search(b) for b in block):
            yield begin, "\n".join(block)
        block = []


def readme_blocks(text):
    """(line, code) of each ```cpp block, and of each indented one that holds code."""
    for match in re.finditer(r"^( *)```cpp\n(.*?)^\1```", text, re.M | re.S):
        yield text.count("\n", 0, match.start()) + 2, match.group(2)
    unfenced = re.sub(r"^( *)```.*?^\1```", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.M | re.S)
    for match in re.finditer(r"^ {4,}\S.*\n(?:(?: {4,}\S.*)?\n)*", unfenced + "\n", re.M):
        if any(CODE_END.search(line) for line in match.group(0).splitlines()):
            yield unfenced.count("\n", 0, match.start()) + 1, match.group(0)


def contains(haystack, needle):
    first = needle[0]
    return any(haystack[i:i + len(needle)] == needle for i, t in enumerate(haystack) if t == first)


def check(root):
    """(number of examples, errors)"""
    compiled = [tokens(p.read_text()) for p in sorted((root / "tests/examples").glob("*.cpp"))]
    rooms = [root / room for room in [*check_tree.rooms_of_tree(root), "include", "docs"]]
    headers = [p for room in rooms for p in sorted(room.rglob("*.h")) if not INTERNAL.search(p.as_posix())]
    documents = [(p, header_blocks) for p in headers]
    readmes = [root / "README.md", *(p for room in rooms for p in sorted(room.rglob("*.md")))]
    documents += [(p, readme_blocks) for p in readmes if p.exists()]
    found, errors = 0, []
    for path, blocks in documents:
        for line, code in blocks(path.read_text()):
            found += 1
            wanted = tokens(code)
            if wanted and not any(contains(c, wanted) for c in compiled):
                errors.append(f"{path.relative_to(root)}:{line}: this example stands in no file of tests/examples")
    return found, errors


def main(root):
    found, errors = check(pathlib.Path(root))
    for error in errors:
        print(error)
    print(f"{found} examples, {len(errors)} errors")
    return 1 if errors or not found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
