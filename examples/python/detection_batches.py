"""Images with boxes, in the form that torchvision's detectors take: python detection_batches.py DATA

DATA is a dataset with boxes, such as `dlpipe ingest COCO DATA` or `dlpipe ingest YOLO DATA` writes it.
"""

import sys

import torch

import dlpipe

# Boxes follow the crop and the flip; those that it leaves out are gone. [x1, y1, x2, y2] in pixels of the cropped image.
loader = dlpipe.Loader(sys.argv[1], augment="rrc(128) hflip", batch=8, dtype="f32", layout="NCHW", seed=1,
                       fields=["image", "boxes", "box_labels"], as_="torch")  # fmt: skip

for batch in loader:
    # Fields with a number of rows that differs by sample are dlpipe.Ragged: all rows, and where each sample's begin.
    targets = [
        {"boxes": torch.as_tensor(boxes), "labels": torch.as_tensor(labels).long()}
        for boxes, labels in zip(batch.boxes, batch.box_labels)
    ]
    images = list(batch.image)
    assert len(images) == len(targets) == 8
    # losses = detector(images, targets)

count = sum(len(target["boxes"]) for target in targets)
print(f"the last batch: {len(images)} images of {tuple(images[0].shape)}, {count} boxes")
