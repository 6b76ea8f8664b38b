# /// script
# dependencies = ["torch==2.15.0", "torchvision==0.29.2", "pillow==13.0.0", "numpy==2.4.6"]
# [tool.dlpipe]
# venv = "torch"
# ///
"""torchvision.io's decoder and the tensor path of transforms v2, in a DataLoader with one worker process per thread."""

import pathlib
import sys

import torch
import torchvision
from torchvision.io import ImageReadMode, decode_jpeg, read_file
from torchvision_pillow import batches_of, transform_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import loading  # noqa: E402


class Tensors(torch.utils.data.Dataset):
    def __init__(self, files, task, size):
        self.files = files
        self.transform = transform_of(task, size)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        image = decode_jpeg(read_file(self.files[index]), ImageReadMode.RGB, apply_exif_orientation=True)
        return self.transform(image).permute(1, 2, 0).contiguous()


def make_batches(args):
    torch.set_num_threads(1)
    return batches_of(Tensors(args.files, args.task, args.size), args)


if __name__ == "__main__":
    loading.main(
        make_batches,
        antialiased=True,
        about="full decode, uint8 tensor bilinear; worker processes",
        versions={"torch": torch.__version__, "torchvision": torchvision.__version__},
    )
