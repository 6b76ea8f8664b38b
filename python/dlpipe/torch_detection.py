"""torchvision's detectors for `dlpipe.capture`: the network without its transform and its postprocessing, and what its rows mean.

Backbone and head are captured. dlpipe prepares images itself, and implements torchvision's assignment of objects, losses and
postprocessing (run/input/box_anchors.cpp, run/config/loss.cpp). The file's metadata describe the coding of boxes for them.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import Any

import torch

from dlpipe.errors import MisuseError, UnsupportedError

#: Classes of torchvision.models.detection that are captured, with the heads for which dlpipe has the losses.
_CAPTURED = {"fcos.FCOS": ["fcos.FCOSHead"], "retinanet.RetinaNet": ["retinanet.RetinaNetHead"], "ssd.SSD": ["ssd.SSDHead", "ssdlite.SSDLiteHead"]}
#: Base classes of detectors that first propose regions of the image and then look at each.
_PROPOSING = ("GeneralizedRCNN",)


def _detection() -> Any:
    """torchvision.models.detection if the program has imported it. If not, the model can't be one of its detectors."""
    return sys.modules.get("torchvision.models.detection")


def _named(name: str) -> Any:
    found = _detection()
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def is_detector(model: torch.nn.Module) -> bool:
    """Whether it is one of torchvision's detectors that `Rows` supports. UnsupportedError for torchvision's others."""
    if _detection() is None:
        return False
    kind = type(model).__name__
    for name, heads in _CAPTURED.items():
        captured, known = _named(name), [_named(head) for head in heads]
        if not isinstance(model, captured):
            continue
        if type(model) is not captured or type(model.head) not in known:
            raise _refuse(f"{kind} with a {type(model.head).__name__} may have a different loss than torchvision's {captured.__name__} with a "
                          f"{known[0].__name__}; capture that one")  # fmt: skip
        return True
    bases = [one.__name__ for one in type(model).__mro__ if one.__module__.startswith("torchvision.models.detection")]
    if not bases:
        return False
    if any(name in bases for name in _PROPOSING):
        raise _refuse(f"{kind} is a two-stage detector, which dlpipe doesn't support; of torchvision's detectors "
                      f"{_listed(_CAPTURED)} can be captured")  # fmt: skip
    raise _refuse(f"dlpipe doesn't support the boxes of {kind}; of torchvision's detectors {_listed(_CAPTURED)} can be captured")


def _refuse(text: str) -> UnsupportedError:
    return UnsupportedError(f"[capture] {text}")


def _listed(names: Any) -> str:
    *first, last = (name.rpartition(".")[2] for name in names)
    return f"{', '.join(first)} and {last}"


class Rows(torch.nn.Module):
    """A detector's network, from images [N,C,H,W] to rows [N,anchors,numbers]: logits, the box's code and the head's other outputs. Its
    parameters have the detector's names."""

    backbone: Any
    head: Any

    def __init__(self, detector: torch.nn.Module):
        super().__init__()
        self.backbone = detector.backbone
        self.head = detector.head
        self.training = detector.training

    def features(self, images: torch.Tensor) -> list[torch.Tensor]:
        features = self.backbone(images)
        return [features] if isinstance(features, torch.Tensor) else list(features.values())

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        outputs = self.head(self.features(images))
        return torch.cat([outputs[key] for key in ("cls_logits", "bbox_regression", "bbox_ctrness") if key in outputs], 2)


def description(detector: Any, rows: Rows, example: torch.Tensor) -> dict[str, str]:
    """The metadata of the file; `rows` in eval mode."""
    height, width = example.shape[-2:]
    _check_size(detector, height, width)
    with torch.no_grad():
        sizes = [(feature.shape[2], feature.shape[3]) for feature in rows.features(example[:1])]
    boxes = {
        "name": type(detector).__name__.lower(),
        "others": 4,
        "height": height,
        "width": width,
        "score_thresh": detector.score_thresh,
        "nms_thresh": detector.nms_thresh,
        "topk_candidates": detector.topk_candidates,
        "detections_per_img": detector.detections_per_img,
        "center_sampling_radius": 0.0,
        "fg_iou_thresh": 0.0,
        "bg_iou_thresh": 0.0,
        "neg_to_pos_ratio": 0.0,
        "weights": [1.0, 1.0, 1.0, 1.0],
        "levels": _anchors(detector, sizes, height, width),
    }
    boxes |= {"fcos": _fcos, "retinanet": _retinanet, "ssd": _ssd}[boxes["name"]](detector)
    transform = detector.transform
    normalize = [":".join(repr(float(number)) for number in numbers) for numbers in (transform.image_mean, transform.image_std)]
    return {"box_coding": json.dumps(boxes), "normalization": f"normalize(mean={normalize[0]},std={normalize[1]})"}


def _check_size(detector: Any, height: int, width: int) -> None:
    fixed = detector.transform.fixed_size
    if fixed is not None and (width, height) != tuple(fixed):
        raise MisuseError(f"[capture] torchvision resizes all images for this model to one size; give example=(3, {fixed[1]}, {fixed[0]}) "
                          f"instead of {height}x{width}")  # fmt: skip
    divisor = detector.transform.size_divisible
    if height % divisor or width % divisor:
        advice = f"(3, {-(-height // divisor) * divisor}, {-(-width // divisor) * divisor})"
        raise MisuseError(f"[capture] torchvision pads this model's images to multiples of {divisor}, but the example is {height}x{width}; "
                          f"give multiples, such as {advice}")  # fmt: skip


def _anchors(detector: Any, sizes: Sequence[tuple[int, int]], height: int, width: int) -> list[dict[str, Any]]:
    generator = detector.anchor_generator
    if type(detector).__name__ == "SSD":
        return _default_boxes(generator, sizes, height, width)
    _check_generator(generator, "AnchorGenerator", len(sizes), len(generator.sizes))
    return [{"rows": rows, "columns": columns, "pitch": [height // rows, width // columns], "anchors": anchors.tolist()}
            for (rows, columns), anchors in zip(sizes, generator.cell_anchors)]  # fmt: skip


def _default_boxes(generator: Any, sizes: Sequence[tuple[int, int]], height: int, width: int) -> list[dict[str, Any]]:
    _check_generator(generator, "DefaultBoxGenerator", len(sizes), len(generator.aspect_ratios))
    levels = []
    for k, (rows, columns) in enumerate(sizes):
        pairs = generator._wh_pairs[k].clamp(min=0, max=1) if generator.clip else generator._wh_pairs[k]
        pitch = [rows, columns] if generator.steps is None else [height / generator.steps[k], width / generator.steps[k]]
        levels.append({"rows": rows, "columns": columns, "pitch": pitch, "anchors": [[0.0, 0.0, *pair] for pair in pairs.tolist()]})
    return levels


def _check_generator(generator: Any, name: str, levels: int, of: int) -> None:
    if type(generator) is not _named(f"anchor_utils.{name}"):
        raise _refuse(f"the model's anchors come from a {type(generator).__name__}; dlpipe supports those of {name} only")
    if levels != of:
        raise _refuse(f"the backbone has {levels} levels of features, but the {name} has anchors for {of}")


def _fcos(detector: Any) -> dict[str, Any]:
    if not detector.box_coder.normalize_by_size or not detector.head.box_coder.normalize_by_size:
        raise _refuse("the model's box sides are in pixels; dlpipe only supports sides relative to the anchors (normalize_by_size=True)")
    return {"others": 5, "center_sampling_radius": detector.center_sampling_radius}


def _retinanet(detector: Any) -> dict[str, Any]:
    loss = detector.head.regression_head._loss_type
    if loss not in ("l1", "giou"):
        raise _refuse(f"the model's box loss is {loss}; dlpipe supports l1 (retinanet_resnet50_fpn) and giou (retinanet_resnet50_fpn_v2)")
    matcher = detector.proposal_matcher
    if type(matcher) is not _named("_utils.Matcher") or not matcher.allow_low_quality_matches:
        raise _refuse("the model's proposal_matcher must be a Matcher with allow_low_quality_matches=True")
    weights = _weights(detector.box_coder, detector.head.regression_head.box_coder)
    if loss == "giou" and weights != [1.0, 1.0, 1.0, 1.0]:
        raise _refuse("the model's BoxCoder has weights other than 1, which dlpipe supports with the loss l1 only")
    return {"name": "retinanet" if loss == "l1" else "retinanet_giou", "weights": weights, "fg_iou_thresh": matcher.high_threshold,
            "bg_iou_thresh": matcher.low_threshold}  # fmt: skip


def _weights(*coders: Any) -> list[float]:
    first = coders[0]
    known = all(one.weights == first.weights and math.isclose(one.bbox_xform_clip, math.log(1000 / 16)) for one in coders)
    if not known or len(first.weights) != 4:
        raise _refuse("the model's BoxCoders must all have the same four weights and torchvision's default bbox_xform_clip")
    return [float(weight) for weight in first.weights]


def _ssd(detector: Any) -> dict[str, Any]:
    matcher = detector.proposal_matcher
    if type(matcher) is not _named("_utils.SSDMatcher"):
        raise _refuse("the model's proposal_matcher must be an SSDMatcher")
    return {"others": 5, "weights": _weights(detector.box_coder), "fg_iou_thresh": matcher.high_threshold, "bg_iou_thresh": matcher.low_threshold,
            "neg_to_pos_ratio": detector.neg_to_pos_ratio}  # fmt: skip
