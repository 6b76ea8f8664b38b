"""What dlpipe raises. Every error is a dlpipe.Error, and also Python's own exception of its kind where there is one."""


class Error(Exception):
    """Something went wrong: the message says what, where (file, record, option) and what to do.

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
    """The system refused."""

    code = "permission"


class IoError(Error, OSError):
    """Reading or writing failed."""

    code = "io"


class NoSpaceError(Error, OSError):
    """The disk is full."""

    code = "no_space"


class CorruptError(Error, ValueError):
    """Bytes that are not what their format says."""

    code = "corrupt"


class UnsupportedError(Error, NotImplementedError):
    """Valid, but nothing here can handle it."""

    code = "unsupported"


class OutOfMemoryError(Error, MemoryError):
    """The system gives no more memory or threads."""

    code = "out_of_memory"


class ChangedError(Error):
    """An input is not the one that an earlier step saw."""

    code = "changed"


class NonfiniteError(Error, FloatingPointError):
    """NaN or infinity in training."""

    code = "nonfinite"


class CancelledError(Error, KeyboardInterrupt):
    """Stopped by a signal or by its owner."""

    code = "cancelled"


_KINDS: list[type[Error]] = [Error, *Error.__subclasses__()]
BY_CODE = {kind.code: kind for kind in _KINDS}
