"""Exceptions. Each is a dlpipe.Error and, where Python has a matching exception, also a subclass of that."""


class Error(Exception):
    """The base class. The message says what went wrong, where (file, record, option) and what to do.

    Attributes:
        code: the kind as `dlpipe ... --json` names it, such as "misuse" or "not_found".
    """

    code = "internal"


class MisuseError(Error, ValueError):
    """An option that makes no sense, or a call at the wrong time."""

    code = "misuse"


class NotFoundError(Error, FileNotFoundError):
    """No such file, record or name."""

    code = "not_found"


class PermissionDeniedError(Error, PermissionError):
    """The operating system denied access."""

    code = "permission"


class IoError(Error, OSError):
    """Reading or writing failed."""

    code = "io"


class NoSpaceError(Error, OSError):
    """The disk is full."""

    code = "no_space"


class CorruptError(Error, ValueError):
    """Bytes that violate their format."""

    code = "corrupt"


class UnsupportedError(Error, NotImplementedError):
    """Valid, but not supported by dlpipe."""

    code = "unsupported"


class OutOfMemoryError(Error, MemoryError):
    """The system has no more memory or threads."""

    code = "out_of_memory"


class ChangedError(Error):
    """An input has changed since an earlier step read it."""

    code = "changed"


class NonfiniteError(Error, FloatingPointError):
    """NaN or infinity in training."""

    code = "nonfinite"


class CancelledError(Error, KeyboardInterrupt):
    """Stopped by a signal or by the caller."""

    code = "cancelled"


_KINDS: list[type[Error]] = [Error, *Error.__subclasses__()]
BY_CODE = {kind.code: kind for kind in _KINDS}
