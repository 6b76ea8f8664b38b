"""From JPEGs in LMDB to trained steps: does the device wait for data?"""

import json

import outputs
import programs
import same_run

# (model, dtype, size, batch, steps)
CASES = [("resnet50", "bf16", 224, 256, 60), ("resnet18", "bf16", 224, 256, 80)]
QUICK_CASES = [("lenet", "f32", 32, 32, 20)]
WAITING_TARGET = 0.01


def run(context, part):
    quick = context.quick
    images = ("48..64", 40) if quick else same_run.LARGE_IMAGES
    data = context.draw(part, "large", *images)
    if data is None:
        return
    for model, dtype, size, batch, steps in QUICK_CASES if quick else CASES:
        name = f"{model} {dtype}, rrc({size}), batch {batch}"
        if part.left() < 5:
            part.not_checked(name, "no time left")
            continue
        out = context.out / "runs" / f"end-to-end-{model}"
        options = [
            "--data", data, "--model", model, "--dtype", dtype, "--augment", f"rrc({size}) hflip", "--batch", batch,
            "--epochs", 10000, "--max-steps", steps, "--lr", 0.01, "--val-every", "never", "--seed", 1,
            "--checkpoint-every", "never", "--device", context.device, "--out", out, "--json",
        ]  # fmt: skip
        log = context.out / f"{out.name}.log"
        outcome = programs.run(context.programs.dlpipe("train", *options), part.left(), log)
        if outcome.code is None:
            part.not_checked(name, outcome.why())
        elif not outcome.ok:
            part.check(name, False, outcome.why())
        else:
            ledger = json.loads((out / "ledger.json").read_text())
            judge(context, part, name, outputs.last_json(outcome.stdout), ledger)
    pipeline_alone(context, part, data, 32 if quick else 224)


def judge(context, part, name, result, ledger):
    share, clock = outputs.waiting_share(ledger)
    text = f"{result['steps']} steps, {result['samples_per_s']:.0f} img/s with start and end; {ledger['advice']}"
    part.check(name, result["steps"] == ledger["steps"], text, ledger=ledger)
    if context.device != "cpu" and not ledger.get("device"):
        part.not_checked(f"{name}: waiting by the device's clock", "ledger.json has no device's ledger")
    part.target(
        f"{name}: waiting for data",
        f"{100 * share:.2f} % by {clock}",
        f"under {100 * WAITING_TARGET:.0f} %",
        share < WAITING_TARGET,
    )


def pipeline_alone(context, part, data, size):
    """What the host could deliver: beside the model's need it says which of the two is short."""
    seconds = 0.5 if context.quick else 3
    if part.left() < seconds + 2:
        return part.not_checked("the pipeline alone", "no time left")
    options = ["--data", data, "--augment", f"rrc({size}) hflip", "--batch", 256, "--seconds", seconds, "--json"]
    outcome = programs.run(context.programs.dlpipe("bench", "pipeline", *options), part.left())
    result = outputs.last_json(outcome.stdout)
    if not outcome.ok or "samples_per_s" not in result:
        return part.check("the pipeline alone", False, outcome.why())
    text = f"{result['samples_per_s']:.0f} img/s of {size} x {size} with {result['threads']} threads"
    return part.check("the pipeline alone", True, text, samples_per_s=result["samples_per_s"])
