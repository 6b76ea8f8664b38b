"""Writes zip.pth, legacy.pth and script.pt with PyTorch, as torch.save and torch.jit.save do: python make_pickles.py."""
import pathlib

import torch

HERE = pathlib.Path(__file__).parent
weights = {"fc.weight": torch.arange(6.0).reshape(2, 3)}
torch.save(weights, HERE / "zip.pth")
torch.save(weights, HERE / "legacy.pth", _use_new_zipfile_serialization=False)
torch.jit.save(torch.jit.script(torch.nn.Flatten()), str(HERE / "script.pt"))
