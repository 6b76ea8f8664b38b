"""What a path may be."""

import os
from typing import Union

#: As Python's own functions take it. What is no text is taken as bytes.
Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
