"""A PyTorch training loop over a dlpipe loader: python pytorch_loop.py DATA

DATA holds the datasets `train` and `val` (dlpipe ingest IMAGES DATA --split 0.8,0.2).
"""

import sys

import torch

import dlpipe

data = sys.argv[1]
torch.manual_seed(0)

# Batches are tensors over the memory that they were decoded into: float32 [32, 3, 28, 28], channels_last, normalized.
options = {"batch": 32, "dtype": "f32", "layout": "NCHW"}
train = dlpipe.Loader(data, augment="rrc(28) hflip", seed=1, **options)
val = dlpipe.Loader(data, train=False, augment="resize(32) center_crop(28)", **options)

model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 16, 3, stride=2), torch.nn.ReLU(),
    torch.nn.Conv2d(16, 32, 3, stride=2), torch.nn.ReLU(),
    torch.nn.Flatten(), torch.nn.LazyLinear(len(train.classes)),
)  # fmt: skip
model(torch.zeros(1, 3, 28, 28))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

for epoch in range(3):
    model.train()
    for images, labels in train:  # each `for` is the next epoch
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    model.eval()
    correct = total = 0.0
    with torch.no_grad():
        for batch in val:  # in order; an image that stands in for a corrupt one has weight 0
            weight = torch.as_tensor(batch.weight)
            correct += ((model(batch.image).argmax(1) == batch.label) * weight).sum().item()
            total += weight.sum().item()
    print(f"epoch {epoch}: loss {loss.item():.3f}, top1 {correct / total:.1%}")

print(train.doctor())  # whether the loader or this loop is the bottleneck
