"""dlpipe.Predictor and dlpipe.predict of models of masks, boxes and numbers."""

import dlpipe
import numpy as np
import pytest
from conftest import run_program

SIZE = 48


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder for each task: drawn scenes in "drawn/images", and a model of some steps in "run", a detector's enough for some boxes."""
    folder = tmp_path_factory.mktemp("tasks")
    options = {
        "segment": {"model": "unet_small", "augment": "rrc(48)", "lr": 0.05},
        "detect": {"model": "detector_small", "lr": 0.02, "max_steps": 60},
        "regress": {"model": "lenet", "augment": "", "task": "regress", "target": ["x", "y"]},
    }
    for task, given in options.items():
        drawn, data = folder / task / "drawn", folder / task / "data"
        run_program("synth", drawn, "--task", task, "--per-class", 6, "--size", SIZE)
        source = drawn / "annotations.json" if task == "detect" else drawn
        more = {"detect": {"images": drawn / "images"}, "regress": {"manifest": drawn / "list.csv", "field": ["x:number", "y:number"]}}
        dlpipe.ingest(source, data, split=(0.8, 0.2), **more.get(task, {}))
        dlpipe.train(data, out=folder / task / "run", **{"batch": 8, "max_steps": 6, **given})
    return folder


def image_of(models, task):
    return sorted((models / task / "drawn" / "images").iterdir())[3]


def test_masks_have_the_size_of_the_image(models, tmp_path):
    image = image_of(models, "segment")
    predictor = dlpipe.Predictor(models / "segment" / "run", val_augment=f"resize({SIZE}x{SIZE})")
    one = predictor(image)
    assert isinstance(one, dlpipe.Segmentation) and predictor.task == "segment"
    assert one.mask.dtype == np.uint8 and one.mask.shape == (SIZE, SIZE)
    counts = np.bincount(one.mask.reshape(-1), minlength=len(predictor.classes))
    assert one.shares == {name: pytest.approx(n / SIZE**2) for name, n in zip(predictor.classes, counts) if n}
    (printed,) = dlpipe.predict(models / "segment" / "run", image, draw=tmp_path / "drawn", val_augment=f"resize({SIZE}x{SIZE})")
    assert printed["shares"] == one.shares
    assert sorted(file.name for file in (tmp_path / "drawn").iterdir()) == [f"{image.stem}.mask.png", f"{image.stem}.png"]
    assert np.array_equal(predictor([image, image])[1].mask, one.mask) and predictor([]) == []


def test_masks_go_back_through_crops_resizes_and_flips(models):
    """A wide image, of which the model sees the middle at half the size, mirrored."""
    run, pixels = models / "segment" / "run", np.random.default_rng(1).integers(0, 256, (96, 160, 3), np.uint8)
    seen = dlpipe.Predictor(run, val_augment="resize(48) center_crop(48) hflip(1)")
    mask = seen(pixels).mask
    assert mask.shape == (96, 160)
    assert (mask[:, :32] == 255).all() and (mask[:, 128:] == 255).all() and (mask[:, 32:128] < 255).all()
    middle = mask[:, 32:128]
    image = pytest.importorskip("PIL.Image")
    small = image.fromarray(pixels).resize((80, 48), image.Resampling.BILINEAR).crop((16, 0, 64, 48))
    mirrored = np.asarray(small)[:, ::-1].copy()
    expected = dlpipe.Predictor(run, val_augment=f"resize({SIZE}x{SIZE})")(mirrored).mask[:, ::-1]
    large = expected.repeat(2, 0).repeat(2, 1)  # Pillow rounds some pixels otherwise; between classes the middle has lines of its own
    assert (middle == large).mean() > 0.8
    inside = np.ones_like(expected, bool)
    for axis in (0, 1):
        for step in (1, -1):
            inside &= expected == np.roll(expected, step, axis)
    inside = inside[1:-1, 1:-1].repeat(2, 0).repeat(2, 1)
    assert (middle[2:-2, 2:-2] == large[2:-2, 2:-2])[inside].mean() > 0.97


def test_masks_are_those_that_evaluate_judges(models):
    """Logits of what the model saw are interpolated, as by PyTorch's F.interpolate, before a class is chosen."""
    run, data, chain = models / "segment" / "run", models / "segment" / "data", "resize(16x16)"
    metrics = dlpipe.evaluate(run, data, val_augment=chain)["metrics"]
    predictor = dlpipe.Predictor(run, val_augment=chain)
    counts = np.zeros((2, len(predictor.classes)))
    right = total = 0
    for sample in dlpipe.Dataset(data / "val"):
        truth, mask = sample.mask.reshape(SIZE, SIZE), predictor(sample.image).mask
        right += (mask == truth).sum()
        total += truth.size
        for number in range(len(predictor.classes)):
            counts[0, number] += ((mask == number) & (truth == number)).sum()
            counts[1, number] += ((mask == number) | (truth == number)).sum()
    assert metrics["pixel_accuracy"] == pytest.approx(right / total, abs=1e-9)
    there = counts[1] > 0
    assert metrics["miou"] == pytest.approx((counts[0][there] / counts[1][there]).mean(), abs=1e-9)


def test_shares_are_of_the_image_without_padding(models):
    run, pixels = models / "segment" / "run", np.random.default_rng(2).integers(0, 256, (24, 48, 3), np.uint8)
    for chain, seen in (("resize(48,side=longer) pad_to(48) center_crop(48)", 24 * 48), ("resize(48) center_crop(48)", 24 * 24)):
        predictor = dlpipe.Predictor(run, val_augment=chain)
        one = predictor(pixels)
        counts = np.bincount(one.mask.reshape(-1), minlength=256)
        assert counts[:255].sum() == seen
        assert one.shares == {name: pytest.approx(n / seen) for name, n in zip(predictor.classes, counts) if n}


def test_a_threshold_is_of_labels_and_boxes(models):
    for task in ("segment", "regress"):
        with pytest.raises(dlpipe.MisuseError, match=f"threshold is for labels and boxes, and this model's task is {task}"):
            dlpipe.Predictor(models / task / "run", threshold=0.5)


def test_boxes_are_in_the_pixels_of_the_image(models, tmp_path):
    run, image = models / "detect" / "run", image_of(models, "detect")
    predictor = dlpipe.Predictor(run, threshold=0.05)
    found = predictor(image)
    assert isinstance(found, dlpipe.Detections)
    (printed,) = dlpipe.predict(run, image, threshold=0.05, draw=tmp_path / "drawn")
    assert len(printed["boxes"]) == len(found.labels) > 0
    assert found.boxes.dtype == found.scores.dtype == np.float32 and found.labels.dtype == np.int64
    np.testing.assert_allclose(found.boxes, [box["box"] for box in printed["boxes"]], rtol=1e-6)
    np.testing.assert_allclose(found.scores, [box["score"] for box in printed["boxes"]], rtol=1e-6)
    assert [predictor.classes[label] for label in found.labels] == [box["class"] for box in printed["boxes"]]
    assert [file.name for file in (tmp_path / "drawn").iterdir()] == [f"{image.stem}.png"]
    none = dlpipe.Predictor(run, threshold=1.0)([image])[0]
    assert none.boxes.shape == (0, 4) and none.scores.shape == none.labels.shape == (0,)


def test_numbers_have_no_top_and_no_drawing(models, tmp_path):
    predictor = dlpipe.Predictor(models / "regress" / "run")
    image = image_of(models, "regress")
    assert predictor.classes == ["x", "y"] and predictor(image).shape == (2,)
    for task in ("regress", "segment", "detect"):
        with pytest.raises(dlpipe.MisuseError, match=f"the task {task} doesn't have; call the predictor itself"):
            dlpipe.Predictor(models / task / "run").top(image)
    with pytest.raises(dlpipe.MisuseError, match="draw= draws masks and boxes, and this model's task is regress"):
        dlpipe.predict(models / "regress" / "run", image, draw=tmp_path / "drawn")
    assert not (tmp_path / "drawn").exists()


@pytest.mark.parametrize("task", ["segment", "detect"])
def test_which_image_is_bad_is_told_for_every_task(models, task):
    predictor = dlpipe.Predictor(models / task / "run", batch=2)
    good = np.zeros((SIZE, SIZE, 3), np.uint8)
    with pytest.raises(dlpipe.CorruptError, match="image 3"):
        predictor([good, good, good, b"no image"])
    assert len(predictor([good] * 3)) == 3
