"""dlpipe's recipes as cifar10.py trains them: the same file gives both programs their numbers. Standard library only.

Only what recipes/cifar10_fast.toml and recipes/cifar10_resnet18.toml use is understood; anything else is refused, so
that no setting is left out unseen.
"""

import fnmatch
import pathlib
import re
import tomllib
import types

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "recipes"
FILES = {"airbench": FOLDER / "cifar10_fast.toml", "resnet18": FOLDER / "cifar10_resnet18.toml"}

# What dlpipe takes where a recipe is silent (run/config/config.h).
DEFAULTS = {
    "model": "", "augment": "", "batch": 128, "epochs": 10, "freeze": [], "optimizer": "sgd", "lr": 0.1,
    "momentum": 0.9, "nesterov": False, "weight-decay": 0.0, "decay-vectors": True, "lr-scale": [], "wd-scale": [],
    "muon": [], "muon-momentum": 0.95, "muon-iterations": 5, "muon-normalize": False, "schedule": "cosine",
    "warmup": 0.0, "label-smoothing": 0.0, "tta": "none", "seed": 0, "val-every": "1epoch",
    "checkpoint-every": "5min",
}  # fmt: skip
# The only values that cifar10.py has code for.
ONLY = {
    "model": ["airbench", "resnet18_cifar"],
    "optimizer": ["sgd", "muon"],
    "schedule": ["linear"],
    "tta": ["none", "flip_translate"],
}
AUGMENT = re.compile(r"pad_crop\(32,(\d+),reflect\) (hflip|alternating_flip)")


def read(path):
    """The settings of a recipe, hyphens as underscores; `padding` and `flip` are what its augmentation says."""
    settings = parse(path.read_text(), path.name)
    return types.SimpleNamespace(**{key.replace("-", "_"): value for key, value in settings.items()})


def parse(text, name):
    given = tomllib.loads(text)
    for key in given:
        if key not in DEFAULTS:
            raise SystemExit(f"[recipe] {name}: no code for '{key}'; teach it to benchmarks/peers/train/cifar10.py")
    settings = DEFAULTS | given
    for key, values in ONLY.items():
        if settings[key] not in values:
            raise SystemExit(f"[recipe] {name}: {key} is '{settings[key]}'; there is code for {', '.join(values)}")
    augment = AUGMENT.fullmatch(settings["augment"])
    if not augment:
        raise SystemExit(f"[recipe] {name}: no code for augment '{settings['augment']}'; it must fit {AUGMENT.pattern}")
    if settings["optimizer"] == "muon" and not (settings["muon-normalize"] and settings["nesterov"]):
        raise SystemExit(f"[recipe] {name}: muon has code for muon-normalize and nesterov alone")
    return settings | {"padding": int(augment[1]), "flip": augment[2]}


def factor(name, scales):
    """What "GLOB=FACTOR" texts make of the parameter `name`: the last that matches counts."""
    found = 1.0
    for text in scales:
        pattern, _, value = text.rpartition("=")
        if fnmatch.fnmatchcase(name, pattern):
            found = float(value)
    return found


def matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def rate(step, total, warmup):
    """The share of the peak rate at `step` of `total`: from 0 up over `warmup` steps, then down to 0 (schedule.h)."""
    if step < warmup:
        return step / warmup
    return 1 - (step - warmup) / (total - warmup)
