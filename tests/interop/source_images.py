"""Images in folders: each format and each kind of alpha, and lists with fields."""

import json
import os

import numpy as np
from PIL import Image

from source_case import Case, make_image


def case_pillow(folder):
    """Each kind of image that is read, written by Pillow, under a name that says another."""
    kinds = [("JPEG", "RGB"), ("PNG", "RGB"), ("PNG", "L"), ("WEBP", "RGB"), ("BMP", "RGB"), ("BMP", "L"), ("PPM", "RGB"),
             ("PPM", "L")]
    samples = {}
    for number, (format, mode) in enumerate(kinds):
        name, data = f"c{number % 2}/{number}.jpg", make_image(number, format, mode)
        os.makedirs(os.path.join(folder, os.path.dirname(name)), exist_ok=True)
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)
        samples[name] = (f"c{number % 2}", data, {})
    yield "formats", Case([folder], samples, [os.path.join(folder, f"c{n % 2}/{n}.jpg") for n in range(len(kinds))])


def case_json_lines(folder):
    """A list as the json module writes it, with boxes, labels and numbers."""
    rng, samples, lines = np.random.default_rng(5), {}, []
    names = ["bird", "cat", "dog"]
    for i in range(12):
        with open(os.path.join(folder, f"{i}.png"), "wb") as file:
            file.write(make_image(i, "PNG"))
        boxes = np.sort(rng.uniform(0, 16, (i % 3, 2, 2)), 1).reshape(-1, 4).astype(np.float32)
        tags = [int(t) for t in rng.permutation(3)[: i % 4]]
        lines.append({"path": f"{i}.png", "label": names[i % 3], "tags": [names[t] for t in tags], "age": i / 8,
                      "boxes": boxes.tolist(), "note": f"\u00fc {i}"})
        samples[f"{i}.png"] = (names[i % 3], make_image(i, "PNG"), {
            "tags": np.array(tags, "<i8").tobytes(), "age": np.float32(i / 8).tobytes(), "boxes": boxes.tobytes(),
            "note": f"\u00fc {i}".encode()})
    path = os.path.join(folder, "list.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines))
    fields = ["--field", "tags:labels", "--field", "age:number", "--field", "boxes:boxes"]
    yield "fields", Case([path, *fields], samples)


def case_background(folder):
    """Images with alpha of each kind, on a background, as Pillow pastes them."""
    rng, samples = np.random.default_rng(12), {}
    rgba = Image.fromarray(rng.integers(0, 256, (16, 20, 4), np.uint8), "RGBA")
    palette = Image.fromarray(rng.integers(0, 8, (16, 20), np.uint8), "P")
    palette.putpalette(rng.integers(0, 256, 24, np.uint8).tobytes())
    palette.info["transparency"] = bytes(rng.integers(0, 256, 8, np.uint8).tolist())
    grey = Image.fromarray(rng.integers(0, 256, (16, 20, 2), np.uint8), "LA")
    kinds = [("rgba.png", rgba, {}), ("palette.png", palette, {"transparency": palette.info["transparency"]}),
             ("grey.png", grey, {}), ("rgba.webp", rgba, {"lossless": True, "exact": True})]
    for colour, name in (((255, 204, 0), "#ffCC00"), ((255, 255, 255), "white")):
        samples = {}
        for file, image, options in kinds:
            path = os.path.join(folder, "c", file)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            image.save(path, **options)
            stored = Image.open(path).convert("RGBA")
            expected = Image.new("RGB", stored.size, colour)
            expected.paste(stored, mask=stored.getchannel("A"))
            samples["c/" + file] = ("c", np.asarray(expected), {})
        os.makedirs(os.path.join(folder, "d"), exist_ok=True)
        with open(os.path.join(folder, "d", "plain.png"), "wb") as file:
            file.write(make_image(1, "PNG"))
        samples["d/plain.png"] = ("d", make_image(1, "PNG"), {})
        yield name, Case([folder, "--background", name], samples)
