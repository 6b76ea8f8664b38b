#!/usr/bin/env python3
"""Registers, shared memory and spills of every CUDA kernel, against the committed table.

    kernel_resources.py BUILD_FOLDER NVCC TABLE [--write]

BUILD_FOLDER holds ptxas' account of each compiled file (cmake/nvcc_noting_resources). Prints what differs and exits with
1; 77 (skipped) where another nvcc compiled, or for another architecture than the table's: registers are theirs to
choose. A kernel that spills is an error whatever the table says.
"""

import pathlib
import re
import subprocess
import sys

ENTRY = re.compile(r"Compiling entry function '([^']+)' for '(sm_\w+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers(?:.*?, (\d+) bytes smem)?")


def compiler_of(nvcc):
    text = subprocess.run([nvcc, "--version"], check=True, capture_output=True, text=True).stdout
    return re.search(r"release ([\d.]+)", text).group(1)


def readable(names):
    text = subprocess.run(["c++filt"], input="\n".join(names), check=True, capture_output=True, text=True).stdout
    out = {}
    for name, line in zip(names, text.splitlines()):
        line = re.sub(r"dlpipe::engine::(cuda::)?(on_device::)?", "", line).replace("(anonymous namespace)::", "")
        kernel = re.match(r"void run_kernel<(.*)>\(.*\)$", line)
        out[name] = (kernel.group(1) if kernel else line).replace("dlpipe::", "").replace("> >", ">>").strip()
    return out


def accounts(folder):
    """(architecture, mangled name) -> (registers, shared bytes, stack bytes, spilled bytes)"""
    rows = {}
    for path in sorted(pathlib.Path(folder).rglob("*.ptxas")):
        entry, stack, spilled = None, 0, 0
        for line in path.read_text(encoding="utf-8").splitlines():
            if found := ENTRY.search(line):
                entry, stack, spilled = (found.group(2), found.group(1)), 0, 0
            elif found := FRAME.search(line):
                stack, spilled = int(found.group(1)), int(found.group(2)) + int(found.group(3))
            elif (found := USED.search(line)) and entry:
                rows[entry] = (int(found.group(1)), int(found.group(2) or 0), stack, spilled)
    return rows


def main():
    folder, nvcc, table = sys.argv[1:4]
    rows = accounts(folder)
    if not rows:
        print(f"no account of a kernel below {folder}")
        return 1
    names = readable(sorted({name for _, name in rows}))
    architectures = " ".join(sorted({architecture for architecture, _ in rows}))
    head = f"# nvcc {compiler_of(nvcc)}, {architectures}: registers, bytes of shared memory, bytes of stack, kernel"
    lines = sorted(f"{v[0]:3} {v[1]:5} {v[2]:4} {names[name]}" for (_, name), v in rows.items())
    spilling = sorted(f"{names[name]} spills {v[3]} bytes ({architecture})" for (architecture, name), v in rows.items() if v[3])
    if "--write" in sys.argv:
        by_name = sorted(lines, key=lambda line: line[15:])
        pathlib.Path(table).write_text("\n".join([head, *by_name]) + "\n", encoding="utf-8")
    print("\n".join(spilling))
    known = pathlib.Path(table).read_text(encoding="utf-8").splitlines()
    if not spilling and known[0] != head:
        print(f"the table is of another compiler:\n{known[0]}\nhere:\n{head}")
        return 77
    missing, new = sorted(set(known[1:]) - set(lines)), sorted(set(lines) - set(known[1:]))
    print("\n".join([f"- {line}" for line in missing] + [f"+ {line}" for line in new]))
    if missing or new:
        print(f"the kernels' resources changed; look whether that is meant, then: {' '.join(sys.argv[:4])} --write")
    return 1 if spilling or missing or new else 0


if __name__ == "__main__":
    sys.exit(main())
