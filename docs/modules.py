#!/usr/bin/env python3
"""Draws the modules from the real #include lines, as a Mermaid graph: an arrow leads to what a module includes. Arrows that follow from
others (A -> C, where A -> B -> C) are left out, and modules stand above those that they include.

  modules.py ROOT            prints the graph
  modules.py ROOT --write    writes it into ARCHITECTURE.md, between the lines of the block
  modules.py ROOT --check    fails if ARCHITECTURE.md has another one, or if includes make a circle

Standard library of Python only.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/house"))
import check_tree  # noqa: E402

BLOCK = re.compile(r"```mermaid\ngraph TD\n.*?```\n", re.S)


def includes(root):
    """module -> the modules that its files include."""
    architecture = (root / "ARCHITECTURE.md").read_text()
    rows = check_tree.read_table(architecture)
    homes = check_tree.read_public_headers(architecture)
    found = {}
    for room in check_tree.rooms_of_tree(root):
        for path in sorted((root / room).rglob("*")):
            module = check_tree.folder_of(rows, path.relative_to(root).as_posix())
            if path.suffix not in check_tree.SOURCES or module is None:
                continue
            targets = found.setdefault(module, set())
            for match in check_tree.INCLUDE.finditer(path.read_text()):
                header = match.group(2)
                if header.startswith("dlpipe/"):  # counts as a header of its home
                    header = f"{homes[header.removeprefix('dlpipe/')]}/"
                target = check_tree.folder_of(rows, header)
                if target not in (None, module):
                    targets.add(target)
    return found


def reached(graph, start):
    """Every module that includes lead to from `start`."""
    seen, left = set(), [*graph[start]]
    while left:
        module = left.pop()
        if module not in seen:
            seen.add(module)
            left += graph.get(module, ())
    return seen


def drawing(graph):
    lines = ["graph TD"]
    for module in sorted(graph, key=lambda one: (-len(reached(graph, one)), one)):
        for target in sorted(graph[module]):
            if not any(target in reached(graph, other) for other in graph[module] - {target}):
                lines.append(f"  {module} --> {target}")
    return "```mermaid\n" + "\n".join(lines) + "\n```\n"


def main(root, mode=""):
    graph = includes(root)
    circles = [module for module in graph if module in reached(graph, module)]
    if circles:
        print("includes make a circle through", ", ".join(sorted(circles)))
        return 1
    document = root / "ARCHITECTURE.md"
    text = document.read_text()
    if mode == "--write":
        document.write_text(BLOCK.sub(lambda _: drawing(graph), text, count=1))
    elif mode == "--check":
        found = BLOCK.search(text)
        if not found or found.group(0) != drawing(graph):
            print("ARCHITECTURE.md has another drawing; run docs/modules.py . --write")
            return 1
    else:
        print(drawing(graph), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), *sys.argv[2:]))
