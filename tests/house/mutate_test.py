#!/usr/bin/env python3
"""What scripts/mutate changes, which tests it asks, and when it says that a change was noticed."""
import argparse
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import shutil
import subprocess
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
        """The tests of a tree whose `programs` are (source, program); a source holds the suite of its program's name."""
        for source, program in programs:
            if source.endswith("_test.cpp"):
                self.write(source, f"TEST({program.title().replace('_', '')}, Holds) {{}}\n")
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
        self.assertEqual(tests.next_to("run/train/step.cpp"), ["run_test/*RunTest.Holds*"])
        self.assertEqual(tests.next_to("run/use/predict.cpp"), ["any_test/*AnyTest.Holds*"])
        self.assertEqual(tests.next_to("engine/cpu/rows/relu.cpp"), ["cpu_test/*CpuTest.Holds*", "ops_test/*OpsTest.Holds*"])
        self.assertEqual(tests.next_to("engine/cpu/rows/relu.cpp", all_tests=True), ["cpu_test", "ops_test"])
        self.assertEqual(tests.next_to("io/data/dataset.cpp"), [])
        tests = self.programs_of(("tests/run/any_test.cpp", "run_test"), ("tests/cli/commands/preview_test.cpp", "cli_test"))
        self.assertEqual(tests.next_to("run/use/preview_marks.cpp"), ["run_test/*RunTest.Holds*", "cli_test/Preview*"])

    def test_those_called_like_the_source_or_that_noticed_something_in_its_folder_are_asked_first(self):
        tests = self.programs_of(("tests/engine/cpu/gemm_test.cpp", "cpu_test"), ("tests/engine/ops/relu_test.cpp", "ops_test"))
        judge = mutate.Judge(self.tree, 1)
        judge.test_seconds = {"cpu_test": {"CpuTest.Holds": 1, "Rows.Hold": 1, "Other.Holds": 1},
                              "ops_test": {"All/Records.Agree/soft_max": 1, "All/Records.Agree/gemm": 1, "OpsTest.Holds": 1}}
        killed = [{"place": "engine/cpu/rows.cpp:1:2 ...", "verdict": "killed", "test": "cpu_test Rows.Hold"},
                  {"place": "engine/gpu/rows.cpp:1:2 ...", "verdict": "killed", "test": "cpu_test Other.Holds"}]
        first = lambda path: mutate.likely_tests(mutate.Place(path, 1, 2, "", "", ""), ["cpu_test", "ops_test"], tests, judge,
                                                 killed)
        self.assertEqual(first("engine/cpu/gemm.cpp"),
                         {"cpu_test": ["CpuTest.Holds", "Rows.Hold"], "ops_test": ["All/Records.Agree/gemm"]})
        self.assertEqual(first("engine/reference/soft_max.cpp"), {"ops_test": ["All/Records.Agree/soft_max"]})
        self.assertEqual(first("engine/reference/relu.cpp"), {"ops_test": ["OpsTest.Holds"]})

    def judged(self, answers, first={}, programs=("run_test",)):
        """The verdict where running programs answers these, one after the other, and what was run."""
        judge = mutate.Judge(self.tree, 1)
        judge.test_seconds = {"run_test": {"F.Adds": 2}, "quick_test": {"G.Adds": 1}}
        judge.build = lambda *_, **__: argparse.Namespace(returncode=0)
        given, ran = iter(answers), []
        def run_program(program, seconds, silent_seconds, only):
            ran.append((program, *only))
            return next(given), ""
        judge.run_program = run_program
        return judge.judge(self.place(), programs, first), ran

    def test_a_tree_that_was_removed_is_made_again(self):
        git = lambda *words: subprocess.run(["git", "-C", self.tree, "-c", "user.name=a", "-c", "user.email=a@b", *words],
                                            check=True, stdout=subprocess.DEVNULL)
        git("init", "-q")
        git("add", "run/f.cpp")
        git("commit", "-q", "-m", "f")
        configure, mutate.run = mutate.run, lambda *_: argparse.Namespace(returncode=0)
        self.addCleanup(setattr, mutate, "run", configure)
        for _ in range(2):
            self.assertEqual((mutate.make_tree(self.tree) / "run/f.cpp").read_text(), SOURCE)
            shutil.rmtree(self.tree / "build/mutate")

    def test_what_fails_twice_was_noticed(self):
        self.assertEqual(self.judged(["F.Adds", "F.Adds"]),
                         (("killed", "run_test F.Adds"), [("run_test",), ("run_test", "F.Adds")]))
        self.assertEqual(self.judged(["no end", "no end"]), (("killed", "run_test no end"), [("run_test",), ("run_test",)]))
        self.assertEqual(self.judged(["F.Adds crash", "F.Adds crash"])[0], ("killed", "run_test F.Adds crash"))
        self.assertEqual(self.judged([None]), (("survived", ""), [("run_test",)]))
        self.assertEqual(self.judged(["F.Waits", None, None])[0], ("survived", ""))
        self.assertEqual((self.tree / "run/f.cpp").read_text(), SOURCE)

    def test_likely_tests_are_run_first_and_then_all_the_quickest_program_first(self):
        both = ("run_test", "quick_test")
        self.assertEqual(self.judged([None, None, None], {"run_test": ["F.Adds"]}, both),
                         (("survived", ""), [("run_test", "F.Adds"), ("quick_test",), ("run_test",)]))
        self.assertEqual(self.judged([None, "G.Adds", "G.Adds"], {"run_test": ["F.Adds"]}, both)[0],
                         ("killed", "quick_test G.Adds"))

    def program(self, *lines):
        """A test program that is a script of these lines."""
        self.write("build/release/tests/run/run_test", "\n".join(["#!/bin/sh", *lines]))
        (self.tree / "build/release/tests/run/run_test").chmod(0o755)
        return mutate.Judge(self.tree, 1)

    def test_a_program_that_stops_answering_has_no_end(self):
        run = lambda *lines: self.program(*lines).run_program("run_test", 60, 0.5)[0]
        begins = "echo '[ RUN      ] F.Adds'"
        self.assertEqual(run(begins, "echo '[       OK ] F.Adds (3 ms)'"), None)
        self.assertEqual(run(begins, "echo '[  FAILED  ] F.Adds (3 ms)'", "exit 1"), "F.Adds")
        self.assertEqual(run(begins, "kill -9 $$"), "F.Adds crash")
        self.assertEqual(run("exit 3"), "crash")
        self.assertEqual(run(begins, "sleep 1000 & wait"), "F.Adds no end")

    def test_a_filter_of_a_programs_tests_holds_until_single_ones_are_chosen(self):
        judge = self.program('test "$2" = "--gtest_filter=$WANTED"')
        for program, only, wanted in (("run_test", ["F.Adds", "G.Adds"], "F.Adds:G.Adds"), ("run_test/F.*", [], "F.*"),
                                      ("run_test/F.*", ["F.Adds"], "F.Adds")):
            os.environ["WANTED"] = wanted
            self.assertEqual(judge.run_program(program, 60, 60, only)[0], None, wanted)

    def test_unchanged_programs_say_how_long_their_tests_take(self):
        judge = self.program("echo '[       OK ] All/F.Adds/two_1 (1500 ms)'", "echo '[       OK ] F.Adds (20 ms)'")
        judge.build = lambda *_, **__: argparse.Namespace(returncode=0)
        self.assertTrue(judge.passes_unchanged("run_test"))
        self.assertEqual(judge.test_seconds["run_test"], {"All/F.Adds/two_1": 1.5, "F.Adds": 0.02})
        judge = self.program("exit 1")
        judge.build = lambda *_, **__: argparse.Namespace(returncode=0)
        self.assertFalse(judge.passes_unchanged("run_test"))

    def test_a_report_names_survivors_that_are_judged_again(self):
        place = self.place()
        arguments = argparse.Namespace(places=1, seed=1, rooms="run", again=None)
        judged = [{"place": str(place), "verdict": "survived", "test": "", "seconds": 2},
                  {"place": "run/f.cpp:6:0 constant: '1' -> '2'", "verdict": "killed", "test": "run_test F.Adds", "seconds": 2}]
        mutate.head = lambda root: "0123456789abcdef"
        text = mutate.report_text(arguments, self.tree, 9, judged, mutate.Judge(self.tree, 1))
        self.assertIn("2 places judged, 1 killed, 1 survived; 0 others didn't compile", text)
        self.assertIn("run: 1 of 2 killed\n", text)
        self.write("report.txt", text)
        rooms, survivors = mutate.survivors_of(self.tree / "report.txt")
        self.assertEqual((rooms, survivors), ("run", [str(place)]))
        again = argparse.Namespace(rooms=rooms, again=str(self.tree / "report.txt"))
        tests = self.programs_of(("tests/run/f_test.cpp", "run_test"))
        self.assertEqual([str(other) for other in mutate.drawn_places(again, self.tree, tests, survivors)], [str(place)])

    def again(self, report):
        """What `mutate --again` reports of `report`, where every change survives."""
        self.write("report.txt", report)
        self.write("build/any", "")
        for owner, name, new in ((mutate, "__file__", str(self.tree / "scripts/mutate")), (mutate, "make_tree", lambda root: root),
                                 (mutate, "head", lambda root: "0123456789abcdef"), (mutate, "likely_tests", lambda *_: {}),
                                 (mutate.Judge, "passes_unchanged", lambda *_: True),
                                 (mutate.Judge, "judge", lambda *_: ("survived", "")),
                                 (sys, "argv", ["mutate", "--again", str(self.tree / "report.txt"), "--places", "1", "--jobs", "1"])):
            self.addCleanup(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, new)
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            mutate.main()
        return out.getvalue()

    def test_all_survivors_of_a_report_are_judged_again_and_those_that_moved_are_named(self):
        self.write("other/f.cpp", SOURCE)
        self.programs_of(("tests/other/f_test.cpp", "other_test"))
        there = [str(place) for place in mutate.places_in(self.tree, "other/f.cpp") if place.kind == "bound"]
        self.assertEqual(len(there), 2)
        moved = "other/f.cpp:7:12 bound: '>' -> '>='"
        header = "scripts/mutate --places 3 --seed 1 --rooms other\n\nSurvivors:\n"
        text = self.again(header + "".join(f"  {place}\n" for place in [*there, moved]) + "\nKilled, and the test that noticed:\n")
        self.assertIn("2 places judged, 0 killed, 2 survived", text)
        self.assertIn("other: 0 of 2 killed\n", text)
        self.assertIn(f"not judged, as it is no longer there: {moved}\n", text)
        self.assertIn("0 places judged", self.again(header + "  none\n"))
        with self.assertRaisesRegex(SystemExit, "report.txt is no report of scripts/mutate"):
            self.again("Survivors of another thing\n")


if __name__ == "__main__":
    unittest.main()
