"""Writes reference.safetensors with the safetensors package: python make_safetensors.py (numpy, safetensors)."""
import pathlib

import numpy
from safetensors.numpy import save_file

save_file(
    {
        "fc.weight": numpy.arange(6, dtype=numpy.float32).reshape(2, 3),
        "bn.num_batches_tracked": numpy.array(42, dtype=numpy.int64),
        "half": numpy.array([1.0, -0.5, 65504.0, 6e-8], dtype=numpy.float16),
    },
    pathlib.Path(__file__).parent / "reference.safetensors",
    metadata={"format": "np"},
)
