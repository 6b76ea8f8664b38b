"""Compiled functions as augmentations in expressions."""

from __future__ import annotations

import ctypes
import hashlib
import inspect
from collections.abc import Mapping
from typing import Any

from dlpipe import _dlpipe
from dlpipe.errors import MisuseError

_kept: list[Any] = []  # the functions: the library may call them until the process ends

#: The C type of such a function, for ctypes; numba.cfunc takes `dlpipe.AUGMENTATION_SIGNATURE`.
CFunction = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint64, ctypes.c_void_p)
_AnyCFunction: Any = CFunction.__mro__[1]  # of any signature
AUGMENTATION_SIGNATURE = "void(CPointer(uint8), int64, int64, int64, uint64, CPointer(float64))"


#: Types that each argument may be declared with.
_WHOLE = {"int64", "uint64"}
_POINTERS: dict[Any, str] = {ctypes.c_uint8: "uint8*", ctypes.c_char: "uint8*", ctypes.c_double: "float64*"}
_ARGUMENTS = [{"uint8*", "void*"}, _WHOLE, _WHOLE, _WHOLE, _WHOLE, {"float64*", "void*"}]


def _type_name(kind):
    """Numba's name of a ctypes type, for the types that an augmentation has."""
    if kind in (ctypes.c_int64, ctypes.c_longlong):
        return "int64"
    if kind in (ctypes.c_uint64, ctypes.c_ulonglong):
        return "uint64"
    if hasattr(kind, "_dtype_"):  # numpy.ctypeslib.ndpointer's
        return "void*" if kind._dtype_ is None else f"{kind._dtype_.name}*"
    if kind is ctypes.c_void_p:
        return "void*"
    pointee: Any = getattr(kind, "_type_", None)
    if pointee in _POINTERS:
        return _POINTERS[pointee]
    return getattr(kind, "__name__", repr(kind))


def _check_signature(name, function):
    """Refuses a function that is declared with another signature: it would read and write out of the image's bounds."""
    if (signature := getattr(function, "_sig", None)) is not None:  # numba's
        arguments, is_void = [*map(str, signature.args)], str(signature.return_type) == "none"
    elif (argtypes := getattr(function, "argtypes", None)) is not None:
        # An undeclared restype is int. A type that doesn't fit a register would be written to memory that the caller provides.
        arguments, is_void = [*map(_type_name, argtypes)], function.restype in (None, ctypes.c_int)
    else:
        return
    fits = len(arguments) == len(_ARGUMENTS) and all(one in known for one, known in zip(arguments, _ARGUMENTS))
    if not (fits and is_void):
        answer = "void" if is_void else "a value"
        raise MisuseError(f"[augment] {name} is declared to take ({', '.join(arguments)}) and return {answer}; an augmentation is called "
                          f"as {AUGMENTATION_SIGNATURE}: give numba.cfunc dlpipe.AUGMENTATION_SIGNATURE, and ctypes the argtypes of "
                          "dlpipe.CFunction")  # fmt: skip


def _address_of(name, function):
    if isinstance(function, int):
        return function
    _check_signature(name, function)
    if hasattr(function, "address"):  # numba.cfunc
        return function.address
    if isinstance(function, (_AnyCFunction, ctypes.c_void_p)):
        return ctypes.cast(function, ctypes.c_void_p).value
    raise MisuseError(f"[augment] {name} is a {type(function).__name__}, but augmentations run on threads without the interpreter: give a "
                      "compiled function, that is a numba.cfunc(dlpipe.AUGMENTATION_SIGNATURE) or a ctypes function; for a Python "
                      "function over each batch use dlpipe.Loader(transform=...)")  # fmt: skip


def _code_of(function):
    code = getattr(function, "_pyfunc", None)
    if code is None:
        raise MisuseError("[augment] the function's source can't be read; give a version, which identifies it in the "
                          "pipeline's id")
    return inspect.getsource(code)


def add_augmentation(
    name: str,
    function: Any,
    *,
    parameters: Mapping[str, float] | None = None,
    version: str | int | None = None,
    help: str = "",
) -> None:
    """Registers a compiled function as an augmentation. Expressions use it like any other: "rrc(224) NAME(x=2) hflip", in Loader,
    train, evaluate and Predictor. Register it again in each process, before you evaluate a model or resume a run whose
    expression has it. The program `dlpipe` can't use it.

    It runs inside the pipeline, on all of its threads and without the interpreter lock:

        @numba.cfunc(dlpipe.AUGMENTATION_SIGNATURE)
        def negative(pixels, height, width, channels, key, parameters):
            for i in range(height * width * channels):
                pixels[i] = 255 - pixels[i]

        dlpipe.add_augmentation("negative", negative)

    Args:
        name: lower-case letters, digits and _.
        function: a numba.cfunc, a ctypes function, or an address. A declared signature other than AUGMENTATION_SIGNATURE is
            refused; an address, and a ctypes function without `argtypes`, declare none and are not checked. The function
            changes the image in place: uint8, `height` rows of `width` times `channels` values. `key` is the sample's own random
            number: draw from it, so that the same seed gives the same batches. `parameters` points at the values, in
            the order of the dict.
        parameters: names and defaults, such as {"x": 1.0}. Numbers.
        version: string or number that identifies the code in the pipeline's id, so that states and checkpoints made with other
            code are refused. Default: a hash of a numba.cfunc's source.
        help: one line that describes it.
    """
    address = _address_of(name, function)
    identity = f"{name} {_code_of(function) if version is None else version}"
    code = "c" + hashlib.sha256(identity.encode()).hexdigest()[:16]
    _kept.append(function)
    values = [(str(key), float(value)) for key, value in (parameters or {}).items()]
    _dlpipe.add_augmentation(name, address, code, values, help)
