"""Writes reference.npy and fortran.npy with NumPy: python make_npy.py."""
import pathlib

import numpy

HERE = pathlib.Path(__file__).parent
numbers = numpy.arange(6).reshape(2, 3)
numpy.save(HERE / "reference.npy", numbers.astype("float32") / 2)
numpy.save(HERE / "fortran.npy", numpy.asfortranarray(numbers.astype("int64")))
