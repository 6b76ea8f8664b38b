#!/usr/bin/env python3
"""What scripts/test counts: tests, not the processes that ran them."""
import importlib.machinery
import importlib.util
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
SCRIPT = pathlib.Path(__file__).parents[2] / "scripts/count_tests"
loader = importlib.machinery.SourceFileLoader("count_tests", str(SCRIPT))
count_tests = importlib.util.module_from_spec(importlib.util.spec_from_loader("count_tests", loader))
loader.exec_module(count_tests)


def program(*lines):
    return "\n".join(["[==========] Running tests.", *lines])


def ok(name):
    return f"[ RUN      ] {name}\n[       OK ] {name} (3 ms)"


class CountTests(unittest.TestCase):
    def count(self, *tests):
        """Of tests (name, verdict, output), as ctest writes them."""
        said = ["Test project /build"]
        log = ["Start testing: today", "-" * 58]
        for index, (name, verdict, output) in enumerate(tests, 1):
            number = f"{index}/{len(tests)}"
            said += [f"    Start {index}: {name}", f"{number} Test #{index}: {name} ....{verdict:>12}  1.02 sec"]
            log += [f"{number} Testing: {name}", f"{number} Test: {name}", "Command: x", "Output:", "-" * 58,
                    f"{output}\n<end of output>", "Test time =   1.02 sec", "-" * 58, ""]
        return count_tests.count("\n".join(said), "\n".join(log))

    def test_every_test_of_a_program_counts(self):
        skip = "[ RUN      ] A.C\nno device\n[  SKIPPED ] A.C (0 ms)"
        end = "[  PASSED  ] 2 tests.\n[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] A.C"
        shard = program(ok("A.A"), ok("A.B"), skip, end)
        self.assertEqual(self.count(("a.1", "   Passed", shard), ("a.2", "   Passed", program(ok("A.D")))), (3, [], 1))

    def test_a_program_without_tests_counts_nothing(self):
        self.assertEqual(self.count(("a.1", "   Passed", program("[  PASSED  ] 0 tests."))), (0, [], 0))

    def test_output_before_the_result_on_its_line_hides_nothing(self):
        shard = program("[ RUN      ] A.A", "no newline[       OK ] A.A (3 ms)")
        self.assertEqual(self.count(("a.1", "   Passed", shard)), (1, [], 0))

    def test_a_failed_test_is_named_and_the_others_count(self):
        bad = "[ RUN      ] A/B.C/1\nx.cpp:3: Failure\n[  FAILED  ] A/B.C/1, where GetParam() = 4 (1 ms)"
        end = "[  FAILED  ] 1 test, listed below:\n[  FAILED  ] A/B.C/1, where GetParam() = 4"
        self.assertEqual(self.count(("a.1", "***Failed", program(ok("A.A"), bad, ok("A.D"), end))),
                         (2, ["a.1: A/B.C/1"], 0))

    def test_a_test_in_which_the_program_ends_has_failed(self):
        shard = program(ok("A.A"), "[ RUN      ] A.B", "==1==ERROR: AddressSanitizer")
        self.assertEqual(self.count(("a.1", "***Timeout", shard)), (1, ["a.1: A.B"], 0))

    def test_a_leak_after_all_tests_is_a_failure(self):
        shard = program(ok("A.A"), "==1==ERROR: LeakSanitizer")
        self.assertEqual(self.count(("a.1", "***Failed", shard)), (1, ["a.1: after its tests"], 0))

    def test_other_programs_count_by_their_verdict(self):
        self.assertEqual(
            self.count(("fuzz.a", "   Passed", "replayed"), ("cuda.b", "***Skipped", ""), ("interop.c", "***Failed", ""),
                       ("d", "***Not Run", ""), ("e", "***Exception: SegFault", "")),
            (1, ["interop.c", "d", "e"], 1))


if __name__ == "__main__":
    unittest.main()
