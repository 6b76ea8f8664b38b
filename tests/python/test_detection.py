"""torchvision's detectors as captured models: torchvision judges rows, boxes, losses, gradients and steps; what training does with them.

Weights are generated. With such weights rounding alone moves gradients by percents on their way through the network, in torchvision's f32 as here, so
the judge of most of them is torchvision in f64.
"""

import copy
import json
import os
import re
import subprocess
import sys

import dlpipe
import numpy as np
import pytest
from dlpipe import _dlpipe

torch = pytest.importorskip("torch")
detection = pytest.importorskip("torchvision.models.detection")

CLASSES, BATCH, STEPS = 10, 2, 10
#: Height and width of images; how many of the model's classes are not the data's.
MODELS = {"fcos_resnet50_fpn": ((96, 128), 0), "retinanet_resnet50_fpn": ((96, 128), 0),
          "retinanet_resnet50_fpn_v2": ((96, 128), 0), "ssdlite320_mobilenet_v3_large": ((320, 320), 1)}  # fmt: skip
# Of rows the share of the largest; of boxes pixels; of losses the share, of the first and of those of ten steps.
ROWS, PIXELS, SCORES, LOSSES, STEPPED = 1e-4, 2e-2, 1e-4, 1e-5, 1e-2
# Of the gradients of each parameter the share of its norm: of the last convolutions, which the loss reaches first, to torchvision's f32; of all, the
# median and the largest to torchvision's f64, or as many times as far as torchvision's f32 is.
LAST, MEDIAN, LARGEST, TIMES = 1e-3, 2e-2, 0.1, 3
# What a step moves the weights by, all of them together.
STEP = 2e-4


def made(name, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0), deviation=1.5):
    """With weights under which many boxes are found, and running statistics of the images that it gets."""
    torch.manual_seed(11)
    (height, width), background = MODELS[name]
    model = getattr(detection, name)(weights=None, weights_backbone=None, num_classes=CLASSES + background)
    model.transform.min_size, model.transform.max_size = (min(height, width),), max(height, width)
    model.transform.image_mean, model.transform.image_std = list(mean), list(std)
    norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0
    x = images(name)
    with torch.no_grad():
        rows_of(model.train())(x)
        for norm, momentum in zip(norms, momenta):
            norm.momentum = momentum
        spread(model.eval(), x, deviation)
    return model


def freeze_norms(module):
    """Batch norms as torchvision's FrozenBatchNorm2d."""
    from torchvision.ops import FrozenBatchNorm2d

    for name, child in module.named_children():
        if isinstance(child, torch.nn.BatchNorm2d):
            frozen = FrozenBatchNorm2d(child.num_features, child.eps)
            frozen.load_state_dict(child.state_dict())
            setattr(module, name, frozen)
        else:
            freeze_norms(child)


def spread(model, x, deviation):
    """Scales the last convolutions, so that logits have this deviation and codes of boxes a third of it."""
    last = {}
    for name, module in model.head.named_modules():
        if isinstance(module, torch.nn.Conv2d) and (module.kernel_size == (1, 1) or module.out_channels % 256 != 0) and module.groups == 1:
            last[module] = deviation if "classification" in name or "ctrness" in name else deviation / 3, []
            module.register_forward_hook(lambda module, _, output: last[module][1].append(output.flatten()))
    rows_of(model)(x)
    for module, (wanted, outputs) in last.items():
        module._forward_hooks.clear()
        module.weight.mul_(wanted / torch.cat(outputs).std())
        module.bias.zero_()


def images(name, count=BATCH):
    height, width = MODELS[name][0]
    smooth = torch.randn(count, 3, height // 8, width // 8, generator=torch.Generator().manual_seed(5))
    return torch.nn.functional.interpolate(smooth, size=(height, width), mode="bilinear")


def objects(name):
    """Boxes of many sizes, as targets of torchvision and as arrays: boxes, labels, offsets."""
    (height, width), background = MODELS[name]
    drawn = np.random.default_rng(3)
    targets, all_boxes, all_labels, offsets = [], [], [], [0]
    for _ in range(BATCH):
        boxes = []
        for size in (9, 20, 33, 47, 70):
            w, h = size * drawn.uniform(0.8, 1.2, 2)
            x, y = drawn.uniform(0, width - w), drawn.uniform(0, height - h)
            boxes.append([x, y, x + w, y + h])
        labels = drawn.integers(0, CLASSES, len(boxes))
        targets.append({"boxes": torch.tensor(boxes, dtype=torch.float32), "labels": torch.tensor(labels) + background})
        all_boxes += boxes
        all_labels += labels.tolist()
        offsets.append(len(all_boxes))
    return targets, (np.array(all_boxes, np.float32), np.array(all_labels, np.int64), np.array(offsets, np.int64))


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """Of a name: a model, and what was captured of it."""
    files = {}

    def network_of(name):
        model = made(name)
        if name not in files:
            files[name] = tmp_path_factory.mktemp("captured") / "m.dlm"
            dlpipe.capture(model, (3, *MODELS[name][0]), files[name])
        return model, _dlpipe.CapturedModel(os.fsencode(files[name]))

    return network_of


def rows_of(model):
    from dlpipe import torch_detection

    return torch_detection.Rows(model)


def judged(model, rows, x):
    """torchvision's boxes of given rows [N,anchors,numbers]."""
    from torchvision.models.detection.image_list import ImageList

    features = rows_of(model).features(x)
    anchors = model.anchor_generator(ImageList(x, [tuple(x.shape[-2:])] * len(x)), features)
    background = rows.shape[2] - CLASSES - (5 if "FCOS" in type(model).__name__ else 4)
    classes = CLASSES + background
    outputs = {"cls_logits": rows[..., :classes], "bbox_regression": rows[..., classes : classes + 4]}
    if "FCOS" in type(model).__name__:
        outputs["bbox_ctrness"] = rows[..., classes + 4 :]
    sizes = [tuple(x.shape[-2:])] * len(x)
    if type(model).__name__ == "SSD":
        return model.postprocess_detections(outputs, anchors, sizes)
    counts = [feature.shape[2] * feature.shape[3] for feature in features]
    each = len(anchors[0]) // sum(counts)
    counts = [count * each for count in counts]
    return model.postprocess_detections({key: list(one.split(counts, 1)) for key, one in outputs.items()},
                                        [list(one.split(counts)) for one in anchors], sizes)  # fmt: skip


def compare_boxes(ours, theirs, background, pixels, off=0.0):
    """Equally many, and one of ours for each of torchvision's. Which of equally good ones are the last, rounding decides.

    Sides are exponentials of numbers in the rows. If those may be `off`, sides may be by that share of themselves."""
    for (boxes, labels, scores), their in zip(ours, theirs):
        assert len(boxes) == len(their["boxes"]) > 20
        assert (np.diff(scores) <= 0).all()
        left = list(range(len(boxes)))
        for box, label, score in zip(their["boxes"].numpy(), their["labels"].numpy() - background, their["scores"].numpy()):
            largest = max(box[2] - box[0], box[3] - box[1])
            found = [i for i in left if labels[i] == label and abs(scores[i] - score) < SCORES and np.abs(boxes[i] - box).max() < pixels + off * largest]
            assert found or score < scores[-1] + SCORES, (box, label, score)
            left = [i for i in left if i not in found[:1]]
        assert all(scores[i] < scores[-1] + SCORES for i in left)


@pytest.mark.parametrize("name", MODELS)
def test_rows_and_boxes(name, network):
    model, ours = network(name)
    model.eval()
    x, background = images(name), MODELS[name][1]
    with torch.no_grad():
        expected = rows_of(copy.deepcopy(model).double())(x.double()).numpy()
        got = np.array(ours.forward(x.numpy(), False))
        assert np.abs(got - expected).max() < ROWS * np.abs(expected).max()
        found = ours.detect(x.numpy())
        for (boxes, labels, scores), their in zip(found, judged(model, torch.from_numpy(got), x)):  # of the same rows, in their order
            np.testing.assert_array_equal(labels, their["labels"].numpy() - background)
            np.testing.assert_allclose(scores, their["scores"].numpy(), rtol=1e-5)
            np.testing.assert_allclose(boxes, their["boxes"].numpy(), atol=1e-3)
        # Of the whole network, in f64: PyTorch's own f32 may be as far off as ours, on the other side.
        exact = copy.deepcopy(model).double()(list(x.double()))
        compare_boxes(found, exact, background, PIXELS, ROWS * np.abs(expected).max())


def loss_of(model, name, targets):
    """torchvision's, with gradients, in the model's precision."""
    dtype = next(model.parameters()).dtype
    model.train().zero_grad()
    targets = [{"boxes": one["boxes"].to(dtype), "labels": one["labels"]} for one in targets]
    loss = sum(model(list(images(name).to(dtype)), targets).values())
    loss.backward()
    return loss.item()


def gradients_of(model):
    return {key: one.grad for key, one in model.named_parameters() if one.grad is not None}


def shares_of(gradients, exact):
    """How far they are off, of each parameter."""
    least = 1e-4 * max(float(one.norm()) for one in exact.values())
    return [float(np.linalg.norm(gradients[key] - one.numpy())) / max(float(one.norm()), least) for key, one in exact.items()]


@pytest.mark.parametrize("name", MODELS)
def test_gradients(name, tmp_path):
    """Under frozen norms, as torchvision trains published weights."""
    model = made(name)
    freeze_norms(model)
    dlpipe.capture(model, (3, *MODELS[name][0]), tmp_path / "m.dlm")
    ours = _dlpipe.CapturedModel(os.fsencode(tmp_path / "m.dlm"))
    targets, arrays = objects(name)
    exact = copy.deepcopy(model).double()
    loss_of(exact, name, targets)
    assert ours.step_boxes(images(name).numpy(), *arrays, 0.0) == pytest.approx(loss_of(model, name, targets), rel=LOSSES)
    gradients, theirs, in_f32 = ours.gradients(), gradients_of(exact), gradients_of(model)
    assert set(gradients) == set(theirs)
    last = {key: one for key, one in in_f32.items() if re.search(r"cls_logits|bbox_reg\.|bbox_ctrness|module_list\.\d+\.1\.", key)}
    assert len(last) >= 4 and max(shares_of(gradients, last)) < LAST
    shares, of_f32 = shares_of(gradients, theirs), shares_of({key: one.numpy() for key, one in in_f32.items()}, theirs)
    for figure, most in ((np.median, MEDIAN), (np.max, LARGEST)):
        assert figure(shares) < max(most, TIMES * figure(of_f32))


@pytest.mark.parametrize("name", MODELS)
def test_ten_steps(name, network):
    model, ours = network(name)
    x, (targets, arrays) = images(name), objects(name)
    losses, lr = [], 0.0
    for step in range(STEPS):
        expected = loss_of(model, name, targets)
        lr = lr or STEP / float(sum(one.norm() ** 2 for one in gradients_of(model).values())) ** 0.5
        losses.append(ours.step_boxes(x.numpy(), *arrays, lr))
        assert losses[-1] == pytest.approx(expected, rel=STEPPED if step else LOSSES), step
        with torch.no_grad():
            for one in model.parameters():
                if one.grad is not None:
                    one -= lr * one.grad
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", MODELS)
def test_images_without_objects(name, network):
    model, ours = network(name)
    x, (targets, (boxes, labels, offsets)) = images(name), objects(name)
    targets[1] = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64)}
    first = slice(0, offsets[1])
    own = ours.step_boxes(x.numpy(), boxes[first], labels[first], np.array([0, offsets[1], offsets[1]]), 0.0)
    assert own == pytest.approx(loss_of(model, name, targets), rel=LOSSES)


def program(*words):
    done = subprocess.run([sys.executable, "-m", "dlpipe", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("boxes")
    program("synth", folder / "drawn", "--task", "detect", "--per-class", 4, "--size", 96)
    program("ingest", folder / "drawn" / "annotations.json", folder / "data", "--images", folder / "drawn" / "images", "--split", "0.8,0.2")
    return folder


@pytest.mark.parametrize("name", MODELS)
def test_train_and_back(name, data, tmp_path):
    """From a model to a run, and from its weights to the model, which finds the run's boxes."""
    # RetinaNet's head has no norms: of images with more contrast than `images` its scores would all be 1.
    model = made(name, [0.5, 0.4, 0.3], [0.25, 0.5, 0.2], 0.15 if name.startswith("retinanet") else 1.5)
    (height, width), background = MODELS[name]
    dlpipe.capture(model, (3, height, width), tmp_path / "m.dlm")
    program("train", "--data", data / "data", "--model", tmp_path / "m.dlm", "--task", "detect", "--batch", 4, "--max-steps", 3,
            "--optimizer", "sgd", "--lr", 1e-6, "--threads", 2, "--out", tmp_path / "a")  # fmt: skip
    refused = subprocess.run([sys.executable, "-m", "dlpipe", "train", "--data", data / "data", "--model", tmp_path / "m.dlm", "--task", "detect",
                              "--reset-head", "--max-steps", "1", "--out", tmp_path / "no"], capture_output=True, text=True)  # fmt: skip
    assert refused.returncode == 2 and "has no classifier that can be replaced" in refused.stderr
    report = json.loads(program("eval", "--ckpt", tmp_path / "a", data / "data", "--report", "--json"))
    assert np.isfinite(report["loss"]) and 0 <= report["metrics"]["map"] <= 1
    drawn = sorted((data / "drawn" / "images").iterdir())[:2]
    lines = program("predict", "--ckpt", tmp_path / "a", *drawn, "--json", "--draw", tmp_path / "seen")
    assert len(list((tmp_path / "seen").iterdir())) == 2 and "boxes" in lines
    program("export-weights", tmp_path / "a", "-o", tmp_path / "w.safetensors")
    weights = read(tmp_path / "w.safetensors")
    assert set(weights) == set(model.state_dict())
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    model.load_state_dict(weights)
    assert any(not torch.equal(before[key], tensor) for key, tensor in model.state_dict().items())
    image = (np.random.default_rng(2).random((height // 16, width // 16, 3)).repeat(16, 0).repeat(16, 1) * 255).astype(np.uint8)
    predictor = dlpipe.Predictor(tmp_path / "a", threshold=0)
    assert "mean=0.5:0.4:0.3" in predictor.val_augment
    found = predictor(image)
    with torch.no_grad():
        theirs = model.eval()([torch.from_numpy(image).permute(2, 0, 1).float() / 255])[0]
    keeps = (theirs["boxes"][:, 2:] > theirs["boxes"][:, :2]).all(1)
    theirs = {key: one[keeps] for key, one in theirs.items()}
    compare_boxes([(np.array(found.boxes), np.array(found.labels), np.array(found.scores))], [theirs], background, PIXELS)
    # The same run again, in two grains on one thread, has the bits of two threads.
    runs = []
    for threads in (1, 2):
        program("train", "--data", data / "data", "--model", tmp_path / "m.dlm", "--task", "detect", "--batch", 4, "--max-steps", 2, "--grains", 2,
                "--lr", 1e-4, "--threads", threads, "--out", tmp_path / str(threads))  # fmt: skip
        runs.append(sorted(path for path in (tmp_path / str(threads) / "checkpoints").iterdir())[-1] / "model.safetensors")
    assert runs[0].read_bytes() == runs[1].read_bytes()


def test_processes_train_the_bits_of_one(data, tmp_path):
    """Images have different numbers of boxes, so each process's share of the loss has another weight."""
    name = "ssdlite320_mobilenet_v3_large"
    dlpipe.capture(made(name), (3, *MODELS[name][0]), tmp_path / "m.dlm")
    words = ["train", "--data", data / "data", "--model", tmp_path / "m.dlm", "--task", "detect", "--batch", 8, "--max-steps", 2, "--grains", 4,
             "--optimizer", "sgd", "--lr", 1e-4, "--threads", 1]  # fmt: skip
    program(*words, "--out", tmp_path / "one")
    weights = (tmp_path / "one/checkpoints/last/model.safetensors").read_bytes()
    for processes in (2, 4):
        try:
            program("launch", "--np", processes, "--", *words, "--out", tmp_path / str(processes))
        except AssertionError as error:
            if "without MPI" in str(error):
                pytest.skip("built without MPI")
            raise
        assert (tmp_path / f"{processes}/checkpoints/last/model.safetensors").read_bytes() == weights


def read(path):
    """A safetensors file without the package of that name."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    kinds = {"F32": torch.float32, "I64": torch.int64}
    tensors = {}
    for key, entry in json.loads(data[8 : 8 + length]).items():
        if key == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        tensors[key] = torch.frombuffer(bytearray(data[8 + length + begin : 8 + length + end]) or bytearray(8), dtype=kinds[entry["dtype"]])
        tensors[key] = tensors[key].reshape(entry["shape"])
    return tensors


@pytest.mark.parametrize("kind", ["u8:boxes", "i64:boxes"])
@pytest.mark.parametrize("name", ["crowd", "iscrowd"])
def test_a_crowd_may_be_of_any_number(name, kind, tmp_path):
    drawn = np.random.default_rng(4)
    samples = []
    for _ in range(8):
        corners = drawn.uniform(0, 20, (3, 2))
        samples.append({"image": drawn.integers(0, 255, (48, 48, 3)).astype(np.uint8), "labels": [0, 1, 0], "flag": [0, 1, 0],
                        "boxes": np.concatenate([corners, corners + 20], 1).astype(np.float32)})  # fmt: skip
    losses = {}
    for called, of in ((name, kind), ("crowd", "f32:boxes"), ("other", kind)):
        fields = {"image": "image", "boxes": "boxes", "labels": "labels:boxes", called: of}
        data = tmp_path / f"{called}-{of[0]}"
        if not data.exists():
            dlpipe.from_dataset([{**{key: one[key] for key in ("image", "boxes", "labels")}, called: one["flag"]} for one in samples],
                                data, fields=fields, classes=["a", "b"])  # fmt: skip
        losses[called, of] = dlpipe.train(data, model="detector_small", batch=4, max_steps=1, seed=1, threads=1, out=tmp_path / f"run-{called}-{of[0]}")["loss"]
    assert losses[name, kind] == losses["crowd", "f32:boxes"] != losses["other", kind]


def test_what_is_refused(tmp_path):
    with pytest.raises(dlpipe.UnsupportedError, match="FasterRCNN is a two-stage detector"):
        dlpipe.capture(detection.fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None), (3, 64, 64), tmp_path / "m.dlm")
    model = made("fcos_resnet50_fpn")
    with pytest.raises(dlpipe.MisuseError, match=r"multiples of 32.*\(3, 128, 160\)"):
        dlpipe.capture(model, (3, 100, 160), tmp_path / "m.dlm")
    model.head = torch.nn.Sequential(model.head)
    with pytest.raises(dlpipe.UnsupportedError, match="FCOS with a Sequential"):
        dlpipe.capture(model, (3, 128, 160), tmp_path / "m.dlm")
    model = detection.retinanet_resnet50_fpn_v2(weights=None, weights_backbone=None, num_classes=3)
    for coder in (model.box_coder, model.head.regression_head.box_coder):
        coder.weights = (10.0, 10.0, 5.0, 5.0)
    with pytest.raises(dlpipe.UnsupportedError, match="weights other than 1"):
        dlpipe.capture(model, (3, 64, 64), tmp_path / "m.dlm")
    model.head.regression_head._loss_type = "diou"
    with pytest.raises(dlpipe.UnsupportedError, match="box loss is diou"):
        dlpipe.capture(model, (3, 64, 64), tmp_path / "m.dlm")
    with pytest.raises(dlpipe.MisuseError, match=r"to one size; give example=\(3, 320, 320\)"):
        dlpipe.capture(made("ssdlite320_mobilenet_v3_large"), (3, 64, 64), tmp_path / "m.dlm")
    assert not (tmp_path / "m.dlm").exists()
