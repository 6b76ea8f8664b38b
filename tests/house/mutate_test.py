#!/usr/bin/env python3
"""What scripts/mutate changes, which tests it asks, and when it says that a change was noticed."""
import argparse
import importlib.machinery
import importlib.util
import json
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
SCRIPT = pathlib.Path(__file__).parents[2] / "scripts/mutate"
loader = importlib.machinery.SourceFileLoader("mutate", str(SCRIPT))
mutate = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", loader))
loader.exec_module(mutate)

SOURCE = """#include <vector>  // 1 + 2
// a comment: a < b, 7
int f(const std::vector<int>& x, int* p) {
  const char* text = "1 + 2 < 3";
  if (x.size() < 10 && p != nullptr) return p[1] + 0x10;
  return 1.5 > 0 ? -1 : *p;
}
"""


class Mutate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        self.write("run/f.cpp", SOURCE)

    def write(self, path, text):
        (self.tree / path).parent.mkdir(parents=True, exist_ok=True)
        (self.tree / path).write_text(text)

    def place(self):
        return next(place for place in mutate.places_in(self.tree, "run/f.cpp") if place.old == " < ")

    def programs_of(self, *programs):
        """The tests of a tree whose `programs` are (source, program)."""
        self.write("build/release/compile_commands.json", json.dumps([
            {"file": str(self.tree / source),
             "command": f"c++ -include tests/CMakeFiles/precompiled.dir/pch.hxx -o tests/CMakeFiles/{program}.dir/x.o"}
            for source, program in programs]))
        return mutate.Tests(self.tree)

    def test_code_alone_is_changed(self):
        found = [(place.line, place.old.strip(), place.new.strip())
                 for place in mutate.places_in(self.tree, "run/f.cpp")]
        self.assertEqual(sorted(found), [(5, "!=", "=="), (5, "&&", "||"), (5, "+", "-"), (5, "1", "2"), (5, "10", "11"),
                                         (5, "<", "<="), (6, "0", "1"), (6, "1", "2"), (6, ">", ">=")])

    def test_tests_are_those_that_mirror_the_source_or_the_folder_above(self):
        tests = self.programs_of(("tests/run/train/step_test.cpp", "run_test"), ("tests/run/any_test.cpp", "any_test"),
                              ("tests/engine/ops/relu_test.cpp", "ops_test"),
                              ("tests/engine/cpu/gemm_test.cpp", "cpu_test"), ("run/f.cpp", "dlpipe"))
        self.assertEqual(tests.next_to("run/train/step.cpp"), ["run_test"])
        self.assertEqual(tests.next_to("run/use/predict.cpp"), ["any_test"])
        self.assertEqual(tests.next_to("engine/cpu/rows/relu.cpp"), ["ops_test", "cpu_test"])
        self.assertEqual(tests.next_to("io/data/dataset.cpp"), [])

    def judged(self, answers):
        """The verdict where running the program answers these, one after the other."""
        judge = mutate.Judge(self.tree, 1)
        judge.seconds["run_test"] = 1
        judge.build = lambda *_, **__: argparse.Namespace(returncode=0)
        given = iter(answers)
        judge.run_program = lambda *_: next(given)
        return judge.judge(self.place(), ["run_test"])

    def test_what_fails_twice_was_noticed(self):
        self.assertEqual(self.judged(["F.Adds", "F.Adds"]), ("killed", "run_test F.Adds"))
        self.assertEqual(self.judged(["no end", "no end"]), ("killed", "run_test no end"))
        self.assertEqual(self.judged([None]), ("survived", ""))
        self.assertEqual(self.judged(["F.Waits", None, None]), ("survived", ""))
        self.assertEqual((self.tree / "run/f.cpp").read_text(), SOURCE)

    def test_a_report_names_survivors_that_are_judged_again(self):
        place = self.place()
        arguments = argparse.Namespace(places=1, seed=1, rooms="run", again=None)
        judged = [{"place": str(place), "verdict": "survived", "test": "", "seconds": 2},
                  {"place": "run/f.cpp:6:0 constant: '1' -> '2'", "verdict": "killed", "test": "run_test F.Adds", "seconds": 2}]
        mutate.head = lambda root: "0123456789abcdef"
        text = mutate.report_text(arguments, self.tree, 9, judged, mutate.Judge(self.tree, 1))
        self.assertIn("2 places judged, 1 killed, 1 survived; 0 others didn't compile", text)
        self.assertIn("run: 1 of 2 killed", text)
        self.write("report.txt", text)
        again = argparse.Namespace(rooms="run", again=str(self.tree / "report.txt"))
        tests = self.programs_of(("tests/run/f_test.cpp", "run_test"))
        self.assertEqual([str(other) for other in mutate.drawn_places(again, self.tree, tests)], [str(place)])


if __name__ == "__main__":
    unittest.main()
