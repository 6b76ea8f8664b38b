"""Compares dlpipe's COCO metrics with those of pycocotools, on the cases that make_boxes prints: `python read_boxes.py MAKE_BOXES`."""

import contextlib
import io
import json
import subprocess
import sys

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

NAMES = ("map", "map50", "map75", "map_small", "map_medium", "map_large")
MOST = 1e-6


def coco_box(box):
    return [box[0], box[1], box[2] - box[0], box[3] - box[1]]


def judged(case):
    """The six means, -1 where there is none, and the AP of each class."""
    truth = COCO()
    objects, found = [], []
    for number, image in enumerate(case["images"]):
        for one in image["objects"]:
            box = coco_box(one["box"])
            objects.append({"id": len(objects) + 1, "image_id": number, "category_id": one["label"], "bbox": box,
                            "area": box[2] * box[3], "iscrowd": int(one["crowd"])})  # fmt: skip
        for one in image["found"]:
            found.append({"image_id": number, "category_id": one["label"], "bbox": coco_box(one["box"]), "score": one["score"]})
    truth.dataset = {"images": [{"id": number} for number in range(len(case["images"]))], "annotations": objects,
                     "categories": [{"id": c, "name": str(c)} for c in range(case["classes"])]}  # fmt: skip
    truth.createIndex()
    results = COCO()
    results.dataset = {**truth.dataset, "annotations": [
        {**one, "id": i + 1, "area": one["bbox"][2] * one["bbox"][3], "iscrowd": 0} for i, one in enumerate(found)]}  # fmt: skip
    results.createIndex()
    evaluation = COCOeval(truth, results, "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    precision = evaluation.eval["precision"][:, :, :, 0, -1]  # overlaps, recalls, classes
    return evaluation.stats[:6], [float(np.mean(precision[:, :, c])) for c in range(case["classes"])]


def main():
    lines = subprocess.run([sys.argv[1]], check=True, capture_output=True, text=True).stdout.splitlines()
    failures, compared = [], 0
    for number, line in enumerate(lines):
        case = json.loads(line)
        with contextlib.redirect_stdout(io.StringIO()):
            stats, each = judged(case)
        pairs = [(name, -1 if case[name] is None else case[name], value) for name, value in zip(NAMES, stats)]
        pairs += [(f"class {c}", -1 if own is None else own, value) for c, (own, value) in enumerate(zip(case["ap"], each))]
        for name, own, other in pairs:
            compared += 1
            if not abs(own - other) <= MOST:
                failures.append(f"case {number}, {case['name']}, {name}: dlpipe {own}, pycocotools {other}")
    print("\n".join(failures) or f"{compared} figures of {len(lines)} cases are those of pycocotools")
    return 1 if failures or not lines else 0


if __name__ == "__main__":
    sys.exit(main())
