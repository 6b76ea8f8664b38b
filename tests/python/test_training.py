"""dlpipe.train, evaluate, predict and Predictor."""

import io
import json
import logging
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import dlpipe
import numpy as np
import pytest
from conftest import run_program
from test_writer import turned_file

OPTIONS = {"model": "lenet", "augment": "rrc(24) hflip", "epochs": 2, "batch": 32, "lr": 0.05, "seed": 3}


def option_words(options):
    return [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]


@pytest.fixture(scope="module")
def run(splits, tmp_path_factory):
    """A finished run, made by the program."""
    folder = tmp_path_factory.mktemp("runs") / "cli"
    run_program("train", splits, *option_words(OPTIONS), "--out", folder)
    return folder


def test_train_is_the_programs_bit_for_bit(splits, run, tmp_path):
    steps, validations, progress = [], [], []
    answer = dlpipe.train(
        splits, out=tmp_path / "python", on_step=lambda *a: steps.append(a), on_validation=validations.append,
        progress=progress.append, **OPTIONS,
    )  # fmt: skip
    assert "the same" in run_program("diff", run, tmp_path / "python")
    assert (run / "metrics.jsonl").read_bytes() == (tmp_path / "python" / "metrics.jsonl").read_bytes()
    assert [step for step, _ in steps] == list(range(1, 21)) and answer["steps"] == 20
    assert steps[-1][1] == answer["loss"]
    assert len(validations) == 2 and validations[-1]["metrics"] == answer["validation"]["metrics"]
    assert progress[-1]["total_steps"] == 20


def test_train_with_a_bar(splits, tmp_path):
    pytest.importorskip("tqdm")
    dlpipe.train(splits, out=tmp_path / "run", progress=True, **{**OPTIONS, "epochs": 1})


def test_options_that_make_no_sense(splits, tmp_path):
    for options, words in [
        ({"modle": "x"}, "no option modle.*model"),
        ({"max_step": 3}, "no option max_step; did you mean 'max_steps'"),
        ({"frobnicate": 3}, "no option frobnicate; known: .*max_steps"),
        ({"model": "lenot"}, "lenot"),
        ({"batch": "many"}, "batch"),
        ({"nesterov": "perhaps"}, "nesterov"),
        ({"out": ""}, "no run directory; give out="),
        ({"acc": True}, "no option acc; did you mean 'metrics' with 'top1'"),
        ({"task": "classification"}, "did you mean 'classify'"),
        ({"callbacks": []}, "give functions as on_step=, on_validation= and progress="),
        ({"world_size": 2}, "one call trains in one process; `dlpipe launch"),
    ]:
        with pytest.raises(dlpipe.MisuseError, match=words):
            dlpipe.train(splits, **{**OPTIONS, "out": tmp_path / "run", **options})
    with pytest.raises(FileNotFoundError):
        dlpipe.train(tmp_path / "none", out=tmp_path / "run", **OPTIONS)
    for function, options, words in [
        (dlpipe.evaluate, {"batch_size": 4}, "did you mean 'batch'"),
        (dlpipe.evaluate, {"num_workers": 4}, "did you mean 'threads'"),
        (dlpipe.predict, {"topk": 4}, "did you mean 'top'"),
        (dlpipe.predict, {"tresholds": 4}, "did you mean 'threshold'"),
        (dlpipe.predict, {"frobnicate": 4}, "known: top, threshold, draw, .*progress$"),
    ]:
        with pytest.raises(TypeError, match=words):
            function("run", "images", **options)


def test_options_may_be_numpys_numbers_and_paths_no_text(splits, tmp_path):
    plain = tmp_path / "plain"
    dlpipe.train(splits, out=plain, nesterov=True, momentum=0.9, **OPTIONS)
    odd = tmp_path / "gr\udcfc\xdf"
    odd.symlink_to(splits)
    for data, out in ((str(odd), str(odd) + "-text"), (os.fsencode(odd), os.fsencode(odd) + b"-bytes")):
        numbers = {"lr": np.float64(OPTIONS["lr"]), "batch": np.int64(OPTIONS["batch"]), "epochs": np.array(OPTIONS["epochs"])}
        dlpipe.train(data, out=out, nesterov=np.True_, momentum=np.float64(0.9), **{**OPTIONS, **numbers})
        assert "the same" in run_program("diff", plain, os.fsdecode(out))


def test_a_finished_run_that_is_resumed_has_its_last_metrics(splits, tmp_path):
    answer = dlpipe.train(splits, out=tmp_path / "run", **OPTIONS)
    again = dlpipe.train(resume=tmp_path / "run")
    assert (again["steps"], again["loss"], again["validation"]) == (answer["steps"], answer["loss"], answer["validation"])
    with pytest.raises(dlpipe.MisuseError, match="no option batch_size; it is called 'batch'"):
        dlpipe.train(resume=tmp_path / "run", batch_size=8)


def test_a_resume_with_other_epochs_tells_the_rates_apart(splits, tmp_path):
    def on_step(step, loss):
        if step == 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        dlpipe.train(splits, out=tmp_path / "run", schedule="cosine", on_step=on_step, **{**OPTIONS, "epochs": 900})
    with pytest.raises(dlpipe.MisuseError, match="another rate") as raised:
        dlpipe.train(resume=tmp_path / "run", epochs=900.1)
    one, other = re.search(r"another rate \((\S+), it had (\S+)\)", str(raised.value)).groups()
    assert one != other and float(one) == pytest.approx(float(other))


def test_an_exception_of_a_callback_saves_and_comes_out_and_the_run_goes_on(splits, run, tmp_path):
    class Enough(Exception):
        pass

    def on_step(step, loss):
        if step == 7:
            raise Enough(step)

    with pytest.raises(Enough, match="7"):
        dlpipe.train(splits, out=tmp_path / "run", on_step=on_step, **OPTIONS)
    answer = dlpipe.train(resume=tmp_path / "run")
    assert answer["steps"] == 20
    assert "the same" in run_program("diff", run, tmp_path / "run")


def test_a_log_handler_that_raises_comes_out(splits, tmp_path):
    class Raises(logging.Handler):
        def emit(self, record):
            raise ZeroDivisionError

    handler = Raises()
    logging.getLogger("dlpipe").addHandler(handler)
    try:
        with pytest.raises(ZeroDivisionError):
            dlpipe.train(splits / "val", out=tmp_path / "run", **{**OPTIONS, "epochs": 3000})  # notes: no validation set
    finally:
        logging.getLogger("dlpipe").removeHandler(handler)


def test_ctrl_c_saves_and_raises_and_the_run_goes_on(splits, run, tmp_path):
    code = (
        "import dlpipe\n"
        f"dlpipe.train({str(splits)!r}, out={str(tmp_path / 'run')!r}, "
        "on_step=lambda step, loss: print(step, flush=True), **" + repr({**OPTIONS, "epochs": 40}) + ")\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert "dlpipe.errors.CancelledError: [train] stopped after step" in errors
    assert "resume with dlpipe.train(resume='" in errors
    assert process.returncode != 0
    assert dlpipe.train(resume=tmp_path / "run")["steps"] == 400


def test_evaluate_is_the_programs(splits, run):
    calls = []
    answer = dlpipe.evaluate(run, splits, report=True, predictions=True, top=2, progress=lambda *a: calls.append(a))
    printed = json.loads(run_program("eval", "--ckpt", run, splits, "--report", "--json"))
    for key in printed:
        if key != "samples_per_s":
            assert answer[key] == printed[key]
    assert len(answer["predictions"]) == 80 and len(answer["predictions"][0]["top"]) == 2
    assert calls[-1] == (80, 80)


def test_evaluate_and_predictors_log_no_notes_of_their_choices(splits, run, tmp_path, caplog):
    run_program("export-weights", run, "-o", tmp_path / "w.safetensors")
    with caplog.at_level(logging.INFO, "dlpipe"):
        dlpipe.evaluate(run, splits)
        dlpipe.Predictor(tmp_path / "w.safetensors", val_augment="center_crop(24)")
    assert "val is used" in caplog.text and "images are prepared by" in caplog.text
    assert [one for one in caplog.records if one.levelno > logging.INFO] == []


def test_predict_is_the_programs(images, run):
    answers = dlpipe.predict(run, images / "disc", top=3)
    printed = [json.loads(line) for line in
               run_program("predict", "--ckpt", run, images / "disc", "--top", 3, "--json").splitlines()]  # fmt: skip
    assert answers == printed and len(answers) == 40


def test_a_predictor_takes_images_in_every_form(images, run):
    files = sorted((images / "ring").iterdir())[:5]
    predictor = dlpipe.Predictor(run, batch=3)
    expected = {answer["path"]: answer for answer in dlpipe.predict(run, files, top=10)}
    many = predictor([file.read_bytes() for file in files])
    assert many.shape == (5, 10) and many.dtype == np.float32
    assert np.allclose(many.sum(1), 1, atol=1e-5)
    ones = [predictor(file) for file in files]
    # a batch of another size may take another kernel, chosen by its speed, whose sums round otherwise
    np.testing.assert_allclose(ones, many, rtol=0, atol=1e-6)
    for one, row, file in zip(ones, many, files):
        assert predictor.top(file, 3) == [(predictor.classes[i], float(one[i])) for i in (-one).argsort()[:3]]
        assert expected[str(file)]["class"] == predictor.classes[row.argmax()]
        assert abs(expected[str(file)]["probability"] - row.max()) < 1e-6
    image = pytest.importorskip("PIL.Image")
    image = image.open(files[0])
    assert np.array_equal(predictor(image), ones[0])
    assert np.array_equal(predictor(np.asarray(image)), ones[0])
    np.testing.assert_allclose(predictor(np.stack([np.asarray(image)] * 2)), many[[0, 0]], rtol=0, atol=1e-6)
    assert predictor([]).shape == (0, 10)
    assert np.array_equal(predictor(io.BytesIO(files[0].read_bytes())), ones[0])
    assert np.array_equal(predictor([io.BytesIO(file.read_bytes()) for file in files]), many)
    assert np.array_equal(predictor(file for file in files), many)
    assert [names[0] for names in predictor.top(iter(files))] == [names[0] for names in predictor.top(files)]
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)
    assert np.array_equal(predictor(tensor), ones[0])
    np.testing.assert_allclose(predictor(torch.stack([tensor] * 2)), many[[0, 0]], rtol=0, atol=1e-6)
    assert predictor.top(torch.stack([tensor] * 2), 3)[1][0] == predictor.top(tensor, 3)[0]
    with pytest.raises(dlpipe.MisuseError, match="tensor of float32; give uint8"):
        predictor(torch.zeros(2, 3, 40, 40))


def test_a_predictor_takes_samples(images, run, tmp_path):
    file = sorted((images / "ring").iterdir())[0]
    with dlpipe.Writer(tmp_path / "data") as writer:
        for label in range(2):
            writer.write(image=file.read_bytes(), label=label)
    dataset, predictor = dlpipe.Dataset(tmp_path / "data"), dlpipe.Predictor(run)
    assert np.array_equal(predictor(dataset[0]), predictor(dataset[0].image))
    assert np.array_equal(predictor([*dataset]), predictor([file, file]))
    with dlpipe.Writer(tmp_path / "numbers", fields={"n": "f32"}) as writer:
        writer.write(n=1)
    with pytest.raises(dlpipe.MisuseError, match="the sample has no image; its fields are n"):
        predictor(dlpipe.Dataset(tmp_path / "numbers")[0])


def test_a_predictor_has_no_top_of_fewer_than_one(run):
    with pytest.raises(dlpipe.MisuseError, match="k is -1; give a number of classes"):
        dlpipe.Predictor(run).top(b"", -1)


def test_a_predictor_turns_pillow_images_as_files(run):
    image = pytest.importorskip("PIL.Image")
    predictor = dlpipe.Predictor(run)
    file = turned_file(image, 6)
    assert np.array_equal(predictor(image.open(io.BytesIO(file))), predictor(file))


def test_ctrl_c_ends_a_predictor_between_batches(images, run):
    image = sorted((images / "ring").iterdir())[0]
    code = ("import dlpipe, sys\n"
            f"predictor = dlpipe.Predictor({str(run)!r}, batch=8)\n"
            f"images = [open({str(image)!r}, 'rb').read()] * 2_000_000\n"  # minutes of work
            "predictor(images[:8])\n"
            "print('begun', flush=True)\n"
            "try:\n"
            "    predictor(images)\n"
            "except KeyboardInterrupt:\n"
            "    print('stopped', predictor(images[0]).shape)\n")
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begun\n"
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert said == "stopped (10,)\n"


def test_a_predictor_reads_a_batch_at_a_time(images, run, monkeypatch):
    image = str(sorted((images / "ring").iterdir())[0])
    loaded = []
    load = dlpipe.training._load
    monkeypatch.setattr(dlpipe.training, "_load", lambda one: loaded.append(one) or load(one))
    predictor = dlpipe.Predictor(run, batch=8)
    assert predictor([image] * 20).shape == (20, 10)
    assert len(loaded) == 20
    loaded.clear()
    with pytest.raises(dlpipe.CorruptError, match="image 9"):
        predictor([image] * 9 + [b"no image"] + [image] * 1000)
    assert len(loaded) == 16
    assert predictor([]).shape == (0, 10)


def test_the_guides_example_trains_and_evaluates(splits, images, tmp_path):
    guide = pathlib.Path(__file__).parents[2] / "docs" / "guide" / "python.md"
    part = guide.read_text().split("## Training and evaluating without a loop")[1]
    script = tmp_path / "example.py"
    script.write_text(part.split("```python\n")[1].split("```")[0])
    image = sorted((images / "ring").iterdir())[0]
    done = subprocess.run([sys.executable, str(script), str(splits), str(image), str(tmp_path / "run")], capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    steps, top1, top, answer = done.stdout.splitlines()
    assert steps.startswith("20 steps, loss ") and top1.endswith("% of 80")
    assert len(eval(top)) == 3 and answer.startswith(f"{image} ")


def test_exported_weights_know_their_model_and_classes(run, images, tmp_path):
    run_program("export-weights", run, "-o", tmp_path / "w.safetensors")
    image = sorted((images / "ring").iterdir())[0]
    assert dlpipe.Predictor(tmp_path / "w.safetensors").top(image) == dlpipe.Predictor(run).top(image)


def test_a_predictor_says_which_image_is_bad(images, run):
    predictor = dlpipe.Predictor(run)
    assert repr(predictor) == f"dlpipe.Predictor({str(run)!r}): 10 classes"
    good = np.zeros((30, 30, 3), np.uint8)
    with pytest.raises(dlpipe.CorruptError, match="image 1"):
        predictor([good, b"no image", good])
    with pytest.raises(dlpipe.UnsupportedError, match="image 1: .*30x30 pixels are more than max_pixels 899"):
        dlpipe.Predictor(run, max_pixels=899)([good[1:], good])
    with pytest.raises(dlpipe.MisuseError, match="float32; give uint8"):
        predictor(good.astype(np.float32))
    with pytest.raises(dlpipe.NotFoundError, match="cannot read 'none.jpg': No such file") as raised:
        predictor("none.jpg")
    assert isinstance(raised.value, FileNotFoundError)
    with pytest.raises(dlpipe.IoError, match="Is a directory"):
        predictor([good, images])
    with pytest.raises(FileNotFoundError):
        dlpipe.Predictor("none")
    assert predictor(good).shape == (10,)
