"""Training to an accuracy: drawn images learnt on the device as well as on the host."""

import outputs
import programs

# Three epochs give about 98 % on the host, so that there is room to be worse; the standard deviation of 98 % on 900
# images is half a point.
EPOCHS, AT_LEAST, POINTS_APART = 3, 0.9, 0.03
RECIPE = "recipes/quickstart.toml"


def run(context, part):
    data = context.images(part)
    if data is None:
        return
    dtypes = ["f32", "bf16"] if context.device == "cpu" else ["f32", "bf16", "f16"]
    runs = [("host", "cpu", "f32"), *[("device", context.device, dtype) for dtype in dtypes]]
    found = {}
    for place, device, dtype in runs[:2] if context.quick else runs:
        out = context.out / "runs" / f"accuracy-{place}-{dtype}"
        options = [
            "--config", context.root / RECIPE, "--data", data, "--out", out, "--device", device, "--dtype", dtype,
            "--epochs", EPOCHS, "--val-every", f"{EPOCHS}epochs", "--json",
        ]  # fmt: skip
        log = context.out / f"{out.name}.log"
        outcome = programs.run(context.programs.dlpipe("train", *options), part.left(), log)
        name = f"{place}, {dtype}"
        if outcome.ok:
            found[name] = outputs.last_json(outcome.stdout)
        elif outcome.code is None:
            part.not_checked(name, outcome.why())
        else:
            part.check(name, False, outcome.why())
    judge(part, found, AT_LEAST if not context.quick else 0.1)


def top1(result):
    return result["validation"]["metrics"]["top1"]


def judge(part, found, at_least):
    """`found`: what `dlpipe train --json` said of the host's run and the device's."""
    rows = [
        [name, f"{100 * top1(one):.2f} %", f"{one['validation']['loss']:.4f}", f"{one['seconds']:.1f}", one["steps"]]
        for name, one in found.items()
    ]
    part.table(f"{RECIPE}, {EPOCHS} epochs", ["where", "val top1", "val loss", "seconds", "steps"], rows)
    host = found.get("host, f32")
    if host is None:
        return part.not_checked("the device beside the host", "the host has no accuracy")
    reached = f"{100 * top1(host):.2f} %"
    part.check("the host learnt", top1(host) >= at_least, f"{reached}; at least {100 * at_least:.0f} %")
    for name, one in found.items():
        if name.startswith("device"):
            near = top1(one) >= top1(host) - POINTS_APART
            part.check(f"{name}, reaches the host's accuracy", near, f"{100 * top1(one):.2f} % and {reached}")
