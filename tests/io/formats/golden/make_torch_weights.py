"""Writes the torch_*.pth files, which torch_file_test.cpp reads, as torch.save does: python make_torch_weights.py.

The element i of each tensor, counted row by row, is i + the tensor's number."""
import collections
import pathlib

import torch

HERE = pathlib.Path(__file__).parent


def numbers(number, *sizes, dtype=torch.float32):
    count = torch.Size(sizes).numel()
    return (torch.arange(count) + number).to(dtype).reshape(sizes)


base = numbers(5, 4, 3)
weights = collections.OrderedDict(
    [
        ("f32", numbers(0, 2, 3)),
        ("f16", numbers(1, 4, dtype=torch.float16)),
        ("bf16", numbers(2, 3, dtype=torch.bfloat16)),
        ("f64", numbers(3, 2, dtype=torch.float64)),
        ("i64", torch.tensor(4)),
        ("base", base),
        ("rows", base[1:3]),  # of the same storage: 8, 9, ...
        ("turned", numbers(7, 3, 2).t().contiguous().t()),  # column by column in its storage
        ("every_other", torch.arange(8, 24, 2).float().repeat_interleave(2)[::2] / 2 + 4),
        ("none", torch.empty(0, 3)),
        ("u8", numbers(9, 5, dtype=torch.uint8)),
        ("flags", torch.tensor([True, False])),
    ]
)
weights._metadata = collections.OrderedDict(version=1)
torch.save(weights, HERE / "torch_zip.pth")
torch.save(weights, HERE / "torch_protocol4.pth", pickle_protocol=4)
torch.save(weights, HERE / "torch_legacy.pth", _use_new_zipfile_serialization=False)
layer = torch.nn.Linear(2, 1)
average = torch.optim.swa_utils.AveragedModel(layer)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
layer(torch.ones(1, 2)).sum().backward()
optimizer.step()
with torch.no_grad():
    for module, first in ((layer, 0), (average.module, 10)):
        module.weight.copy_(numbers(first, 1, 2))
        module.bias.copy_(numbers(first + 2, 1))
checkpoint = {"epoch": 3, "best": 0.5, "model": layer.state_dict(), "optimizer": optimizer.state_dict()}
torch.save(checkpoint, HERE / "torch_nested.pth")
torch.save({**checkpoint, "model_ema": average.state_dict()}, HERE / "torch_averaged.pth")
torch.save({"state_dict": dict(layer.named_parameters())}, HERE / "torch_parameters.pth")
beside = {"state_dict": layer.state_dict(), "best": torch.tensor(71.2), "rng_state": torch.arange(4)}
torch.save(beside, HERE / "torch_beside.pth")
torch.save({"weight": torch.complex(torch.zeros(2), torch.ones(2)).conj().imag}, HERE / "torch_negated.pth")
