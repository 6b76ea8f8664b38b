#!/usr/bin/env python3
"""Prints what scikit-learn, PyTorch and torchvision make of the numbers of tests/run/task/task_test.cpp and detect_test.cpp, which
hold dlpipe to them, and of seen_map_test.cpp.

    pip install torch torchvision scikit-learn && python make_golden.py      # 1.9.1 and 2.15 were used; runs only to change the table
"""
import numpy as np
import torch
from sklearn import metrics
from torch.nn import functional

N, K = 40, 5


def numbers(seed):
    """[N, K] between -3 and 3 in steps of a quarter, so that some are equal."""
    state, values = seed, []
    for _ in range(N * K):
        state = (state * 1664525 + 1013904223) % 2**32
        values.append((state >> 16) % 25 / 4 - 3)
    return np.array(values, np.float32).reshape(N, K)


logits = numbers(1)
truths = (numbers(2) > 0.5).astype(np.float32)
truths[:, 3] = 0  # a label that does not occur
truths[:, 4] = 1  # and one that all samples have
targets = numbers(3)
weight = np.array([0 if i % 7 == 3 else 1 for i in range(N)], np.float32)


def per_label(figure):
    return [figure(truths[:, k], logits[:, k]) for k in range(K)]


def show(name, value):
    print(f"{name}: {value:.9f}")


kept = weight > 0
logits, truths, targets = logits[kept], truths[kept], targets[kept]
show("map", np.mean([metrics.average_precision_score(truths[:, k], logits[:, k]) for k in range(K) if truths[:, k].any()]))
show("auroc", np.mean([metrics.roc_auc_score(truths[:, k], logits[:, k]) for k in range(K) if 0 < truths[:, k].mean() < 1]))
show("macro_f1", metrics.f1_score(truths, logits >= 0, average="macro", zero_division=0))
show("micro_f1", metrics.f1_score(truths, logits >= 0, average="micro"))
outputs = logits * 1.5 + 0.25
show("mae", metrics.mean_absolute_error(targets * 2 + 1, outputs * 2 + 1))
show("rmse", metrics.root_mean_squared_error(targets * 2 + 1, outputs * 2 + 1))
show("r2", metrics.r2_score(targets * 2 + 1, outputs * 2 + 1))

x, y, z = (torch.tensor(a) for a in (logits, truths, targets))


def loss(name, function):
    own = x.clone().requires_grad_()
    value = function(own)
    value.backward()
    print(f"{name}: {value.item():.9f} gradient {own.grad.abs().sum().item():.9f} {own.grad[1, 2].item():.9f}")


def focal(x, gamma, alpha):
    """torchvision.ops.sigmoid_focal_loss, whose formula this is, is compared below."""
    import torchvision

    return torchvision.ops.sigmoid_focal_loss(x, y, alpha, gamma, "mean")


def asymmetric(x, gamma_neg=4.0, gamma_pos=1.0, margin=0.05):
    """Equations 4 to 7 of the paper, with the gradient of the focusing weights."""
    p = torch.sigmoid(x)
    no = torch.clamp(1 - p + margin, max=1)
    positive = y * (1 - p) ** gamma_pos * torch.log(torch.clamp(p, min=1e-8))
    negative = (1 - y) * (1 - no) ** gamma_neg * torch.log(torch.clamp(no, min=1e-8))
    return -(positive + negative).mean()


loss("bce", lambda x: functional.binary_cross_entropy_with_logits(x, y))
loss("bce pos_weight=3", lambda x: functional.binary_cross_entropy_with_logits(x, y, pos_weight=torch.tensor(3.0)))
loss("focal", lambda x: focal(x, 2.0, 0.25))
loss("focal gamma=1.5 alpha=-1", lambda x: focal(x, 1.5, -1))
loss("asymmetric", asymmetric)
loss("mse", lambda x: functional.mse_loss(x, z))
loss("l1", lambda x: functional.l1_loss(x, z))
loss("smooth_l1 beta=0.5", lambda x: functional.smooth_l1_loss(x, z, beta=0.5))
loss("huber delta=0.5", lambda x: functional.huber_loss(x, z, delta=0.5))

# Boxes: 5 classes and 4 logarithms of sides for each of 40 cells.
from torchvision import ops  # noqa: E402


def draws(seed, count):
    state = seed
    for _ in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        yield state >> 16


outputs = torch.tensor([d % 25 / 4 - 3 for d in draws(1, N * (K + 4))]).reshape(N, K + 4)
sides = torch.tensor([d % 16 / 4 + 0.25 for d in draws(2, N * 4)]).reshape(N, 4)
there = torch.tensor([i % 3 == 0 for i in range(N)])
classes = torch.nn.functional.one_hot(torch.arange(N) % K, K) * there[:, None]
weights = torch.tensor([0.0 if i % 7 == 3 else 1.0 for i in range(N)])


def detector_loss(box_loss):
    own = outputs.clone().requires_grad_()

    def boxes(x):
        return torch.cat([100 - x[:, :2], 100 + x[:, 2:]], 1)

    of_classes = (ops.sigmoid_focal_loss(own[:, :K], classes.float(), 0.25, 2.0) * weights[:, None]).sum()
    of_boxes = box_loss(boxes(own[:, K:].exp()), boxes(sides), eps=0)[there & (weights > 0)].sum()
    value = (of_classes + of_boxes) / (there * weights).sum()
    value.backward()
    gradient = own.grad
    print(f"{box_loss.__name__}: {value.item():.9f} {gradient.abs().sum().item():.9f} {gradient[0, 6].item():.9f} {gradient[1, 2].item():.9f}")


detector_loss(ops.generalized_box_iou_loss)
detector_loss(ops.distance_box_iou_loss)

# Overlapping boxes, some of equal scores, of 3 classes.
rows = np.array(list(draws(3, 60 * 6))).reshape(60, 6)
corners = torch.tensor(rows[:, :2] % 40, dtype=torch.float32)
boxes = torch.cat([corners, corners + torch.tensor(rows[:, 2:4] % 20 + 5, dtype=torch.float32)], 1)
scores = torch.tensor(rows[:, 4] % 50 / 64, dtype=torch.float32)
labels = torch.tensor(rows[:, 5] % 3)
kept = torch.cat([(labels == c).nonzero()[:, 0][ops.nms(boxes[labels == c], scores[labels == c], 0.4)] for c in range(3)]).sort()[0]
print("kept:", kept[scores[kept].sort(descending=True, stable=True)[1]].tolist())

# Masks in their own size, of seen_map_test.cpp: logits of 3 classes for 6 x 5 pixels, and a mask of 13 x 9 pixels.
seen = torch.tensor([d % 1009 / 1009 for d in draws(5, 6 * 5 * 3)], dtype=torch.float32).reshape(1, 6, 5, 3).permute(0, 3, 1, 2)
mask = np.array([[0, 1, 2, 255][d % 4] for d in draws(6, 13 * 9)]).reshape(13, 9)


def judge_masks(name, logits, counts):
    found = logits[0].argmax(0).numpy()
    counts = counts & (mask != 255)
    right = [((found == k) & (mask == k) & counts).sum() for k in range(3)]
    both = [((found == k) & counts).sum() + ((mask == k) & counts).sum() for k in range(3)]
    show(f"{name} miou", np.mean([r / (b - r) for r, b in zip(right, both)]))
    show(f"{name} pixel_accuracy", sum(right) / counts.sum())
    show(f"{name} dice", np.mean([2 * r / b for r, b in zip(right, both)]))


judge_masks("resized", functional.interpolate(seen, size=(13, 9), mode="bilinear", align_corners=False), np.ones((13, 9), bool))
# Resized to 12 x 9 and cropped to the middle 6 x 5, from line 3 and column 2; then mirrored.
y, x = np.meshgrid((np.arange(13) + 0.5) * 12 / 13 - 3, np.arange(9) + 0.5 - 2, indexing="ij")
counts = (y >= 0) & (y <= 6) & (x >= 0) & (x <= 5)
for name, across in (("cropped", x), ("mirrored", 5 - x)):
    grid = torch.tensor(np.stack([2 * across / 5 - 1, 2 * y / 6 - 1], -1)[None], dtype=torch.float32)
    judge_masks(name, functional.grid_sample(seen, grid, mode="bilinear", padding_mode="border", align_corners=False), counts)

# torchvision's detectors, without a network: two levels over an image of 64 x 48, three classes, two images of four objects.
from torchvision.models import detection as det  # noqa: E402
from torchvision.models.detection.anchor_utils import AnchorGenerator, DefaultBoxGenerator  # noqa: E402
from torchvision.models.detection.image_list import ImageList  # noqa: E402

HEIGHT, WIDTH, LEVELS = 48, 64, ((6, 8), (3, 4))


def fine(seed, count):
    """Numbers from -4 to 4 of 24 bits, so that no two are equal."""
    state = seed
    for _ in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        yield (state >> 8) / 2**21 - 4


def detector(name):
    backbone = torch.nn.Identity()
    backbone.out_channels = 32
    if name == "ssd":
        boxes = DefaultBoxGenerator([[2], [2, 3]], scales=[0.2, 0.5, 0.9])
        return det.ssd.SSD(backbone, boxes, (WIDTH, HEIGHT), 4, head=det.ssd.SSDHead([32, 32], [4, 6], 4))
    if name.startswith("retinanet"):
        boxes = AnchorGenerator(((10, 14), (24, 32)), ((0.5, 1.0, 2.0),) * 2)
        model = det.RetinaNet(backbone, 3, anchor_generator=boxes)
        model.head.regression_head._loss_type = "giou" if name.endswith("giou") else "l1"
        return model
    return det.FCOS(backbone, 3, anchor_generator=AnchorGenerator(((8,), (16,)), ((1.0,),) * 2))


for name, classes, numbers_of_row in (("fcos", 3, 8), ("retinanet", 3, 7), ("retinanet_giou", 3, 7), ("ssd", 4, 8)):
    model = detector(name)
    features = [torch.zeros(2, 1, *level) for level in LEVELS]
    anchors = model.anchor_generator(ImageList(torch.zeros(2, 3, HEIGHT, WIDTH), [(HEIGHT, WIDTH)] * 2), features)
    rows = len(anchors[0])
    values = torch.tensor(list(fine(1, 2 * rows * numbers_of_row))).reshape(2, rows, numbers_of_row)
    if name == "fcos":
        values[..., 3:7] = values[..., 3:7].abs()
    else:
        values[..., -4:] = values[..., -4:] / 4
    values.requires_grad_()
    outputs = {"cls_logits": values[..., :classes], "bbox_regression": values[..., classes : classes + 4]}
    if name == "fcos":
        outputs["bbox_ctrness"] = values[..., 7:]
    drawn = iter(list(fine(2, 2 * 4 * 5)))
    targets = []
    for _ in range(2):
        boxes, labels = [], []
        for size in (8, 13, 22, 37):
            x, y, w, h, label = (next(drawn) for _ in range(5))
            w, h = size * (1 + w / 16), size * (1 + h / 16)
            x, y = (WIDTH - w) * (x + 4) / 8, (HEIGHT - h) * (y + 4) / 8
            boxes.append([x, y, x + w, y + h])
            labels.append(int((label + 4) / 8 * 3) + (name == "ssd"))
        targets.append({"boxes": torch.tensor(boxes, dtype=torch.float32), "labels": torch.tensor(labels)})
    counts = [a * b for a, b in LEVELS]
    counts = [count * rows // sum(counts) for count in counts] if name != "ssd" else counts
    if name == "fcos":
        losses = model.compute_loss(targets, outputs, anchors, counts)
    elif name.startswith("retinanet"):
        losses = model.compute_loss(targets, outputs, anchors)
    else:
        matched = [model.proposal_matcher(ops.box_iou(one["boxes"], own)) for one, own in zip(targets, anchors)]
        losses = model.compute_loss(targets, outputs, anchors, matched)
    value = sum(losses.values())
    value.backward()
    gradient = values.grad
    print(f"{name} {rows} rows: {value.item():.9f} gradient {gradient.abs().sum().item():.9f} {(gradient.reshape(-1) * (torch.arange(gradient.numel()) % 97 / 97)).sum().item():.9f}")
    outputs = {key: one.detach() for key, one in outputs.items()}
    sizes = [(HEIGHT, WIDTH)] * 2
    if name == "ssd":
        found = model.postprocess_detections(outputs, anchors, sizes)
    else:
        found = model.postprocess_detections({key: list(one.split(counts, 1)) for key, one in outputs.items()},
                                             [list(one.split(counts)) for one in anchors], sizes)  # fmt: skip
    for one in found:
        labels = one["labels"] - int(name == "ssd")
        print(f"  {len(labels)} boxes, labels {labels.sum()}, scores {one['scores'].sum():.6f}, sides {one['boxes'].sum():.4f}, "
              f"first {one['boxes'][0].tolist()}, last score {one['scores'][-1]:.7f}")  # fmt: skip
