"""dlpipe feeds PyTorch, JAX and NumPy with batches of images.

    import dlpipe
    loader = dlpipe.Loader("data/train", augment="rrc(224) hflip", batch=256, seed=1)
    for images, labels in loader: ...

`dlpipe ingest IMAGES data` (or `python -m dlpipe ingest ...`) creates the dataset. The same seed gives the same batches,
bit for bit, on any number of threads. Messages go to the logger "dlpipe". Errors are dlpipe.Error and its subclasses.
"""

import os
import signal
import sys

# In the program `dlpipe`, Ctrl-C during the imports below ends the process without a traceback. __main__ sets Python's own handler if
# it continues in Python.
_words = sys.orig_argv[1:3]
_is_program = _words == ["-m", "dlpipe"] or (_words != [] and os.path.basename(_words[0]) == "dlpipe")
if _is_program and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
del _words, _is_program

from dlpipe import _dlpipe
from dlpipe.augmentation import AUGMENTATION_SIGNATURE, CFunction, add_augmentation
from dlpipe.batch import Batch, Ragged
from dlpipe.dataset import Dataset, Sample
from dlpipe.errors import (
    CancelledError,
    ChangedError,
    CorruptError,
    Error,
    IoError,
    MisuseError,
    NonfiniteError,
    NoSpaceError,
    NotFoundError,
    OutOfMemoryError,
    PermissionDeniedError,
    UnsupportedError,
)
from dlpipe.from_dataset import from_dataset
from dlpipe.ingest import ingest
from dlpipe.loader import Loader
from dlpipe.arguments import Progress, TqdmProgress
from dlpipe.capture import capture
from dlpipe.recipes import convert_augment
from dlpipe.writer import StoringOptions
from dlpipe.training import Detections, Predictor, Segmentation, evaluate, predict, train
from dlpipe.writer import Writer

__version__ = _dlpipe.version

__all__ = [
    "AUGMENTATION_SIGNATURE",
    "Batch",
    "CFunction",
    "CancelledError",
    "ChangedError",
    "CorruptError",
    "Dataset",
    "Detections",
    "Error",
    "IoError",
    "Loader",
    "MisuseError",
    "NoSpaceError",
    "NonfiniteError",
    "NotFoundError",
    "OutOfMemoryError",
    "PermissionDeniedError",
    "Predictor",
    "Progress",
    "Ragged",
    "Sample",
    "Segmentation",
    "StoringOptions",
    "TqdmProgress",
    "UnsupportedError",
    "Writer",
    "add_augmentation",
    "capture",
    "convert_augment",
    "evaluate",
    "from_dataset",
    "ingest",
    "predict",
    "train",
]

# torch.compile finds an installed dlpipe by its entry point. If dlpipe is only on sys.path and PyTorch's compiler is already
# loaded (loading it takes seconds), the backend is registered here.
if "torch._dynamo" in sys.modules:
    from dlpipe import torch_compile

    torch_compile.register()
