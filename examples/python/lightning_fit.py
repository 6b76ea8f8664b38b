"""A dlpipe loader under Lightning's Trainer: python lightning_fit.py DATA

With several ranks (strategy="ddp") each loader finds its rank when its first batch is asked for.
"""

import sys

import lightning
import torch

import dlpipe


class Classifier(lightning.LightningModule):
    def __init__(self, classes):
        super().__init__()
        self.model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3, stride=2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16 * 13 * 13, classes)
        )

    def training_step(self, batch, _):
        images, labels = batch
        return torch.nn.functional.cross_entropy(self.model(images), labels)

    def validation_step(self, batch, _):
        images, labels, weights = batch
        correct = (self.model(images).argmax(1) == labels) * weights
        self.log("top1", correct.sum() / weights.sum(), batch_size=int(weights.sum()), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def with_weights(batch):
    return batch.image, batch.label, torch.as_tensor(batch.weight)


data = sys.argv[1]
options = {"batch": 32, "dtype": "f32", "layout": "NCHW"}
train = dlpipe.Loader(data, augment="rrc(28) hflip", seed=1, **options)
val = dlpipe.Loader(data, train=False, augment="resize(32) center_crop(28)", transform=with_weights, **options)

trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False,
                            enable_progress_bar=False)  # fmt: skip
trainer.fit(Classifier(len(train.classes)), train, val)
print(f"top1 {trainer.callback_metrics['top1']:.1%}")
