# /// script
# dependencies = ["torch==2.15.0", "torchvision==0.29.2", "pillow==13.0.0", "numpy==2.4.6"]
# [tool.dlpipe]
# venv = "torch"
# apt = ["g++"]
# ///
"""PyTorch with torch.compile (Inductor: its C++ back end, on a GPU Triton), channels_last; bf16 by autocast."""

import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import training  # noqa: E402


def compiled(model, args):
    return torch.compile(model, mode=args.compile_mode)


if __name__ == "__main__":
    training.main(about="torch.compile, channels_last; bf16 by autocast", prepare=compiled)
