"""`python -m dlpipe convert-augment`."""

import argparse
import errno
import json
import os
import stat
import sys

from dlpipe.errors import CorruptError, Error, IoError, MisuseError, NotFoundError, UnsupportedError
from dlpipe.recipes import converted_text

_MOST_BYTES = 16 << 20


def _text(path):
    try:
        if path == "-":
            data = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise IoError(f"{path} is not a regular file")
            with open(path, "rb") as file:
                data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise NotFoundError(f"{path} does not exist") from None
    except OSError as error:
        raise error if isinstance(error, Error) else IoError(f"{path} can't be read: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise CorruptError(f"{path} has more than {_MOST_BYTES} bytes, too many for a recipe")
    return data.decode("utf-8-sig", "replace")


def _printable(text):
    return "".join(one if one.isprintable() else "?" for one in str(text))


def answer(text):
    """Prints a line of output. As in the program, a closed reader of stdout is not an error."""
    try:
        if sys.stdout is None:  # it was closed
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        print(text, flush=True)
    except OSError as error:
        if sys.stdout is not None:  # else the interpreter would try to flush the rest at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise IoError(f"cannot write to stdout: {error.strerror}") from None


def _convert(path, recipe, as_json):
    all_ = converted_text(_text(path), recipe)
    only = all_[0] if len(all_) == 1 else None
    if as_json:
        recipes = [{"recipe": one.name, "line": one.line, "augment": one.augment, "no_equal": one.no_equal, "notes": one.notes_of_text()}
                   for one in all_]  # fmt: skip
        answer(json.dumps({"augment": only and only.augment, "no_equal": only.no_equal if only else [],
                           "notes": only.notes_of_text() if only else [], "recipes": recipes}))  # fmt: skip
    for one in all_:
        of = "" if only else f"{one.name}: "
        if not as_json:
            answer(_printable(of + one.augment))
            for line in one.notes_of_text():
                print(_printable(f"[convert-augment] {of}{line}"), file=sys.stderr)
        for line in one.no_equal:
            print(_printable(f"[convert-augment] {of}left out, because it can't be converted: {line}"), file=sys.stderr)
    if only is None:
        raise CorruptError(f"{path}: there are {len(all_)} recipes, {', '.join(one.name for one in all_)}; choose one with --recipe NAME")
    if only.no_equal:
        what, them = ("transform", "it") if len(only.no_equal) == 1 else ("transforms", "them")
        raise UnsupportedError(f"{len(only.no_equal)} {what} can't be converted; the expression is without {them}")


def main(arguments):
    """Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m dlpipe convert-augment", allow_abbrev=False,
        description="Converts transforms of torchvision, Albumentations or timm to an expression for --augment.")  # fmt: skip
    parser.add_argument("FILE", help="a Python program with transforms of torchvision, Albumentations or timm, the output of print(transform), "
                        "or a file that albumentations.save wrote (JSON or YAML); '-': standard input")  # fmt: skip
    parser.add_argument("--recipe", default="", metavar="NAME", help="the recipe to convert if a program has several: the name of a variable, "
                        "a dictionary key or a function, as listed without this option")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    # Every command accepts these two.
    parser.add_argument("--quiet", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--color", choices=("auto", "always", "never"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    try:
        _convert(options.FILE, options.recipe, options.json)
    except Error as error:
        where = "" if str(error).startswith(options.FILE) or isinstance(error, (NotFoundError, IoError, UnsupportedError)) else f"{options.FILE}: "
        print(_printable(f"dlpipe: [convert-augment] {where}{error}"), file=sys.stderr)
        return 2 if isinstance(error, MisuseError) else 1
    return 0
