"""Training steps: dlpipe beside PyTorch eager and torch.compile on the same device, interleaved.

Programs take turns in an order that rotates, and a ratio is taken within a round. What matters most comes first, so
that whatever the time allows is worth having: the network of the target beside eager and torch.compile, then all
beside eager, then rounds more, CUDA graphs among them, then torch.compile on the rest.
"""

import dataclasses
import statistics
import sys

import programs

import contest

TARGET = ("resnet50", "bf16")
TARGET_TIMES = 1.1

# (model, dtype, size or tokens, batch), the most wanted first.
CASES = [
    ("resnet50", "bf16", 224, 256),
    ("resnet18", "bf16", 224, 256),
    ("gpt2_small", "bf16", 1024, 8),
    ("vit_small_cifar", "bf16", 32, 512),
    ("airbench", "bf16", 32, 2000),
    ("resnet50", "f16", 224, 256),
    ("resnet50", "f32", 224, 256),
    ("resnet18", "f32", 224, 256),
    ("airbench", "f32", 32, 2000),
]
QUICK_CASES = [("airbench", "f32", 32, 16), ("gpt_char", "f32", 32, 2)]
DLPIPE, EAGER, COMPILE, GRAPHS = "dlpipe", "eager", "compile", "compile as CUDA graphs"
TRAINERS = {EAGER: ("pytorch_eager", "default"), COMPILE: ("pytorch_compile", "default"),
            GRAPHS: ("pytorch_compile", "reduce-overhead")}  # fmt: skip
# A rate by the seconds that a program tells may be above the one by the seconds it was asked to measure, by so much at most;
# of fewer steps it says nothing.
COUNTED_APART, FEW_STEPS = 1.15, 20
SECONDS, QUICK_SECONDS = 2.5, 0.3
# What a run takes until another of its kind was seen, and at least before any is begun.
EXPECTED_S = {DLPIPE: 8, EAGER: 15, COMPILE: 60, GRAPHS: 40}
QUICK_EXPECTED_S = {DLPIPE: 2, EAGER: 5, COMPILE: 30, GRAPHS: 30}


@dataclasses.dataclass(frozen=True)
class Turn:
    case: tuple
    name: str
    round: int
    beside: str = ""  # only where this one ran in the same round


def turns(cases, peers):
    """All runs in the order in which they are worth having; `peers`: those of TRAINERS that can run here."""
    first, rest = cases[0], cases[1:]
    with_eager = [DLPIPE, *[name for name in peers if name == EAGER]]
    compilers = [name for name in peers if name != EAGER]
    plan = []

    def one_round(case, names, number):
        shift = number % len(names)
        plan.extend(Turn(case, name, number) for name in names[shift:] + names[:shift])

    one_round(first, with_eager + compilers[:1], 0)
    for case in rest:
        one_round(case, with_eager, 0)
    one_round(first, with_eager + compilers, 1)
    for case in rest:
        one_round(case, with_eager, 1)
    for number, compiler in enumerate(compilers, 2):
        for case in rest:
            plan += [Turn(case, compiler, number), Turn(case, DLPIPE, number, compiler)]
    return plan


def run(context, part):
    cases = QUICK_CASES if context.quick else CASES
    peers = find_peers(context, part)
    results, took, left_out = {}, {}, []
    for turn in turns(cases, peers):
        key = (turn.case, turn.name)
        expected = (QUICK_EXPECTED_S if context.quick else EXPECTED_S)[turn.name]
        if failed(results.get(key)) or turn.beside and turn.round not in results.get((turn.case, turn.beside), {}):
            continue
        if part.left() < took.get(key, expected):
            left_out.append(turn)
            continue
        before = part.left()
        result = contest.run_once(command(context, turn), max(1, part.left()))
        took[key] = 1.2 * (before - part.left())
        results.setdefault(key, {})[turn.round] = result
        progress(turn, result)
    show(context, part, cases, peers, results, left_out)


def failed(runs):
    return bool(runs) and any("error" in one for one in runs.values())


def progress(turn, result):
    rate = result.get("error") or f"{result['samples_per_s']:.0f}/s"
    print(f"[gpu] {' '.join(map(str, turn.case))}, {turn.name}, round {turn.round + 1}: {rate}", file=sys.stderr)


def find_peers(context, part):
    """Which of TRAINERS can run here; what can't is said."""
    outcome = programs.run([context.torch_python, "-c", TORCH_PROBE], min(60, part.left()))
    reason = outcome.stdout.strip() if outcome.ok else "no PyTorch in " + str(context.torch_python)
    if not outcome.ok or not reason.startswith("torch"):
        part.not_checked("beside PyTorch", reason)
        return []
    words = dict(word.split("=", 1) for word in reason.split())
    if context.device != "cpu" and words["cuda"] == "0":
        part.not_checked("beside PyTorch", f"PyTorch {words['torch']} has no CUDA device here")
        return []
    part.note(f"PyTorch {words['torch']}, cuDNN {words['cudnn']}")
    if context.device == "cpu":
        return [EAGER, COMPILE]
    if words["triton"] == "0":
        part.not_checked("beside torch.compile", "PyTorch has no Triton here")
        return [EAGER]
    return [EAGER, COMPILE, GRAPHS]


TORCH_PROBE = """
import importlib.util
try:
    import torch
except ImportError as problem:
    raise SystemExit(print(f"no PyTorch: {problem}"))
triton = int(importlib.util.find_spec("triton") is not None)
cudnn = torch.backends.cudnn.version()
print(f"torch={torch.__version__} cuda={int(torch.cuda.is_available())} cudnn={cudnn} triton={triton}")
"""


def command(context, turn):
    model, dtype, size, batch = turn.case
    options = [
        "--model", model, "--dtype", dtype, "--batch", batch, "--size", size, "--threads", context.cores,
        "--device", context.device, "--seconds", QUICK_SECONDS if context.quick else SECONDS,
    ]  # fmt: skip
    if turn.name == DLPIPE:
        return context.programs.dlpipe("bench", "train", *options, "--warmup", 2 if context.quick else 15, "--json")
    trainer, mode = TRAINERS[turn.name]
    path = context.root / "benchmarks/peers/train/trainers" / f"{trainer}.py"
    words = [context.torch_python, path, *options, "--compile-mode", mode]
    return [str(word) for word in words]


def median_ratio(ours, theirs):
    """dlpipe over a peer, the median over the rounds that both ran."""
    rounds = [number for number in ours or {} if "error" not in ours[number] and number in (theirs or {})]
    times = [
        ours[number]["samples_per_s"] / theirs[number]["samples_per_s"]
        for number in rounds
        if "error" not in theirs[number]
    ]
    return statistics.median(times) if times else None


def show(context, part, cases, peers, results, left_out):
    heads = ["network", "dtype", "size", "batch", "dlpipe", *[word for name in peers for word in (name, "dlpipe is")]]
    rows = []
    for case in cases:
        ours = results.get((case, DLPIPE))
        row = [*case, cell(ours)]
        for name in peers:
            times = median_ratio(ours, results.get((case, name)))
            row += [cell(results.get((case, name))), f"{times:.2f} x" if times else "-"]
        rows.append(row)
    part.table("samples per second, median (min-max) over rounds", heads, rows)
    for (case, name), runs in results.items():
        label = f"{' '.join(map(str, case))}, {name}"
        seconds = QUICK_SECONDS if context.quick else SECONDS
        judge(part, label, name, [runs[number] for number in sorted(runs)], seconds)
    for name in dict.fromkeys(turn.name for turn in left_out):
        cases_left_out = dict.fromkeys(turn.case for turn in left_out if turn.name == name)
        missing = [case for case in cases_left_out if (case, name) not in results]
        if missing:
            part.not_checked(f"{name} on {', '.join(f'{case[0]} {case[1]}' for case in missing)}", "no time left")
    part.figures["runs"] = list_of(results)
    target(part, cases[0], peers, results)


def judge(part, label, name, runs, seconds):
    """dlpipe has to run; a peer that can't is said. `seconds` were measured in each run."""
    errors = [one["error"] for one in runs if "error" in one]
    if errors and name == DLPIPE and not errors[0].startswith("not finished"):
        part.check(label, False, errors[0])
    elif errors:
        part.not_checked(label, errors[0])
    elif name == DLPIPE:
        one = runs[-1]
        reason = one.get("graph_reason")
        how = "one graph per step" if one.get("graph") else f"no graph: {reason}" if reason else "no device"
        text = f"{one['step_ms']:.2f} ms per step, {how}, peak {one['peak_memory_bytes'] / 2**30:.2f} GiB"
        # Its rate is by the seconds that it tells (contest.py). Were they fewer than the steps took, fewer steps would have fitted in.
        is_counted = one["steps"] < FEW_STEPS or one["samples_per_s"] <= COUNTED_APART * counted_rate(one, seconds)
        if not is_counted:
            text += f"; but {one['steps']} steps in {seconds:g} s are {counted_rate(one, seconds):.0f}/s"
        part.check(label, is_counted, text)


def counted_rate(one, seconds):
    return one["steps"] * one["batch"] / seconds


def cell(runs):
    rates = [one["samples_per_s"] for one in (runs or {}).values() if "error" not in one]
    if not rates:
        return "failed" if runs else "-"
    return f"{statistics.median(rates):.0f} ({min(rates):.0f}-{max(rates):.0f})"


def list_of(results):
    return [
        {"model": case[0], "dtype": case[1], "size": case[2], "batch": case[3], "program": name, "round": number, **one}
        for (case, name), runs in results.items()
        for number, one in sorted(runs.items())
    ]


def target(part, case, peers, results):
    """The first case beside the best that torch.compile gives."""
    name = f"{case[0]} {case[1]} beside torch.compile's best"
    ours = results.get((case, DLPIPE))
    ratios = {peer: median_ratio(ours, results.get((case, peer))) for peer in peers if peer != EAGER}
    ratios = {peer: times for peer, times in ratios.items() if times}
    if not ratios:
        return part.not_checked(name, "one of the two gave no figure")
    least = min(ratios.values())
    return part.target(name, f"{least:.2f} x, of {' and '.join(ratios)}", f"{TARGET_TIMES} x", least >= TARGET_TIMES)
