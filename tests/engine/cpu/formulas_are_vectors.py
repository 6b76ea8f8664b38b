#!/usr/bin/env python3
"""Whether the compiler made vectors of every elementwise formula's loop.

    formulas_are_vectors.py FOLDER

FOLDER holds the objects of the formulas' kernels (NAME_cpu.cpp.o). Each loop is compiled for AVX-512 in a function of its own
(engine/core/isa.h: run_avx512), which has to compute with registers of 512 bits. One that doesn't gives the same bits, and
takes ten times as long: GCC 14 did that to gelu, whose conditional it had made a branch. Exits with 1 where one doesn't; 77 (skipped) where
no object has such functions, as in builds for one instruction set.
"""

import pathlib
import re
import subprocess
import sys

FUNCTION = re.compile(r"^[0-9a-f]+ <(\S+)>:$")
COMPUTES = re.compile(r"\tv(?!mov)\w+\s.*%zmm")
COMPUTES_ONE = re.compile(r"\tv(?!mov)\w+s[sd]\s")


def loops_of(path):
    """Function -> whether it computes with vectors; of those that compute: a gradient that is 0 is only stored."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], check=True, capture_output=True, text=True).stdout
    loops, name, ones = {}, "", set()
    for line in text.splitlines():
        if found := FUNCTION.match(line):
            name = found.group(1) if "run_avx512" in found.group(1) else ""
            if name:
                loops.setdefault(name, False)
        elif name and COMPUTES.search(line):
            loops[name] = True
        elif name and COMPUTES_ONE.search(line):
            ones.add(name)
    return {name: is_vector for name, is_vector in loops.items() if is_vector or name in ones}


def main():
    objects = sorted(pathlib.Path(sys.argv[1]).glob("*_cpu.cpp.o"))
    loops = {(path.name, name): vectors for path in objects for name, vectors in loops_of(path).items()}
    if not loops:
        print(f"no loop for AVX-512 in the {len(objects)} objects of {sys.argv[1]}")
        return 77 if objects else 1
    slow = [key for key, vectors in loops.items() if not vectors]
    for path, name in slow:
        print(f"{path}: no vectors in {subprocess.run(['c++filt', name], capture_output=True, text=True).stdout.strip()}")
    print(f"{len(loops)} loops of {len(objects)} formulas, {len(slow)} without vectors")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
