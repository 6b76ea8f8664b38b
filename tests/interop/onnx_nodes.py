"""The ONNX project's own backend node tests (package onnx) against dlpipe's importer.

    onnx_nodes.py DLPIPE SERVE [--verbose] [OP ...]     # with names: the tests of these ops alone
    onnx_nodes.py DLPIPE SERVE --write                  # onnx_nodes.txt anew

SERVE is the module of serve_commands.cpp, which gives the program one command after another.

Each test is a model of one op with inputs and outputs. dlpipe compiles and runs it, or refuses it by the name of what it
doesn't know: anything else, and a wrong answer, fails. Prints the pass rate of every op that the importer knows; how many
pass is held to onnx_nodes.txt.
dlpipe wants sizes, axes and bounds before a model runs: inputs that are lists of integers, scales or single numbers beside a
tensor become the model's constants.
"""
import collections
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnx.backend.test.case.node
import onnx.numpy_helper
from onnx import TensorProto

# How many tests pass, per op that the importer knows, of those whose tensors are float.
PASSING = pathlib.Path(__file__).with_suffix(".txt")
FLOATS = {TensorProto.FLOAT, TensorProto.INT64}
# Their lists of floats are scales.
SCALED = {"Resize", "Upsample"}


class Program:
    """dlpipe, asked for one command after another."""

    def __init__(self, program, serve, scratch):
        self.errors = scratch / "stderr"
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "LD_PRELOAD": serve})

    def run(self, *arguments):
        """The exit code, negative for a signal, and what was said on stderr."""
        lines = [str(self.errors), str(len(arguments)), *map(str, arguments)]
        self.process.stdin.write("".join(line + "\n" for line in lines))
        self.process.stdin.flush()
        return int(self.process.stdout.readline()), self.errors.read_text(errors="replace")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def with_constants(case):
    """The model and its inputs, small ones made initializers."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    inputs = list(case.data_sets[0][0])
    if len(inputs) < 2:
        return model, inputs
    has_scales = any(node.op_type in SCALED for node in case.model.graph.node)
    kept = []
    for value, array in zip(case.model.graph.input, inputs):
        array = numpy.asarray(array)
        is_list = array.dtype in ("int64", "int32", "bool") or has_scales
        is_small = is_list and array.ndim <= 1 or array.ndim == 0
        if kept and is_small:
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
            model.graph.input.remove(next(one for one in model.graph.input if one.name == value.name))
        else:
            kept.append(array)
    return model, kept


def check(program, case, scratch):
    """'passed', or why not: 'refused: ...', 'wrong: ...'."""
    model, inputs = with_constants(case)
    onnx.save(model, scratch / "model.onnx")
    (scratch / "m.dlg").unlink(missing_ok=True)
    code, errors = program.run("compile", scratch / "model.onnx", "-o", scratch / "m.dlg", "--quiet")
    if code != 0:
        line = errors.strip().splitlines()[-1] if errors.strip() else ""
        if code not in (1, 2) or "[" not in line:
            return f"wrong: exit code {code}: {line}"
        return f"refused: {line}"
    wanted = case.data_sets[0][1]
    arguments = []
    for i, array in enumerate(inputs):
        numpy.save(scratch / f"x{i}.npy", numpy.ascontiguousarray(array))
        arguments += ["--input", scratch / f"x{i}.npy"]
    for i in range(len(wanted)):
        arguments += ["--output", scratch / f"y{i}.npy"]
    code, errors = program.run("run", scratch / "m.dlg", *arguments, "--quiet")
    if code != 0:
        line = errors.strip().splitlines()[-1] if errors.strip() else ""
        return f"refused: {line}" if code in (1, 2) and "[" in line else f"wrong: {code} {line}"
    for i, array in enumerate(wanted):
        got = numpy.load(scratch / f"y{i}.npy")
        if got.shape != array.shape:
            return f"wrong: shape {got.shape}, expected {array.shape}"
        if not numpy.allclose(got, array, rtol=1e-3, atol=1e-5, equal_nan=True):
            return f"wrong: differs by {numpy.abs(got.astype('f8') - array.astype('f8')).max():.3g}"
    return "passed"


def refusal(program, case, scratch):
    """Of a model with ops or elements that dlpipe doesn't know: it is refused, or compiled where only some are unknown."""
    onnx.save(case.model, scratch / "model.onnx")
    (scratch / "m.dlg").unlink(missing_ok=True)
    code, errors = program.run("compile", scratch / "model.onnx", "-o", scratch / "m.dlg", "--quiet")
    is_answer = code == 0 or code in (1, 2) and "[" in errors
    return ("compiled" if code == 0 else "refused") if is_answer else f"crashed in {case.name}"


def is_of_floats(model):
    values = list(model.graph.input)[:1] + list(model.graph.output)
    return all(value.type.WhichOneof("value") == "tensor_type" and value.type.tensor_type.elem_type in FLOATS
               for value in values)


def compare_with_list(rates):
    """What is wrong with how many pass, as lines."""
    listed = dict(line.split() for line in PASSING.read_text().splitlines())
    passed = {op: counts["passed"] for op, counts in rates.items()}
    lines = []
    for op in sorted(listed.keys() | passed.keys()):
        wanted, got = int(listed.get(op, 0)), passed.get(op, 0)
        if got != wanted:
            lines.append(f"{op}: {got} tests pass, {wanted} by {PASSING.name}" + ("; --write lists them" if got > wanted else ""))
    return lines


def main():
    path, serve, verbose, writes = sys.argv[1], sys.argv[2], "--verbose" in sys.argv, "--write" in sys.argv
    asked = set(sys.argv[3:]) - {"--verbose", "--write"}
    known = set(subprocess.run([path, "compile", "--list-onnx-ops"], capture_output=True, text=True).stdout.split())
    cases = onnx.backend.test.case.node.collect_testcases(None)
    rates = collections.defaultdict(collections.Counter)
    wrong, others = [], collections.Counter()
    with tempfile.TemporaryDirectory() as name:
        program = Program(path, serve, pathlib.Path(name))
        for case in sorted(cases, key=lambda case: case.name):
            model = case.model
            ops = {node.op_type for node in model.graph.node}
            if asked and not ops & asked:
                continue
            is_ours = ops <= known and is_of_floats(model)
            if not is_ours:
                others[refusal(program, case, pathlib.Path(name))] += 1
                continue
            outcome = check(program, case, pathlib.Path(name))
            if outcome.startswith("wrong"):
                wrong.append(f"{case.name}: {outcome}")
            if verbose and outcome != "passed":
                print(f"{case.name}: {outcome}")
            for op in ops:
                rates[op][outcome.split(":")[0]] += 1
        program.close()
    total = sum(rates.values(), collections.Counter())
    for op, counts in sorted(rates.items()):
        print(f"{op:24} {counts['passed']:4} of {sum(counts.values()):4}")
    rate = total["passed"] / max(1, sum(total.values()))
    print(f"ops that the importer knows, on floats: {total['passed']} of {sum(total.values())} pass, {100 * rate:.1f} %")
    print(f"all others: {dict(others)}")
    wrong += [kind for kind in others if kind.startswith("crashed")]
    if wrong:
        return "\n".join(["wrong answers:"] + wrong)
    if writes:
        PASSING.write_text("".join(f"{op} {counts['passed']}\n" for op, counts in sorted(rates.items())))
    if not asked and (lines := compare_with_list(rates)):
        return "\n".join(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
