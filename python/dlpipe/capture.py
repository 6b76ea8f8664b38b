"""`dlpipe.capture` and `python -m dlpipe capture`: a PyTorch model, for `dlpipe train`. `torch_capture.py` does the work."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dlpipe.arguments import Path, kinds_checked, paths_as_bytes
from dlpipe.errors import Error, MisuseError

if TYPE_CHECKING:
    import torch


@kinds_checked("capture")
def capture(model: torch.nn.Module, example: torch.Tensor | Sequence[int], out: Path, *, name: str = "", check: bool = True) -> None:
    """Writes a PyTorch model in training form, as a file that `dlpipe train --model` trains from its own weights.

        dlpipe.capture(torchvision.models.convnext_tiny(), (3, 224, 224), "m.dlm")
        dlpipe.train("data", model="m.dlm", augment="rrc(224) hflip", epochs=20, out="runs/a")

    Batch norms stay live, dropout and stochastic depth draw in every step. The batch may have any size; the images have that of
    the example. `dlpipe export-weights runs/a -o w.safetensors` writes weights that `model.load_state_dict` reads.

    Args:
        model: takes images [N,C,H,W] and returns logits [N,classes], or of pixels [N,classes,H,W]; of several outputs the first is
            captured. Or one of torchvision's detectors FCOS, RetinaNet and SSD, for `dlpipe train --task detect`. Its mode and its weights
            stay unchanged.
        example: images [N,C,H,W], or the sizes of one: (3, 224, 224).
        out: the file to write; it must not exist.
        name: of the model, in reports; its class's by default.
        check: compare the answer in eval mode with PyTorch's, on one image.

    Raises:
        dlpipe.UnsupportedError: names the ops that dlpipe has no equal for, or what torch.export can't trace.
        dlpipe.MisuseError: the example fits no image, or `out` exists.
    """
    from dlpipe import torch_capture

    torch_capture.write(model, example, paths_as_bytes("capture", "out", out)[0], name, check)


# ---- python -m dlpipe capture


def _built(function: str, arguments: Sequence[str]) -> Any:
    from torch import nn

    module, _, attribute = function.partition(":")
    if not attribute:
        raise MisuseError(f"[capture] {function!r} names no function; give MODULE:FUNCTION, such as torchvision.models:resnet18")
    options = {}
    for given in arguments:
        key, equals, value = given.partition("=")
        if not equals:
            raise MisuseError(f"[capture] --arg {given}: give NAME=VALUE")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
    sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise MisuseError(f"[capture] {function}: {error}") from error
    if not callable(found) or isinstance(found, nn.Module):
        return found
    try:
        return found(**options)
    except TypeError as error:  # arguments that it doesn't have, or lacks
        raise MisuseError(f"[capture] {function}: {error}; give its arguments as --arg NAME=VALUE") from error


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(
        prog="dlpipe capture", allow_abbrev=False,
        description="Writes a PyTorch model in training form, for dlpipe train --model FILE.")  # fmt: skip
    parser.add_argument("function", metavar="MODULE:FUNCTION", help="what returns the model, such as torchvision.models:resnet18; "
                        "or (model, example), with images [N,C,H,W]")  # fmt: skip
    parser.add_argument("-o", "--out", required=True, metavar="FILE", help="the file to write, such as m.dlm")
    parser.add_argument("--image", default="3,224,224", metavar="C,H,W", help="sizes of an image (default %(default)s)")
    parser.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE", help="an argument of the function, as JSON or text; repeatable")  # fmt: skip
    parser.add_argument("--quiet", action="store_true", help="no line about what was written")
    given = parser.parse_args(arguments)
    try:
        model = _built(given.function, given.arg)
        try:
            example: Any = tuple(int(size) for size in given.image.replace("x", ",").split(","))
        except ValueError:
            raise MisuseError(f"[capture] --image {given.image}: give C,H,W, such as 3,224,224") from None
        if isinstance(model, tuple):
            model, example = model
        capture(model, example, given.out)
        if not given.quiet:
            count = sum(parameter.numel() for parameter in model.parameters())
            print(f"{given.out}: {type(model).__name__}, {count:,} parameters; train it with: dlpipe train --model {given.out} --data DATA")
    except Error as error:
        print(f"dlpipe: {error}", file=sys.stderr)
        return 2 if isinstance(error, MisuseError) else 1
    return 0
