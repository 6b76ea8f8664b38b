# /// script
# dependencies = ["torch==2.15.0", "torchvision==0.29.2", "onnx==1.23.2", "pillow==13.0.0", "numpy==2.4.6", "opencv-python-headless==5.0.0.93"]
# [tool.dlpipe]
# venv = "torch-onnx"
# apt = ["g++"]
# ///
"""PyTorch's torch.compile with freezing: weights are constants, folded and packed; channels_last; bf16 by autocast.

It takes the network that export.py wrote into the ONNX file, by the file's name, with the same drawn weights."""

import pathlib
import sys

import torch
import torch._inductor.config
import torchvision

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import export  # noqa: E402
import inference  # noqa: E402


def make_step(args):
    torch.set_num_threads(args.threads)
    torch._inductor.config.freezing = True
    compiled = torch.compile(export.network(args.model.stem).to(memory_format=torch.channels_last))

    def step(x):
        images = torch.from_numpy(x).to(memory_format=torch.channels_last)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=args.dtype == "bf16"):
            return compiled(images).float().numpy()

    return step


if __name__ == "__main__":
    inference.main(make_step, {"torch": torch.__version__, "torchvision": torchvision.__version__})
