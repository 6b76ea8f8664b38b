"""Tests of what judges and reports; no GPU and no dlpipe needed:
python3 -m unittest discover benchmarks/gpu -p '*_test.py'"""

import json
import os
import pathlib
import sys
import tempfile
import types
import unittest

here = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(here), str(here.parent / "peers")]
import accuracy  # noqa: E402
import check  # noqa: E402
import device_tests  # noqa: E402
import end_to_end  # noqa: E402
import ops  # noqa: E402
import outputs  # noqa: E402
import programs  # noqa: E402
import report  # noqa: E402
import same_run  # noqa: E402
import speed  # noqa: E402

GTEST = """\
Note: Google Test filter = *
[ RUN      ] CudaCast.RoundsAsTheCpuDoes
[       OK ] CudaCast.RoundsAsTheCpuDoes (12 ms)
[ RUN      ] Ops/DeviceKernels.GiveTheReferencesValues/add
add_test.cpp:9: Failure
values differ
[  FAILED  ] Ops/DeviceKernels.GiveTheReferencesValues/add, where GetParam() = 8-byte object <AB (CD)> (7 ms)
[ RUN      ] CudnnConv2d.GivesTheSameBitsAgain
tests/cudnn_conv_test.cpp:125: Skipped
no cuDNN 9
[  SKIPPED ] CudnnConv2d.GivesTheSameBitsAgain (0 ms)
[  PASSED  ] 1 test.
[  FAILED  ] Ops/DeviceKernels.GiveTheReferencesValues/add, where GetParam() = 8-byte object <AB (CD)>
"""


def new_part(seconds=100.0):
    part = report.Part("speed", "how fast?", seconds, lambda line: None, clock=lambda: 0.0)
    return part


def results(part):
    return [(one["name"], one["result"]) for one in part.checks]


class Outputs(unittest.TestCase):
    def test_reads_what_googletest_says_of_each_test(self):
        tests = outputs.gtest(GTEST)
        self.assertEqual([test["result"] for test in tests], ["ok", "failed", "skipped"])
        self.assertEqual([test["ms"] for test in tests], [12, 7, 0])
        self.assertIn("values differ", tests[1]["said"])
        self.assertEqual(outputs.skip_reason(tests[2]["said"]), "no cuDNN 9")

    def test_a_test_that_never_ended_is_cut(self):
        tests = outputs.gtest("[ RUN      ] A.B\n[       OK ] A.B (1 ms)\n[ RUN      ] A.C\nterminate called\n")
        self.assertEqual([(test["test"], test["result"]) for test in tests], [("A.B", "ok"), ("A.C", "cut")])

    def test_reads_the_sanitizers_summaries(self):
        self.assertEqual(outputs.sanitizer("x\n========= ERROR SUMMARY: 0 errors\n"), (0, "0 errors"))
        races = "========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)\n"
        self.assertEqual(outputs.sanitizer(races)[0], 2)
        self.assertEqual(outputs.sanitizer("killed"), (None, ""))

    def test_reads_gpus_and_leaves_out_other_lines(self):
        line = "NVIDIA H100 80GB HBM3, 570.86.15, 81559 MiB, 700.00 W, 1980 MHz, 31\n"
        self.assertEqual(outputs.gpus(line)[0]["name"], "NVIDIA H100 80GB HBM3")
        self.assertEqual(outputs.gpus("No devices were found\n"), [])

    def test_reads_the_table_of_models(self):
        heads = "model     image size  what\n--------  ----------  ----\n"
        table = heads + "lenet     any         LeNet-5\nresnet50  224         R\n"
        self.assertEqual(outputs.models(table), [("lenet", None), ("resnet50", 224)])

    def test_reads_losses_and_says_how_far_apart_they_are(self):
        lines = '{"step":1,"loss":2.0}\n{"step":2,"loss":1.0}\n{"step":2,"val_loss":1.5}\n'
        losses = outputs.losses(lines)
        self.assertEqual(losses, {1: 2.0, 2: 1.0})
        apart = outputs.loss_difference(losses, {1: 2.0, 2: 1.1})
        self.assertEqual((apart["first_step"], apart["steps"]), (0.0, 2))
        self.assertAlmostEqual(apart["mean"], 0.05)
        self.assertIsNone(outputs.loss_difference(losses, {}))

    def test_takes_the_last_line_as_json(self):
        self.assertEqual(outputs.last_json('chatter\n{"a": 1}\n'), {"a": 1})
        self.assertEqual(outputs.last_json("no json\n"), {})
        self.assertEqual(outputs.last_json(""), {})

    def test_waiting_is_by_the_devices_clock_where_there_is_one(self):
        ledger = {"data_wait_share": 0.5, "device": {"waited_seconds": 1.0, "wall_seconds": 4.0}}
        self.assertEqual(outputs.waiting_share(ledger), (0.25, "the device's clock"))
        ledger["device"] = None
        self.assertEqual(outputs.waiting_share(ledger), (0.5, "the host's clock"))


class Report(unittest.TestCase):
    def test_nothing_unchecked_passes_silently(self):
        part = new_part()
        part.not_checked("beside PyTorch", "no PyTorch")
        self.assertEqual(part.record()["result"], "skip")
        part.check("copies", True, "20 GB/s")
        self.assertEqual(part.record()["result"], "pass")
        result, line = report.verdict([part.record()])
        self.assertEqual((result, report.EXIT_CODES[result]), ("skip", 3))
        self.assertEqual(line, "1 checks passed, 0 failed, 1 not checked")
        part.check("steps", False, "exit status 1")
        self.assertEqual(report.verdict([part.record()])[0], "fail")
        self.assertEqual(report.verdict([])[0], "fail")

    def test_a_missed_target_is_said_and_fails_nothing(self):
        part = new_part()
        part.check("a", True, "")
        part.target("resnet50", "0.9 x", "at least 1.1 x", False)
        line = "1 checks passed, 0 failed, 0 not checked; targets missed: resnet50"
        self.assertEqual(report.verdict([part.record()]), ("pass", line))

    def test_a_part_that_breaks_is_a_failed_check(self):
        part = new_part()

        def breaks(context, part):
            raise KeyError("validation")

        check.run_part(None, part, breaks)
        self.assertEqual(results(part), [("the part itself", "fail")])
        part = new_part()
        check.run_part(None, part, lambda context, part: None)
        self.assertEqual(part.record()["result"], "skip")

    def test_parts_share_the_time_and_inherit_what_is_left(self):
        ends = check.ends({"a": 10, "b": 20, "c": 70}, ["c", "a"], 200)
        self.assertEqual(ends, {"a": 20.0, "c": 160.0})
        self.assertLess(sum(row[0] for row in check.PARTS.values()), 480)


class Programs(unittest.TestCase):
    def test_a_program_that_hangs_is_ended(self):
        outcome = programs.run([sys.executable, "-c", "import time; time.sleep(60)"], 0.2)
        self.assertIsNone(outcome.code)
        self.assertIn("not finished", outcome.why())
        outcome = programs.run([sys.executable, "-c", "import sys; sys.exit('[x] no such file')"], 30)
        self.assertEqual(outcome.why(), "exit status 1: [x] no such file")

    def test_finds_test_programs_and_cudas_libraries(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for path in ("a/x_device_test", "b/base_test", "b/simulated_device_test", "b/run_test"):
                (folder / "tests" / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / "tests" / path).touch()
                os.chmod(folder / "tests" / path, 0o755)
            found = [(path.name, pattern) for path, pattern in programs.Programs(folder).tests()]
            self.assertEqual(found, [("x_device_test", "*"), ("base_test", "*Device*")])
            for path in ("p/nvidia/cublas/lib/libcublas", "p/nvidia/nccl/lib/libnccl", "cuda-12/lib64/libcublas"):
                (folder / path).parent.mkdir(parents=True)
                (folder / (path + ".so.12")).touch()
            libraries = programs.cuda_libraries([folder / "p"], folder)
            relative = [str(path.relative_to(folder.resolve())) for path in libraries]
            self.assertEqual(relative, ["cuda-12/lib64", "p/nvidia/cublas/lib"])


class Judging(unittest.TestCase):
    def judged(self, code, text):
        part = new_part()
        device_tests.judge(part, "x_test", programs.Outcome(code, text, "", 1.0), outputs.gtest(text))
        return results(part)

    def test_a_failed_test_fails_and_a_skipped_one_is_not_checked(self):
        skipped = ("x_test: 1 tests, CudnnConv2d.GivesTheSameBitsAgain", "skip")
        self.assertEqual(self.judged(1, GTEST), [("x_test", "fail"), skipped])

    def test_a_crash_fails_and_the_end_of_time_is_not_checked(self):
        text = "[ RUN      ] A.B\n[       OK ] A.B (1 ms)\n[ RUN      ] A.C\n"
        self.assertEqual(self.judged(-11, text), [("x_test", "fail")])
        self.assertEqual(self.judged(None, text), [("x_test, the rest", "skip"), ("x_test", "pass")])
        self.assertEqual(self.judged(127, ""), [("x_test", "fail")])

    def test_the_device_has_to_learn_what_the_host_learns(self):
        def judged(**top1):
            part = new_part()
            found = {
                f"{where}, f32": {"validation": {"loss": 1.0, "metrics": {"top1": value}}, "seconds": 1.0, "steps": 8}
                for where, value in top1.items()
            }
            accuracy.judge(part, found, 0.9)
            return [result for _, result in results(part)]

        self.assertEqual(judged(host=0.95, device=0.94), ["pass", "pass"])
        self.assertEqual(judged(host=0.95, device=0.8), ["pass", "fail"])
        self.assertEqual(judged(host=0.1, device=0.1), ["fail", "pass"])
        self.assertEqual(judged(device=0.99), ["skip"])

    def test_half_a_run_is_taken_away(self):
        with tempfile.TemporaryDirectory() as name:
            run = pathlib.Path(name)
            for step in (3, 6, 9, 10):
                (run / f"checkpoints/step-{step:09}").mkdir(parents=True)
            (run / "checkpoints/last").symlink_to("step-000000010")
            (run / "receipt.json").touch()
            same_run.cut_to_half(run)
            left = sorted(path.name for path in run.rglob("*"))
            self.assertEqual(left, ["checkpoints", "step-000000003", "step-000000006"])

    def test_waiting_is_held_to_its_target(self):
        part = new_part()
        ledger = {"steps": 5, "advice": "", "data_wait_share": 0, "device": {"waited_seconds": 2, "wall_seconds": 100}}
        end_to_end.judge(types.SimpleNamespace(device="cuda"), part, "r", {"steps": 5, "samples_per_s": 9.0}, ledger)
        self.assertEqual([one["met"] for one in part.targets.values()], [False])
        self.assertEqual(results(part), [("r", "pass")])


class Speed(unittest.TestCase):
    def test_the_target_comes_first_and_orders_rotate(self):
        cases = [("resnet50", "bf16", 224, 256), ("resnet18", "bf16", 224, 256)]
        plan = speed.turns(cases, [speed.EAGER, speed.COMPILE])
        names = [turn.name for turn in plan]
        self.assertEqual(names[:3], [speed.DLPIPE, speed.EAGER, speed.COMPILE])
        self.assertEqual(names[5:8], [speed.EAGER, speed.COMPILE, speed.DLPIPE])
        self.assertEqual(plan[-2:], [speed.Turn(cases[1], name, 2, beside) for name, beside in
                                     ((speed.COMPILE, ""), (speed.DLPIPE, speed.COMPILE))])  # fmt: skip
        self.assertEqual({turn.name for turn in speed.turns(cases, [])}, {speed.DLPIPE})

    def test_ratios_are_within_rounds(self):
        def rates(**by_round):
            return {int(number[1:]): {"samples_per_s": rate} for number, rate in by_round.items()}

        self.assertEqual(speed.median_ratio(rates(_0=20, _1=90), rates(_0=10, _2=1)), 2.0)
        self.assertIsNone(speed.median_ratio(rates(_0=20), {0: {"error": "lost"}}))
        self.assertIsNone(speed.median_ratio(None, rates(_0=1)))

    def test_the_target_is_beside_the_best_of_torch_compile(self):
        case = ("resnet50", "bf16", 224, 256)
        peers = [speed.EAGER, speed.COMPILE, speed.GRAPHS]
        rates = {speed.DLPIPE: 120, speed.EAGER: 50, speed.COMPILE: 100, speed.GRAPHS: 110}
        part = new_part()
        speed.target(part, case, peers, {(case, name): {0: {"samples_per_s": rate}} for name, rate in rates.items()})
        (figure,) = part.targets.values()
        self.assertEqual((figure["figure"], figure["met"]), ("1.09 x, of compile and compile as CUDA graphs", False))
        part = new_part()
        speed.target(part, case, [speed.EAGER], {})
        self.assertEqual(part.record()["result"], "skip")

    def test_a_rate_that_its_steps_deny_fails(self):
        def judged(steps):
            part = new_part()
            run = {"samples_per_s": 1000.0, "steps": steps, "batch": 10, "step_ms": 10.0, "graph": True}
            run["peak_memory_bytes"] = 1
            speed.judge(part, "r", speed.DLPIPE, [run], 2.0)
            return results(part)[0][1]

        self.assertEqual([judged(200), judged(100), judged(5)], ["pass", "fail", "pass"])

    def test_a_peer_that_fails_is_said_and_dlpipe_fails(self):
        part = new_part()
        speed.judge(part, "a", speed.EAGER, [{"error": "exit status 1: out of memory"}], 2.0)
        speed.judge(part, "b", speed.DLPIPE, [{"error": "exit status 1: out of memory"}], 2.0)
        self.assertEqual(results(part), [("a", "skip"), ("b", "fail")])


class Ops(unittest.TestCase):
    def row(self, op="conv2d", backward=False, ns=10, flops=1e12):
        return {"op": op, "backward": backward, "sample": "3x3", "inputs": "", "kernel": "", "ns": ns,
                "flops_per_s": flops, "bytes_per_s": 1e9, "roofline_share": 0.5}  # fmt: skip

    def test_an_op_above_the_roofline_fails(self):
        def judged(*rows):
            part = new_part()
            roofline = {"roofline_flops_per_s": 1e12, "roofline_bytes_per_s": 1e12}
            ops.show(part, {"device": "d", "dtype": "bf16", **roofline, "ops": list(rows)}, False)
            return results(part)[0][1]

        view = {"op": "reshape", "backward": False, "sample": "large", "note": "a view"}
        self.assertEqual([judged(self.row(), view), judged(self.row(flops=2e12)), judged(view)], ["pass", "fail", "fail"])

    def test_what_both_measured_is_compared(self):
        fast = [self.row(), self.row(backward=True), self.row("other"), {"op": "reshape", "sample": "s", "note": "a view"}]
        slow = [self.row(ns=40), {"op": "conv2d", "backward": True, "sample": "3x3", "note": "none"}]
        rows = ops.compared("f32", fast, slow)
        self.assertEqual(rows, [["f32", "conv2d", "3x3", "0.0", "0.0", "4.0"]])


class Script(unittest.TestCase):
    def test_without_a_gpu_it_says_so_and_writes_the_report(self):
        with tempfile.TemporaryDirectory() as name:
            out = pathlib.Path(name) / "out"
            command = [sys.executable, here / "check.py", "--programs", name, "--out", out, "--device", "cuda"]
            outcome = programs.run(["env", "PATH=" + name, *command], 60)
            self.assertEqual(outcome.code, 1, outcome.stderr)
            record = json.loads((out / "report.json").read_text())
            self.assertEqual((record["result"], record["parts"]), ("fail", []))
            self.assertIn("no GPU", record["verdict"])


if __name__ == "__main__":
    unittest.main()
