# /// script
# dependencies = ["torch==2.15.0", "torchvision==0.29.2", "onnx==1.23.2", "pillow==13.0.0", "numpy==2.4.6"]
# [tool.dlpipe]
# venv = "torch-onnx"
# ///
"""Writes torchvision models with drawn weights as ONNX files: export.py FOLDER MODEL ..."""

import pathlib
import sys

import torch
import torchvision


def network(name):
    """The same weights in every process."""
    torch.manual_seed(0)
    return getattr(torchvision.models, name)(weights=None).eval()


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:]:
        path = folder / f"{name}.onnx"
        if path.exists():
            continue
        x = torch.randn(2, 3, 224, 224)
        torch.onnx.export(network(name), x, path, dynamo=False, opset_version=17, input_names=["x"], output_names=["y"],
                          dynamic_axes={"x": {0: "N"}, "y": {0: "N"}})  # fmt: skip
