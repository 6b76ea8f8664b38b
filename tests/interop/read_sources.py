"""Ingests files that each format's own programs wrote, and compares the datasets with what went in.

    read_sources.py DLPIPE      (the program)

Each case (source_*.py) writes files and says what a dataset of them must hold; then its file is cut short, and the ingest must fail
or name what it lost.
"""

import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

import source_archives
import source_objects
import source_images
import source_records
from read_datasets import Dataset

DLPIPE = sys.argv[1]


def ingest(arguments, folder, stdin=None):
    destination = os.path.join(folder, "dst")
    shutil.rmtree(destination, ignore_errors=True)
    shutil.rmtree(destination + ".partial", ignore_errors=True)
    command = [DLPIPE, "ingest", *arguments, destination, "--jpeg", "standard", "--threads", "2"]
    result = subprocess.run(command, stdin=stdin, capture_output=True, text=True, timeout=120)
    return destination, result


def samples_of(directory):
    dataset = Dataset(directory)
    for i in range(dataset.info["samples"]):
        fields = dataset.fields(i)
        label = fields.pop("label")
        path, image = bytes(fields.pop("path")).decode(), bytes(fields.pop("image"))
        name = dataset.info["classes"][label] if label >= 0 else None
        yield path, (name, image, {key: bytes(value) for key, value in fields.items()}), dataset.pixels(i)


def run(case, folder):
    with open(case.stdin, "rb") if case.stdin else open(os.devnull, "rb") as stdin:
        return ingest(case.arguments, folder, stdin)


def check(name, case, destination):
    """What the dataset holds is right, and what it lacks it names: the skipped."""
    found, skipped = set(), set()
    for split in case.splits:
        for path, (label, image, fields), pixels in samples_of(os.path.join(destination, split)):
            key = f"{split}:{path}" if split else path
            expected_label, expected, expected_fields = case.samples[key]
            assert label == expected_label, (name, key, label, expected_label)
            if isinstance(expected, bytes):
                assert image == expected, (name, key)
            else:
                expected = np.broadcast_to(expected.reshape(*pixels.shape[:2], -1), pixels.shape)
                assert np.array_equal(pixels, expected), (name, key)
            assert fields == expected_fields, (name, key, fields, expected_fields)
            found.add(key)
        for path in Dataset(os.path.join(destination, split)).skipped():
            skipped.add(f"{split}:{path.decode()}" if split else path.decode())
    assert found ^ skipped == set(case.samples), (name, set(case.samples) - found, skipped)
    return skipped


def compare(name, case, folder):
    destination, result = run(case, folder)
    assert result.returncode == 0, (name, result.stderr)
    skipped = check(name, case, destination)
    assert not skipped, (name, skipped)
    print(f"{name}: {len(case.samples)} samples: same")


def cut_short(name, case, folder):
    for file in case.damage:
        with open(file, "rb") as stream:
            whole = stream.read()
        for share in (0.98, 0.5, 0.1):
            with open(file, "wb") as stream:
                stream.write(whole[: int(len(whole) * share)])
            destination, result = run(case, folder)
            assert result.returncode in (0, 1), (name, share, result.returncode, result.stderr)
            if result.returncode == 0:
                skipped = check(name, case, destination)
                assert all(key.split(":")[-1] in result.stderr for key in skipped), (name, share, skipped, result.stderr)
            else:
                assert not os.path.exists(destination), (name, share, result.stderr)
        with open(file, "wb") as stream:
            stream.write(whole)


CASES = [
    source_images.case_pillow, source_images.case_json_lines, source_archives.case_python_tar,
    source_archives.case_gnu_tar, source_archives.case_webdataset, source_archives.case_imagenet,
    source_records.case_cifar, source_records.case_tfrecord, source_records.case_caffe_lmdb,
    source_objects.case_coco, source_objects.case_voc, source_objects.case_yolo, source_records.case_numpy,
    source_records.case_beton, source_images.case_background]


def main():
    for make in CASES:
        name = make.__name__.removeprefix("case_")
        with tempfile.TemporaryDirectory() as root:
            os.mkdir(os.path.join(root, "src"))
            for kind, case in make(os.path.join(root, "src")):
                compare(f"{name} {kind}", case, root)
                cut_short(f"{name} {kind}", case, root)


if __name__ == "__main__":
    main()
