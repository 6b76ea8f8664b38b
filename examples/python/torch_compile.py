"""Trains a PyTorch model on dlpipe's CPU kernels: python torch_compile.py DATA

The loop, the optimizer and the checkpoints stay PyTorch's. Each compiled graph is measured against eager mode, and the faster
one is used.
"""

import logging
import sys

import torch

import dlpipe

logging.basicConfig(format="%(message)s")
logging.getLogger("dlpipe").setLevel(logging.INFO)  # says which graphs run where
torch.manual_seed(0)

train = dlpipe.Loader(sys.argv[1], augment="rrc(28) hflip", batch=32, dtype="f32", layout="NCHW", seed=1)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 32, 3, padding=1, bias=False), torch.nn.BatchNorm2d(32), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
    torch.nn.Conv2d(32, 64, 3, padding=1, bias=False), torch.nn.BatchNorm2d(64), torch.nn.ReLU(),
    torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(64, len(train.classes)),
)  # fmt: skip
compiled = torch.compile(model, backend="dlpipe")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

for epoch in range(2):
    for images, labels in train:
        loss = torch.nn.functional.cross_entropy(compiled(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}")
