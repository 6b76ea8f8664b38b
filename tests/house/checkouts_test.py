#!/usr/bin/env python3
"""checkouts_test SOURCE_DIR: what one checkout compiled, another one finds in ccache, wherever it lies. Two copies of a source
with a precompiled header go through cmake/through_ccache, with the system's compiler and a ccache folder of their own."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1))
COMPILER = os.environ.get("CXX") or "c++"


def is_gcc():
    said = subprocess.run([COMPILER, "-dM", "-E", "-x", "c++", "/dev/null"], capture_output=True, text=True).stdout
    return "__GNUC__" in said and "__clang__" not in said


@unittest.skipUnless(shutil.which("ccache") and is_gcc(), "no ccache, or another compiler than GCC")
class Checkouts(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def compile(self, name, header="#include <vector>\n"):
        """A checkout called `name`, built below itself as CMake does; how often ccache had an answer for its source."""
        source = self.folder / name
        build = source / "build" / "release"
        (source / "room").mkdir(parents=True)
        (source / "room" / "part.h").write_text(header)
        (source / "room" / "a.cpp").write_text('#include "room/part.h"\nint a() { return 7; }\n')
        (build / "pch").mkdir(parents=True)
        (build / "pch" / "all.hxx").write_text("#include <room/part.h>\n")
        statistics = self.folder / "statistics"
        statistics.unlink(missing_ok=True)
        environment = {**os.environ, "CCACHE_DIR": str(self.folder / "cache"), "CCACHE_STATSLOG": str(statistics)}
        environment.pop("CCACHE_DISABLE", None)

        def through_ccache(*arguments):
            subprocess.run([SOURCE / "cmake" / "through_ccache", shutil.which("ccache"), source, COMPILER, f"-I{build}/include",
                            f"-I{source}", "-O1", "-std=c++20", "-Winvalid-pch", *arguments], cwd=build, env=environment, check=True)

        through_ccache("-x", "c++-header", "-MD", "-MF", "pch/all.hxx.gch.d", "-o", "pch/all.hxx.gch", "-c", build / "pch" / "all.hxx")
        through_ccache("-include", build / "pch" / "all.hxx", "-MD", "-MF", "a.o.d", "-o", "a.o", "-c", source / "room" / "a.cpp")
        lines = statistics.read_text().splitlines()
        files = [i for i, line in enumerate(lines) if line.startswith("# ")]
        self.assertTrue(lines[files[-1]].endswith("a.cpp"), lines)
        return sum("hit" in line for line in lines[files[-1]:] if line.startswith(("direct_cache_", "preprocessed_cache_")))

    def test_find_what_another_one_compiled(self):
        self.assertEqual(self.compile("one"), 0)
        self.assertGreater(self.compile("another/place"), 0)

    def test_do_not_take_another_header_for_theirs(self):
        self.assertEqual(self.compile("one"), 0)
        self.assertEqual(self.compile("another/place", header="#include <vector>\n#include <string>\n"), 0)


if __name__ == "__main__":
    unittest.main()
