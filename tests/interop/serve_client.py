"""Triton's own client of the protocol asks `dlpipe serve`, and compares the answers with those of `dlpipe predict`.

    serve_client.py DLPIPE      (the program)
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

DLPIPE = sys.argv[1]
FLOOD = 400  # requests at random concurrency


def run(*arguments):
    result = subprocess.run([DLPIPE, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, (arguments, result.stderr)
    return result.stdout


def image_input(images):
    tensor = triton.InferInput("image", [len(images)], "BYTES")
    tensor.set_data_from_numpy(np.array(images, dtype=object), binary_data=True)
    return [tensor]


def refused(call, *parts):
    try:
        call()
    except InferenceServerException as error:
        text = str(error)
        assert all(part in text for part in parts), (text, parts)
        return error
    raise AssertionError(f"no error with {parts}")


def ask(client, images, expected, classes):
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("m")
    assert client.is_model_ready("m", "1") and not client.is_model_ready("m", "2") and not client.is_model_ready("other")
    server = client.get_server_metadata()
    assert server["name"] == "dlpipe" and "binary_tensor_data" in server["extensions"], server
    model = client.get_model_metadata("m")
    assert model["inputs"] == [{"name": "image", "datatype": "BYTES", "shape": [-1]}], model
    assert [output["name"] for output in model["outputs"]] == ["probabilities", "label"], model
    assert model["outputs"][0]["shape"] == [-1, len(classes)], model

    answer = client.infer("m", image_input(images), request_id="a \"request\"")
    assert answer.get_response()["id"] == "a \"request\"" and answer.get_response()["model_version"] == "1"
    probabilities = answer.as_numpy("probabilities")
    assert probabilities.dtype == np.float32 and probabilities.tobytes() == expected.tobytes()  # bit by bit
    labels = [label.decode() for label in answer.as_numpy("label")]
    assert labels == [classes[i] for i in expected.argmax(axis=1)], labels

    for binary in (False, True):  # outputs in their order, some as JSON
        outputs = [triton.InferRequestedOutput("label", binary_data=binary),
                   triton.InferRequestedOutput("probabilities", binary_data=not binary)]
        answer = client.infer("m", image_input(images), outputs=outputs, model_version="1")
        assert [one["name"] for one in answer.get_response()["outputs"]] == ["label", "probabilities"]
        assert answer.as_numpy("probabilities").tobytes() == expected.tobytes()
        named = [label.decode() if isinstance(label, bytes) else label for label in answer.as_numpy("label")]
        assert named == labels, named

    best = triton.InferRequestedOutput("probabilities", binary_data=True, class_count=3)
    rows = client.infer("m", image_input(images), outputs=[best]).as_numpy("probabilities")
    assert rows.shape == (len(images), 3)
    for row, values in zip(rows, expected, strict=True):
        for text, number in zip(row, np.argsort(-values, kind="stable"), strict=False):
            value, index, name = text.decode().split(":", 2)
            assert int(index) == number and name == classes[number] and np.float32(value) == values[number], text

    # Each image's bits are the same alone, and beside others.
    for image, values in zip(images, expected, strict=True):
        assert client.infer("m", image_input([image])).as_numpy("probabilities").tobytes() == values.tobytes()

    statistics = client.get_inference_statistics("m", "1")["model_stats"][0]
    assert statistics["inference_count"] == 4 * len(images) + len(images), statistics
    assert statistics["inference_stats"]["success"]["count"] == 4 + len(images) and statistics["inference_stats"]["fail"]["count"] == 0
    assert len(client.get_inference_statistics()["model_stats"]) == 1


def flood(client, images, expected):
    rng = np.random.default_rng(7)
    waiting = []
    for _ in range(FLOOD):
        chosen = rng.integers(0, len(images), rng.integers(1, 5))
        waiting.append((chosen, client.async_infer("m", image_input([images[i] for i in chosen]))))
        if len(waiting) >= rng.integers(1, 33):
            for some, request in waiting:
                assert request.get_result().as_numpy("probabilities").tobytes() == expected[some].tobytes(), some
            waiting.clear()
    for some, request in waiting:
        assert request.get_result().as_numpy("probabilities").tobytes() == expected[some].tobytes(), some


def errors(client, images):
    refused(lambda: client.infer("other", image_input(images)), "[404]", "there is no model 'other'")
    refused(lambda: client.infer("m", image_input(images), model_version="9"), "[404]", "no version '9'")
    refused(lambda: client.infer("m", image_input([b"not an image"])), "[400]", "image 0")
    refused(lambda: client.infer("m", image_input(images), outputs=[triton.InferRequestedOutput("logits")]), "[400]", "'logits'")
    labels = [triton.InferRequestedOutput("label", class_count=2)]
    refused(lambda: client.infer("m", image_input(images), outputs=labels), "[400]", "no classes")
    pixels = triton.InferInput("image", [1, 2], "FP32")
    pixels.set_data_from_numpy(np.zeros((1, 2), np.float32))
    refused(lambda: client.infer("m", [pixels]), "[400]", "BYTES")
    text = triton.InferInput("image", [1], "BYTES")
    text.set_data_from_numpy(np.array(["text"], dtype=object), binary_data=False)  # in the JSON
    refused(lambda: client.infer("m", [text]), "[400]", "image 0")
    refused(lambda: client.infer("m", image_input(images), request_compression_algorithm="gzip"), "[415]")
    refused(lambda: client.infer("m", image_input(images), timeout=1), "[504]", "time limit")
    refused(lambda: client.get_model_config("m"), "[404]")
    refused(lambda: client.get_model_metadata("other"), "[404]")


def repository(client, images, expected):
    assert client.get_model_repository_index() == [{"name": "m", "version": "1", "state": "READY", "reason": ""}]
    client.unload_model("m")
    assert client.get_model_repository_index()[0]["state"] == "UNAVAILABLE"
    refused(lambda: client.infer("m", image_input(images)), "[404]")
    assert client.is_server_live() and not client.is_server_ready()
    client.load_model("m")
    assert client.infer("m", image_input(images)).as_numpy("probabilities").tobytes() == expected.tobytes()
    refused(lambda: client.load_model("other"), "[404]")
    refused(lambda: client.unload_model("other"), "[404]")


def main(folder):
    run("synth", folder / "images", "--per-class", 8, "--size", "24..56", "--seed", 5)
    run("ingest", folder / "images", folder / "data", "--split", "0.8,0.2")
    run("train", folder / "data", "--model", "lenet", "--epochs", 1, "--batch", 16, "--out", folder / "run")
    paths = sorted((folder / "images").rglob("*.jpg"))[::16]
    classes = sorted(path.name for path in (folder / "images").iterdir())
    lines = run("predict", "--ckpt", folder / "run", "--top", len(classes), "--json", *paths).splitlines()
    expected = np.zeros((len(paths), len(classes)), np.float32)
    for row, line in zip(expected, lines, strict=True):
        for one in json.loads(line)["top"]:
            row[classes.index(one["class"])] = one["probability"]
    images = [path.read_bytes() for path in paths]
    server = subprocess.Popen([DLPIPE, "serve", f"m={folder}/run", "--port", "0", "--max-batch", "8", "--max-delay", "2",
                               "--ready-file", folder / "ready"], stderr=open(folder / "errors", "w"))
    try:
        while not (folder / "ready").exists() and server.poll() is None:
            time.sleep(0.01)
        assert server.poll() is None, (folder / "errors").read_text()
        address = (folder / "ready").read_text().strip().removeprefix("http://")
        with triton.InferenceServerClient(address, concurrency=8) as client:
            ask(client, images, expected, classes)
            flood(client, images, expected)
            errors(client, images)
            repository(client, images, expected)
        server.terminate()
        assert server.wait(60) == 0, (folder / "errors").read_text()
    finally:
        if server.poll() is None:
            server.kill()
    print(f"tritonclient: {FLOOD} requests of {len(images)} images: same bits")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="dlpipe_serve_") as scratch:
        main(pathlib.Path(scratch))
