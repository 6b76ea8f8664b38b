"""Tables: copies between host and device, and each model's step on the device beside the host's."""

import outputs
import programs

BATCH, QUICK_BATCH = 16, 2
QUICK_MODELS = ["lenet", "airbench"]
# Those that others publish such tables of, before the rest.
FIRST = ["resnet18", "resnet50", "vgg16", "vgg19", "resnet200"]
TOO_LARGE = ["gpt2_small"]  # minutes per step, and much memory, on a host


def run(context, part):
    copies(context, part)
    outcome = programs.run(context.programs.dlpipe("train", "--help", "models"), part.left())
    found = outputs.models(outcome.stdout)
    if not found:
        return part.check("the models' steps", False, f"no table of models: {outcome.why()}")
    if context.quick:
        found = [row for row in found if row[0] in QUICK_MODELS]
    found = [row for row in found if row[0] not in TOO_LARGE]
    order = {name: place for place, name in enumerate(FIRST)}
    return steps(context, part, sorted(found, key=lambda row: (order.get(row[0], len(order)), row[0])))


def copies(context, part):
    options = ["--device", context.device, "--seconds", 0.3 if context.quick else 2, "--json"]
    outcome = programs.run(context.programs.dlpipe("bench", "h2d", *options), part.left())
    result = outputs.last_json(outcome.stdout)
    if not outcome.ok or not result.get("sizes"):
        return part.check("copies", False, outcome.why())
    ways = [key for key in result["sizes"][0] if key.endswith("_bytes_per_s")]
    heads = ["bytes", *[key.removesuffix("_bytes_per_s").replace("_", " ") for key in ways]]
    rows = [[size["bytes"], *[f"{size[way] * 1e-9:.2f}" for way in ways]] for size in result["sizes"]]
    part.table(f"GB/s, {result['device']}", heads, rows)
    best = max(size["pinned_to_device_bytes_per_s"] for size in result["sizes"])
    return part.check("copies", best > 0, f"{best * 1e-9:.1f} GB/s from pinned memory")


def steps(context, part, models):
    """f32, forward, backward and the optimizer's step."""
    batch = QUICK_BATCH if context.quick else BATCH
    rows, left_out = [], []
    for name, size in models:
        if part.left() < (2 if context.quick else 10):
            left_out.append(name)
            continue
        found = [step(context, part, name, batch, device) for device in ("cpu", context.device)]
        if None in found:
            continue
        host_ms, device_ms = (one["step_ms"] for one in found)
        rows.append([name, found[1]["size"], f"{host_ms:.2f}", f"{device_ms:.2f}", f"{host_ms / device_ms:.1f}"])
    heads = ["model", "size", "host, ms per step", f"{context.device}, ms per step", "times as fast"]
    if rows:
        part.table(f"training step, f32, batch {batch}, the host with {context.cores} threads", heads, rows)
        part.check("the models' steps", True, f"{len(rows)} models on both")
    if left_out:
        part.not_checked(f"the steps of {', '.join(left_out)}", "no time left")


def step(context, part, model, batch, device, *more):
    """One step's report, or None; `more`: options of bench train."""
    options = [
        "--model", model, "--batch", batch, "--device", device, "--seconds", 0.2 if context.quick else 1,
        "--warmup", 1 if device == "cpu" else 5, "--threads", context.cores, "--json", *more,
    ]  # fmt: skip
    outcome = programs.run(context.programs.dlpipe("bench", "train", *options), part.left())
    result = outputs.last_json(outcome.stdout)
    if outcome.ok and "step_ms" in result:
        return result
    if outcome.code is None:
        part.not_checked(f"{model} on {device}", outcome.why())
    else:
        part.check(f"{model} on {device}", False, outcome.why())
    return None
