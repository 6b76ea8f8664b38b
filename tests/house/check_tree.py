#!/usr/bin/env python3
"""Holds the source tree to its folder tables: that of ARCHITECTURE.md for the rooms, and that of any room's README.md
for the folders in it.

Checks, over the real #include lines:
  1. a folder includes only what the table lets it include, and a file outside the room only what the table's third
     column, where there is one, says; a folder that has folders with sources has a table; no folders include each other
     in a circle;
  2. a third-party library appears only where it is allowed, and in no public header outside those places; nothing is
     allowed that isn't done;
  3. every folder of ARCHITECTURE.md's table has a README.md;
  4. every header opens with a comment that says what it is; the public ones, include/dlpipe, are those of ARCHITECTURE.md's
     table, include the standard library and each other alone, and have at most 400 lines;
  5. a header of the standard library that a header of dlpipe stands for is included there alone;
  6. "[area] what; what to do" of kMisuse is put together by dlpipe/error.h alone;
  7. numbers become text, and texts numbers, without a locale, which a program that uses the library may change: what
     is stored, hashed or sent must not depend on it.
The tables are read from the documents themselves, so document and code can't part. A table stands under a heading
that contains "folder table" and has the columns `folder | may include` or `folder | may include | from outside`: folders
are named from the room, `.` are the files beside its folders, cells are lists, `all`, `all but ...` or words that name no
folder; `from outside` lists headers, by the ends of their paths. `may include` may list headers, too: those make no circle,
and the reason stands under the table. A public header has a home, the second column of its table: "dlpipe/tensor.h" of home
engine/core counts as engine/core/tensor.h, in what it includes and where it is included. Standard library of Python only.
Usage: check_tree.py SOURCE_DIR
"""
import pathlib
import re
import sys

# Where a third-party header may be included: prefix of the header -> folders or files below the root.
THIRD_PARTY = {
    "lmdb.h": ["io/data/"],
    "jpeglib.h": ["io/data/"],
    "png.h": ["io/data/"],
    "webp/": ["io/data/"],
    "pugixml.hpp": ["io/data/"],
    "curl/": ["io/data/"],
    "yaml-cpp/": ["io/data/"],
    "zstd.h": ["io/data/"],
    "zlib.h": ["io/data/"],
    "xxhash.h": ["io/data/"],
    "tbb/": ["base/threads.cpp", "pipeline/pipeline.cpp", "engine/core/"],
    "tbb/flow_graph.h": ["pipeline/pipeline.cpp"],
    "dnnl": ["engine/cpu/"],
    "mpi.h": ["engine/collective/mpi.cpp"],
    "omp.h": ["engine/core/"],
    "hwy/": ["io/data/", "augment/", "engine/cpu/"],
    "cuda": ["engine/cuda/", "base/cuda_device.cpp"],
    "nvtx3/": ["base/cuda_device.cpp"],
    "cublas": ["engine/cuda/"],
    "spdlog/": ["cli/"],
    "CLI/": ["cli/"],
    "boost/": ["serve/http_server.cpp"],
    "toml++/": ["run/"],
    "nanobind/": ["python/"],
    "sanitizer/": ["engine/core/allocator.cpp"],
    "nlohmann/": ["io/formats/", "io/data/"],
}
# Headers that other modules include hold no third-party types: these may appear in .cpp files and in headers named *-inl.h or
# listed here.
INTERNAL_HEADERS = re.compile(r"(-inl\.h$|/graph/|/engine/cpu/|/io/data/|/cli/|/python/)")

# Standard headers that one header of dlpipe wraps -> that header, and why.
WRAPPED = {
    "mutex": ("base/mutex.h", "clang holds its users to its rules (scripts/test --only locks)"),
    "shared_mutex": ("base/mutex.h", "clang holds its users to its rules (scripts/test --only locks)"),
}

# What asks the global or C's locale about numbers -> files that may all the same.
LOCALE = re.compile(r'\b[io]?stringstream\b|\bo?fstream\b(?!>)|\bstd::(?:cout|cerr|clog|locale)\b|\bsetlocale\b'
                    r'|\b(?:sto[dfil]|stoll|stoull?|stold|strto(?:[dfl]|ld|ll|ull?)|ato[fil]|atoll)\('
                    r'|printf\([^;]*?%[-+ #0-9.*\']*L?[aefgAEFG]')
LOCALE_FILES = {"base/error.h": "concat(), in the classic locale"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
SOURCES = (".h", ".cpp", ".cu", ".cuh")
PUBLIC = "include/dlpipe"
MOST_PUBLIC_LINES = 400
STANDARD = re.compile(r"^[a-z_0-9]+$|^(sys|linux|netinet|arpa)/|^[a-z_]+\.h$")


class Row:
    def __init__(self, may, outside):
        self.may = may
        self.outside = outside


def read_table(document):
    """folder -> Row, of the first table under the heading that names the folder table."""
    rows = {}
    inside = False
    for line in document.splitlines():
        if line.startswith("#"):
            inside = "folder table" in line.lower() and not rows
        if not line.startswith("|"):
            inside = inside and not rows
        if not inside or not line.startswith("|") or set(line) <= set("|- "):
            continue
        cells = [c.strip().replace("`", "") for c in line.strip("|").split("|")]
        if cells[0] == "folder":
            continue
        for folder in cells[0].split(","):
            rows[folder.strip()] = Row(cells[1], cells[2] if len(cells) > 2 else "all")
    return rows


def read_public_headers(document):
    """name -> home, of the first table under the heading that names the public headers."""
    homes = {}
    inside = False
    for line in document.splitlines():
        if line.startswith("#"):
            inside = "public headers" in line.lower() and not homes
        elif inside and line.startswith("| `dlpipe/"):
            header, home = [c.strip().replace("`", "") for c in line.strip("|").split("|")][:2]
            homes[header[len("dlpipe/"):]] = home
    return homes


def listed(cell):
    return [name.strip() for name in cell.split(",")]


def is_listed(cell, header):
    return any(("/" + header).endswith("/" + name) for name in listed(cell))


def allowed(rows, folder, target, header):
    if folder == target or is_listed(rows[folder].may, header):
        return True
    may = rows[folder].may
    if may == "all":
        return True
    if may.startswith("all but "):
        return target not in listed(may[len("all but "):])
    return target in listed(may)


def folder_of(rows, path):
    fitting = [f for f in rows if path == f or path.startswith(f + "/")]
    if not fitting and "." in rows and "/" not in path:
        return "."
    return max(fitting, key=len) if fitting else None


def rooms_of_tree(root):
    """The folders at the root that the table of ARCHITECTURE.md names: io for io/data."""
    return sorted({folder.split("/")[0] for folder in read_table((root / "ARCHITECTURE.md").read_text())})


def is_within(path, room):
    return room == "" or path.startswith(room + "/")


def name_of(room, folder):
    return room if folder == "." else f"{room}/{folder}" if room else folder


def check_include(tables, where, header):
    """What is wrong with `where` including `header`, both as paths from the root, or None."""
    for room, rows in tables.items():
        if not is_within(header, room):
            continue
        start = len(room) + 1 if room else 0
        target = folder_of(rows, header[start:])
        if not is_within(where, room):
            outside = rows[target].outside if target else ""
            if outside != "all" and not is_listed(outside, header):
                return f"from outside {room} only {outside} of {name_of(room, target)} may be included, not {header}"
            continue
        folder = folder_of(rows, where[start:])
        if folder is not None and (target is None or not allowed(rows, folder, target, header)):
            return (f"{name_of(room, folder)} may not include {header} "
                    f"({name_of(room, folder)} may include {rows[folder].may})")
    return None


def folders_joined(tables, where, header):
    """(room, folder, folder) of each table in which this include leads from one folder to another, but by a header that
    the table lists."""
    for room, rows in tables.items():
        start = len(room) + 1 if room else 0
        if not is_within(where, room) or not is_within(header, room):
            continue
        folder, target = folder_of(rows, where[start:]), folder_of(rows, header[start:])
        if folder is not None and target is not None and folder != target and not is_listed(rows[folder].may, header):
            yield room, folder, target


def reachable(steps, start):
    """What can be come to from `start` in one step or several."""
    found, open_ends = set(), [start]
    while open_ends:
        for target in steps.get(open_ends.pop(), ()):
            if target not in found:
                found.add(target)
                open_ends.append(target)
    return found


def check_circles(joined):
    errors = []
    for room in sorted({room for room, _, _ in joined}):
        steps = {}
        for _, folder, target in (one for one in joined if one[0] == room):
            steps.setdefault(folder, set()).add(target)
        reach = {folder: reachable(steps, folder) for folder in steps}
        circle = sorted(folder for folder in steps if folder in reach[folder])
        if circle:
            errors.append(f"{room or 'ARCHITECTURE.md'}: {', '.join(circle)} include each other in a circle: move what both "
                          "need, or list the headers of one direction in the folder table, with the reason under it")
    return errors


def check_tables(sources, tables):
    """A folder of a room that has folders with sources says what they may include of each other."""
    holders = set()
    for where in sources:
        room = folder_of(tables[""], where)
        folder = pathlib.PurePosixPath(where).parent
        holders.update(str(parent) for parent in folder.parents if room and is_within(f"{parent}/", room))
    return [f"{folder}: has folders, and no folder table in its README.md" for folder in sorted(holders - set(tables))]


def check_wrapped(header, where, errors, place):
    wrapper, why = WRAPPED.get(header, (where, ""))
    if where != wrapper:
        errors.append(f"{place}: include {wrapper} instead of <{header}>: {why}")


# A status of kMisuse whose message brings its own "[area]".
OWN_REFUSAL = re.compile(r'ErrorCode::kMisuse,\s*(?:(?:dlpipe::)?concat\()?\s*"\[')


def check_refusals(text, where, errors):
    if where == "base/error.h":
        return
    for match in OWN_REFUSAL.finditer(text):
        place = f"{where}:{text.count(chr(10), 0, match.start()) + 1}"
        errors.append(f"{place}: misuse() and refuse() of dlpipe/error.h put the area before a message")


def check_locale(text, where, errors):
    if where in LOCALE_FILES:
        return
    for match in LOCALE.finditer(text):
        place = f"{where}:{text.count(chr(10), 0, match.start()) + 1}"
        errors.append(f"{place}: '{' '.join(match.group(0).split())}' depends on a locale; use concat of dlpipe/error.h, fixed and parse_* of base/text.h")


def check_third_party(header, where, errors, place, used):
    prefixes = [p for p in THIRD_PARTY if header.startswith(p)]
    if not prefixes:
        if not STANDARD.match(header):
            errors.append(f"{place}: <{header}> is not a known dependency; add it to THIRD_PARTY with its room")
        return
    library = max(prefixes, key=len)
    rooms = THIRD_PARTY[library]
    used.update((library, room) for room in rooms if where.startswith(room))
    if not any(where.startswith(room) for room in rooms):
        errors.append(f"{place}: <{header}> belongs in {' or '.join(rooms)} only")
    elif where.endswith(".h") and not INTERNAL_HEADERS.search("/" + where):
        errors.append(f"{place}: a header that other modules include has third-party <{header}>; move it into a .cpp")


def unused_permissions(used):
    return [f"THIRD_PARTY lets {room} include <{library}>, which nothing there does: take it out"
            for library, rooms in THIRD_PARTY.items() for room in rooms if (library, room) not in used]


def check_public_headers(root, homes):
    """The table and the directory name the same headers."""
    there = {path.name for path in (root / PUBLIC).glob("*.h")}
    errors = [f"{PUBLIC}/{name}: is not in the table of public headers" for name in sorted(there - set(homes))]
    errors += [f"ARCHITECTURE.md: {PUBLIC}/{name} does not exist" for name in sorted(set(homes) - there)]
    return errors + [f"{path.relative_to(root).as_posix()}: public headers are beside each other, named *.h"
                     for path in sorted((root / "include").rglob("*"))
                     if path.is_file() and (path.parent != root / PUBLIC or path.suffix != ".h")]


def check_public_include(match, place):
    """What is wrong with a public header's #include, or None."""
    header = match.group(2)
    if header.startswith("dlpipe/") or match.group(1) == "<" and STANDARD.match(header) and not header.endswith(".h"):
        return None
    return f"{place}: a public header includes public headers and the C++ standard library alone, not {header}"


def main(root, every_permission_is_used=True):
    root = pathlib.Path(root)
    tables = {"": read_table((root / "ARCHITECTURE.md").read_text())}
    rooms = rooms_of_tree(root)
    errors = []
    if len(tables[""]) < 8:
        errors.append("ARCHITECTURE.md: no folder table with all folders was found")
    for readme in sorted(p for room in rooms for p in (root / room).rglob("README.md")):
        if rows := read_table(readme.read_text()):
            room = readme.parent.relative_to(root).as_posix()
            tables[room] = rows
            errors += [f"{room}/README.md: the table names {folder}, which is no folder"
                       for folder in rows if not (readme.parent / folder).is_dir()]
    homes = read_public_headers((root / "ARCHITECTURE.md").read_text())
    errors += check_public_headers(root, homes)
    files = [p for room in rooms for p in sorted((root / room).rglob("*")) if p.suffix in SOURCES]
    errors += check_tables([path.relative_to(root).as_posix() for path in files], tables)
    checked = 0
    used = set()  # permissions of THIRD_PARTY
    joined = set()  # (room, folder, folder) that includes lead from and to
    for path in files + [root / PUBLIC / name for name in sorted(homes) if (root / PUBLIC / name).exists()]:
        where = shown = path.relative_to(root).as_posix()
        text = path.read_text()
        is_public = where.startswith(PUBLIC + "/")
        if is_public:
            where = f"{homes[path.name]}/{path.name}"
            if text.count("\n") > MOST_PUBLIC_LINES:
                errors.append(f"{shown}: has {text.count(chr(10))} lines; a public header has at most {MOST_PUBLIC_LINES}")
        homeless = [room for room, rows in tables.items()
                    if is_within(where, room) and folder_of(rows, where[len(room) + 1 if room else 0:]) is None]
        if homeless:
            errors.append(f"{where}: lies in no folder of the table of {homeless[0] or 'ARCHITECTURE.md'}")
            continue
        for match in INCLUDE.finditer(text):
            header = match.group(2)
            place = f"{shown}:{text.count(chr(10), 0, match.start()) + 1}"
            checked += 1
            if is_public and (wrong := check_public_include(match, place)):
                errors.append(wrong)
            elif header.startswith("dlpipe/"):
                name = header[len("dlpipe/"):]
                if name not in homes:
                    errors.append(f"{place}: {header} is not a public header")
                    continue
                target = f"{homes[name]}/{name}"
                if wrong := check_include(tables, where, target):
                    errors.append(f"{place}: {wrong}")
                else:
                    joined.update(folders_joined(tables, where, target))
            elif match.group(1) == "<":
                check_third_party(header, where, errors, place, used)
                check_wrapped(header, where, errors, place)
            elif header.split("/")[0] in rooms:
                if wrong := check_include(tables, where, header):
                    errors.append(f"{place}: {wrong}")
                elif not (root / header).exists():
                    errors.append(f"{place}: {header} does not exist")
                else:
                    joined.update(folders_joined(tables, where, header))
            elif not header.startswith("hwy/"):
                errors.append(f'{place}: "{header}": include headers of the tree by their path from the root')
        check_refusals(text, where, errors)
        check_locale(text, where, errors)
        if path.suffix == ".h" and not text.lstrip().startswith("//"):
            errors.append(f"{shown}: a header opens with a comment that says what it is")
    for folder in sorted({folder_of(tables[""], path.relative_to(root).as_posix()) for path in files} - {None}):
        if not (root / folder / "README.md").exists():
            errors.append(f"{folder}: has no README.md")
    errors += check_circles(joined)
    if every_permission_is_used:
        errors += unused_permissions(used)
    for error in errors:
        print(error)
    print(f"{len(files)} files, {checked} includes checked, {len(errors)} errors")
    return 1 if errors or checked < 100 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
