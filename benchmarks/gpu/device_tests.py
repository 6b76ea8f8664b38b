"""Every test program that has tests of a real device, and the kernels' under compute-sanitizer."""

import shutil

import outputs
import programs

# Our own kernels; cuBLAS and cuDNN under a checker take minutes and say nothing of us.
KERNEL_TESTS = "*DeviceKernels*:CudaCast*:FillRows*"


def run_tests(context, part):
    if context.device != "cpu":
        options = ["h2d", "--device", context.device, "--seconds", 0.1, "--json"]
        outcome = programs.run(context.programs.dlpipe("bench", *options), part.left())
        name = outputs.last_json(outcome.stdout).get("device", "")
        part.check("dlpipe finds the device", outcome.ok, name if outcome.ok else outcome.why())
    tests = context.programs.tests()
    if not tests:
        part.not_checked("tests", f"no test programs in {context.programs.folder}")
    for path, pattern in tests:
        command = context.programs.command(path, f"--gtest_filter={pattern}")
        outcome = programs.run(command, part.left(), context.out / f"{path.name}.log")
        judge(part, path.name, outcome, outputs.gtest(outcome.stdout))


def judge(part, name, outcome, tests):
    """One check for a program; a test that was skipped is said with its reason."""
    count = {kind: [test for test in tests if test["result"] == kind] for kind in ("ok", "failed", "skipped", "cut")}
    for test in count["failed"] + count["cut"]:
        part.note(f"{test['result']}: {test['test']}: {test['said'][:200]}")
    reasons = {}
    for test in count["skipped"]:
        reasons.setdefault(outputs.skip_reason(test["said"]), []).append(test["test"])
    text = f"{len(count['ok'])} of {len(tests)} tests in {outcome.seconds:.1f} s"
    bad = len(count["failed"]) + len(count["cut"])
    if outcome.code is None:
        part.not_checked(f"{name}, the rest", f"{outcome.why()}; {text} until then")
    if bad and outcome.code is not None or not outcome.ok and outcome.code is not None:
        part.check(name, False, f"{text}; {outcome.why()}", tests=tests)
    elif count["ok"]:
        part.check(name, not count["failed"], text, tests=tests)
    for reason, skipped in reasons.items():
        part.not_checked(f"{name}: {len(skipped)} tests, {skipped[0]}", reason)


def run_sanitizer(context, part):
    """memcheck and racecheck over the ops' kernels."""
    if context.device == "cpu":
        return part.not_checked("memcheck, racecheck", "they are for a GPU")
    checker = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if not checker:
        return part.not_checked("memcheck, racecheck", "no compute-sanitizer on this machine")
    test = next((path for path, _ in context.programs.tests() if path.name == "engine_cuda_device_test"), None)
    if test is None:
        return part.not_checked("memcheck, racecheck", "no engine_cuda_device_test")
    for number, tool in enumerate(("memcheck", "racecheck")):
        options = ["--tool", tool, "--error-exitcode", 1, test, f"--gtest_filter={KERNEL_TESTS}"]
        share = part.left() / (2 - number)
        outcome = programs.run(context.programs.command(checker, *options), share, context.out / f"{tool}.log")
        errors, summary = outputs.sanitizer(outcome.stdout + outcome.stderr)
        done = sum(test["result"] == "ok" for test in outputs.gtest(outcome.stdout))
        if outcome.code is None:
            part.not_checked(tool, f"{outcome.why()}, {done} tests were through")
        else:
            said = summary or outcome.why()
            part.check(tool, outcome.ok and errors == 0, f"{done} tests, {said}, {outcome.seconds:.0f} s")
