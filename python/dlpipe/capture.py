"""`dlpipe.capture` and `python -m dlpipe capture` write a PyTorch model for `dlpipe train`. `torch_capture.py` does the work."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dlpipe.arguments import Path, kinds_checked, paths_as_bytes
from dlpipe.errors import Error, MisuseError, NotFoundError

if TYPE_CHECKING:
    import torch


@kinds_checked("capture")
def capture(model: torch.nn.Module, example: torch.Tensor | Sequence[int], out: Path, *, name: str = "", check: bool = True) -> None:
    """Writes a PyTorch model in training form, as a file that `dlpipe train --model` trains from its own weights.

        dlpipe.capture(torchvision.models.convnext_tiny(), (3, 224, 224), "m.dlm")
        dlpipe.train("data", model="m.dlm", augment="rrc(224) hflip", epochs=20, out="runs/a")

    Batch norm, dropout and stochastic depth work as in training. The batch may have any size; the images must have the size of the
    example. `dlpipe export-weights runs/a -o w.safetensors` writes weights that `model.load_state_dict` reads.

    Args:
        model: takes images [N,C,H,W] and returns logits [N,classes], or [N,classes,H,W] for pixels. If it returns several outputs,
            the first is captured. Or one of torchvision's detectors FCOS, RetinaNet and SSD, for `dlpipe train --task detect`. The
            mode and the weights are unchanged.
        example: images [N,C,H,W], or the sizes of one: (3, 224, 224).
        out: the file to write; it must not exist.
        name: the model's name in reports. Default: that of its class.
        check: compare the output in eval mode with PyTorch's, for one image.

    Raises:
        dlpipe.UnsupportedError: names the ops that dlpipe has no counterpart of, or what torch.export can't trace.
        dlpipe.MisuseError: the example can't be images, or `out` exists.
    """
    from dlpipe import torch_capture

    torch_capture.write(model, example, paths_as_bytes("capture", "out", out)[0], name, check)


def check_out(path: Path) -> None:
    """Checks that the file can be created, before the work begins."""
    shown, folder = os.fsdecode(path), os.path.dirname(os.fsdecode(path))
    if os.path.exists(path):
        raise MisuseError(f"[capture] {shown} exists already; remove it or choose another")
    if folder and not os.path.isdir(folder):
        raise NotFoundError(f"[capture] cannot create {shown}: there is no folder {folder}; create it first")


def said(error: Exception) -> str:
    """The class of an exception, and the first line of its message."""
    text = str(error).strip().splitlines()[:1]
    return f"{type(error).__name__}: {text[0] if text else ''}"


# ---- python -m dlpipe capture


def _options(arguments: Sequence[str]) -> dict[str, Any]:
    """The values of --arg, by name."""
    options = {}
    for given in arguments:
        key, equals, value = given.partition("=")
        if not equals:
            raise MisuseError(f"[capture] --arg {given}: give NAME=VALUE")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
    return options


def _sizes(image: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(size) for size in image.replace("x", ",").split(","))
    except ValueError:
        sizes = ()
    if len(sizes) != 3 or min(sizes) < 1:
        raise MisuseError(f"[capture] --image {image}: give C,H,W, such as 3,224,224")
    return sizes


def _built(function: str, options: Mapping[str, Any]) -> Any:
    module, _, attribute = function.partition(":")
    if not attribute:
        raise MisuseError(f"[capture] {function!r} does not name a function; give MODULE:FUNCTION, such as torchvision.models:resnet18")
    try:
        from torch import nn
    except ImportError as error:
        raise MisuseError(f"[capture] needs PyTorch: {error}") from error

    sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise MisuseError(f"[capture] {function}: {error}") from error
    except Exception as error:  # of any kind: the module's own code
        raise MisuseError(f"[capture] importing {module} raises {said(error)}") from error
    if not callable(found) or isinstance(found, nn.Module):
        return found
    try:
        return found(**options)
    except TypeError as error:  # arguments that it doesn't have, or lacks
        raise MisuseError(f"[capture] {function}: {error}; give its arguments as --arg NAME=VALUE") from error
    except Exception as error:  # of any kind: the function's own code
        with_ = f" with {', '.join(f'{name}={value!r}' for name, value in options.items())}" if options else ""
        raise MisuseError(f"[capture] {function}{with_} raises {said(error)}") from error


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="dlpipe capture", allow_abbrev=False,
        description="Writes a PyTorch model in training form, for dlpipe train --model FILE.")  # fmt: skip
    parser.add_argument("function", metavar="MODULE:FUNCTION", help="the function that returns the model, such as "
                        "torchvision.models:resnet18, or (model, example) with images [N,C,H,W]")  # fmt: skip
    parser.add_argument("-o", "--out", required=True, metavar="FILE", help="the file to write, such as m.dlm")
    parser.add_argument("--image", default="3,224,224", metavar="C,H,W", help="sizes of an image (default %(default)s)")
    parser.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE", help="an argument of the function, as JSON or text; repeatable")  # fmt: skip
    parser.add_argument("--quiet", action="store_true", help="don't print what was written")
    given = parser.parse_args(arguments)
    try:
        # Before the imports, which take seconds.
        check_out(given.out)
        options = _options(given.arg)
        example: Any = _sizes(given.image)
        model = _built(given.function, options)
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
