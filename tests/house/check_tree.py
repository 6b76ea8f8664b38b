#!/usr/bin/env python3
"""Holds the source tree to the folder table of ARCHITECTURE.md.

Checks, over the real #include lines:
  1. a folder includes only what the table lets it include;
  2. a third-party library appears only where it is allowed, and in no public header outside those places;
  3. every folder has a README.md;
  4. every public header opens with a comment that says what it is.
The table is read from ARCHITECTURE.md itself, so document and code can't part. Standard library of Python only.
Usage: check_tree.py SOURCE_DIR
"""
import pathlib
import re
import sys

# Where a third-party header may be included: prefix of the header -> folders or files below dlpipe/.
THIRD_PARTY = {
    "lmdb.h": ["io/data/"],
    "jpeglib.h": ["io/data/"],
    "jerror.h": ["io/data/"],
    "png.h": ["io/data/"],
    "zstd.h": ["io/data/"],
    "zlib.h": ["io/data/"],
    "xxhash.h": ["io/data/"],
    "tbb/": ["pipeline/", "engine/cpu/", "run/"],
    "tbb/flow_graph.h": ["pipeline/graph/"],
    "oneapi/": ["pipeline/", "engine/cpu/", "run/"],
    "dnnl": ["engine/cpu/"],
    "oneapi/dnnl": ["engine/cpu/"],
    "omp.h": ["engine/cpu/"],
    "hwy/": ["io/data/", "augment/", "engine/cpu/", "engine/optim/", "engine/ops/"],
    "cuda": ["engine/cuda/", "base/device/cuda.cpp"],
    "nvtx3/": ["base/device/cuda.cpp"],
    "cudnn": ["engine/cuda/"],
    "cublas": ["engine/cuda/"],
    "spdlog/": ["cli/"],
    "fmt/": ["cli/"],
    "CLI/": ["cli/"],
    "toml++/": ["run/"],
    "sanitizer/": ["engine/core/allocator.cpp"],
    "nlohmann/": ["io/formats/", "io/data/"],
}
# Public headers hold no third-party types: these may appear in .cpp files and in headers named *-inl.h or listed here.
INTERNAL_HEADERS = re.compile(r"(-inl\.h$|/graph/|/engine/cpu/|/io/data/(?!dataset\.h|codec/image_codec\.h)|/cli/)")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
STANDARD = re.compile(r"^[a-z_0-9]+$|^(sys|linux|netinet|arpa)/|^[a-z_]+\.h$")


def read_table(architecture):
    """Rows `| folder[, folder] | what it may include |` under the heading that names the folder table."""
    rows = {}
    inside = False
    for line in architecture.splitlines():
        if line.startswith("#"):
            inside = "folder table" in line.lower()
        if not inside or not line.startswith("|") or set(line) <= set("|- "):
            continue
        cells = [c.strip().replace("`", "") for c in line.strip("|").split("|")]
        if cells[0] == "folder":
            continue
        for folder in cells[0].split(","):
            rows[folder.strip()] = cells[1]
    return rows


def allowed(rows, folder, target):
    if folder == target:
        return True
    may = rows[folder]
    if may == "all":
        return True
    if may.startswith("all but "):
        return target not in [f.strip() for f in may[len("all but "):].split(",")]
    return target in [f.strip() for f in may.split(",")]


def folder_of(rows, path):
    fitting = [f for f in rows if path == f or path.startswith(f + "/")]
    return max(fitting, key=len) if fitting else None


def check_third_party(header, where, errors, place):
    prefixes = [p for p in THIRD_PARTY if header.startswith(p)]
    if not prefixes:
        if not STANDARD.match(header):
            errors.append(f"{place}: <{header}> is not a known dependency; add it to THIRD_PARTY with its room")
        return
    rooms = THIRD_PARTY[max(prefixes, key=len)]
    if not any(where.startswith(room) for room in rooms):
        errors.append(f"{place}: <{header}> belongs in {' or '.join(rooms)} only")
    elif where.endswith(".h") and not INTERNAL_HEADERS.search("/" + where):
        errors.append(f"{place}: a public header includes third-party <{header}>; move it into a .cpp")


def main(root):
    root = pathlib.Path(root)
    source = root / "dlpipe"
    rows = read_table((root / "ARCHITECTURE.md").read_text())
    errors = []
    if len(rows) < 8:
        errors.append("ARCHITECTURE.md: no folder table with all folders was found")
    files = [p for p in sorted(source.rglob("*")) if p.suffix in (".h", ".cpp", ".cu", ".cuh")]
    checked = 0
    for path in files:
        where = path.relative_to(source).as_posix()
        folder = folder_of(rows, where)
        text = path.read_text()
        if folder is None:
            errors.append(f"dlpipe/{where}: lies in no folder of the table")
            continue
        for match in INCLUDE.finditer(text):
            header = match.group(2)
            place = f"dlpipe/{where}:{text.count(chr(10), 0, match.start()) + 1}"
            checked += 1
            if header.startswith("dlpipe/"):
                target = folder_of(rows, header[len("dlpipe/"):])
                if target is None or not allowed(rows, folder, target):
                    errors.append(f"{place}: {folder} may not include {header} ({folder} may include {rows[folder]})")
                elif not (root / header).exists():
                    errors.append(f"{place}: {header} does not exist")
            elif match.group(1) == "<":
                check_third_party(header, where, errors, place)
            elif not header.startswith("hwy/"):
                errors.append(f'{place}: "{header}": include project headers as "dlpipe/..."')
        if path.suffix == ".h" and not text.lstrip().startswith("//"):
            errors.append(f"dlpipe/{where}: a header opens with a comment that says what it is")
    for directory in sorted({p.parent for p in files}):
        if not (directory / "README.md").exists():
            errors.append(f"{directory.relative_to(root)}: has no README.md")
    for error in errors:
        print(error)
    print(f"{len(files)} files, {checked} includes checked, {len(errors)} errors")
    return 1 if errors or checked < 100 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
