"""Each op by itself beside the device's measured roofline, and what cuDNN is worth: convolutions, attention and whole
steps with it and with our own code in its place."""

import outputs
import programs
import tables

LOW, PLAIN = "bf16", "f32"
BATCH = 16
STEPS_OF = ["resnet50", "vgg16"]
CUDNN_OPS = ["conv2d", "self_attention"]
# Beyond the measured best product's rate an op was not waited for, or its arithmetic is counted wrongly.
MOST_OF_ROOFLINE = 1.25


def run(context, part):
    seconds = 1 if context.quick else 6
    report = bench(context, part, "every op", ["--dtype", LOW, "--seconds", seconds])
    if report:
        show(part, report, context.quick)
    if context.device == "cpu":
        part.not_checked("with and without cuDNN", "it is for a GPU")
        return
    for op in CUDNN_OPS:
        beside(context, part, op)
    steps(context, part)


def bench(context, part, name, options):
    options = ["--device", context.device, "--json", *options, *(["--quick"] if context.quick else [])]
    outcome = programs.run(context.programs.dlpipe("bench", "ops", *options), part.left())
    report = outputs.last_json(outcome.stdout)
    if outcome.ok and report.get("ops"):
        return report
    if outcome.code is None:
        part.not_checked(name, outcome.why())
    else:
        part.check(name, False, outcome.why())
    return None


def direction(row):
    return row["op"] + (" backward" if row["backward"] else "")


def show(part, report, quick):
    """A table of all, and, unless small samples beside a small roofline say nothing, whether the rates can be true."""
    measured = [row for row in report["ops"] if row.get("ns") is not None]
    best, memory = report["roofline_flops_per_s"], report["roofline_bytes_per_s"]
    rows = [
        [direction(row), row["sample"], row["inputs"], f"{row['ns'] * 1e-3:.1f}", f"{row['flops_per_s'] * 1e-12:.2f}",
         f"{row['bytes_per_s'] * 1e-9:.0f}", f"{100 * row['roofline_share']:.0f} %"]
        for row in measured
    ]  # fmt: skip
    part.table(f"ops in {report['dtype']}, {report['device']}",
               ["op", "sample", "inputs", "us", "TFLOP/s", "GB/s", "of the roofline"], rows)  # fmt: skip
    side = "small matrices" if quick else "8192 x 8192 matrices"
    text = f"{len(rows)} calls; {side} are multiplied at {best * 1e-12:.1f} TFLOP/s, memory copied at {memory * 1e-9:.0f} GB/s"
    too_fast = [row for row in measured if not quick and row["flops_per_s"] > MOST_OF_ROOFLINE * best]
    for row in too_fast:
        part.note(f"{direction(row)} {row['sample']}: {row['flops_per_s'] * 1e-12:.1f} TFLOP/s can't be")
    part.check("every op", bool(rows) and not too_fast, text)


def beside(context, part, op):
    """One op in both precisions, with cuDNN and without."""
    rows = []
    for dtype in (PLAIN, LOW):
        options = ["--ops", op, "--dtype", dtype, "--seconds", 0.3 if context.quick else 1]
        found = [bench(context, part, f"{op} in {dtype}{said}", [*options, *flag]) for said, flag in WAYS]
        if None in found:
            return
        rows += compared(dtype, *[report["ops"] for report in found])
    part.table(f"{op}, with cuDNN and without", ["dtype", "call", "sample", "us", "us without", "times as fast"], rows)
    part.check(f"{op} with and without cuDNN", bool(rows), f"{len(rows)} calls")


WAYS = [("", []), (" without cuDNN", ["--no-cudnn"])]


def compared(dtype, fast, slow):
    """Rows of what both measured."""
    slow_ns = {(direction(row), row["sample"]): row["ns"] for row in slow if row.get("ns") is not None}
    rows = []
    for row in (row for row in fast if row.get("ns") is not None):
        other = slow_ns.get((direction(row), row["sample"]))
        if other is None:
            continue
        rows.append([dtype, direction(row), row["sample"], f"{row['ns'] * 1e-3:.1f}", f"{other * 1e-3:.1f}",
                     f"{other / row['ns']:.1f}"])  # fmt: skip
    return rows


def steps(context, part):
    """Whole training steps in f32, beside im2col and products in cuDNN's place."""
    rows = []
    for model in STEPS_OF:
        if part.left() < 8:
            part.not_checked(f"{model}'s step without cuDNN", "no time left")
            continue
        found = [tables.step(context, part, model, BATCH, context.device, *flag) for _, flag in WAYS]
        if None in found:
            continue
        with_ms, without_ms = (one["step_ms"] for one in found)
        rows.append([model, f"{with_ms:.2f}", f"{without_ms:.2f}", f"{without_ms / with_ms:.1f}"])
    if rows:
        part.table(f"training step, f32, batch {BATCH}, with cuDNN and without",
                   ["model", "ms", "ms without", "times as fast"], rows)  # fmt: skip
