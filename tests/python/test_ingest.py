"""dlpipe.ingest has the program's options, and they do what they do there."""

import inspect
import re
import shutil
import struct
import time
import zlib

import dlpipe
import numpy as np
import pytest
from conftest import run_program, side_by_side
from dlpipe.writer import StoringOptions

#: of the program alone, and of the function alone
PROGRAM = {"help", "json", "quiet", "color"}
FUNCTION = {"src", "dst", "progress", "storing"}


def test_the_options_are_the_programs():
    known = set(re.findall(r"^  (?:-\w, )?--([a-z-]+)", run_program("ingest", "--help"), re.MULTILINE))
    assert {"store", "background", "part", "list"} <= known
    mine = {*inspect.signature(dlpipe.ingest).parameters, *StoringOptions.__annotations__} - FUNCTION
    assert mine == {name.replace("-", "_") for name in known - PROGRAM}
    for name in mine:
        assert f" {name}: " in dlpipe.ingest.__doc__, name


def test_transparent_pixels_stand_on_the_background(tmp_path):
    rows = b"".join(b"\0" + bytes([200, 100, 0, 0]) * 8 for _ in range(8))  # 8x8, wholly transparent
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))  # noqa: E731
    head = struct.pack(">IIBBBBB", 8, 8, 8, 6, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    for name in ("a", "b"):
        (tmp_path / "src" / name).mkdir(parents=True)
        (tmp_path / "src" / name / "1.png").write_bytes(png)
    for background, colour in (({}, (200, 100, 0)), ({"background": "#0a141e"}, (10, 20, 30))):
        data = tmp_path / f"data{len(background)}"
        dlpipe.ingest(tmp_path / "src", data, **background)
        for images, _ in dlpipe.Loader(data, batch=2, train=False, as_="numpy"):
            assert np.array_equal(np.unique(images.reshape(-1, 3), axis=0), [colour])
    with pytest.raises(dlpipe.MisuseError, match="background red; use white, black or a colour"):
        dlpipe.ingest(tmp_path / "src", tmp_path / "red", background="red")


def test_a_part_is_stored_alone(images, tmp_path):
    counts = [dlpipe.ingest(images, tmp_path / str(i), part=f"{i}/2")["datasets"][0]["samples"] for i in (1, 2)]
    assert sum(counts) == 400 and min(counts) > 0
    with pytest.raises(dlpipe.MisuseError, match="part"):
        dlpipe.ingest(images, tmp_path / "3", part="3/2")


def test_skipped_files_are_told_by_a_warning_as_the_program_does(images, tmp_path, caplog):
    there = sorted(str(path) for path in (images / "disc").iterdir())
    rows = [f"{path},disc" for path in there] + [f"{tmp_path}/gone/{i}.jpg,ring" for i in range(30)]
    (tmp_path / "list.csv").write_text("\n".join(["path,label", *rows]) + "\n")
    report = dlpipe.ingest(tmp_path / "list.csv", tmp_path / "d")
    assert report["datasets"][0]["samples"] == len(there) and len(report["skipped"]) == 30
    [warning] = [record.message for record in caplog.records if "skipped" in record.message]
    assert warning.startswith("[ingest] 30 files skipped:\n") and f"{tmp_path}/gone/0.jpg: " in warning
    assert warning.endswith(f"all of them: dlpipe inspect --skipped {tmp_path / 'd'}")
    caplog.clear()
    dlpipe.ingest(images, tmp_path / "e", limit=20)
    assert "skipped" not in caplog.text


def test_linked_images_make_the_same_batches(images, tmp_path):
    source = tmp_path / "src"
    for name in ("disc", "ring"):
        shutil.copytree(images / name, source / name)
    ids = [dlpipe.ingest(source, tmp_path / str(i), **store)["datasets"][0]["id"]
           for i, store in enumerate(({"jpeg": "standard"}, {"store": "link"}))]  # fmt: skip
    assert ids[0] == ids[1]
    batches = [list(dlpipe.Loader(tmp_path / str(i), augment="rrc(16) hflip", batch=8, seed=1, as_="numpy")) for i in (0, 1)]
    assert len(batches[0]) == len(batches[1]) == 10
    for stored, linked in zip(*batches):
        assert np.array_equal(stored.image, linked.image) and np.array_equal(stored.label, linked.label)
    corrupt = source / "ring" / "00003.jpg"
    corrupt.write_bytes(corrupt.read_bytes()[:-1] + b"?")
    with pytest.raises(dlpipe.Error, match="the linked file .*ring/00003.jpg changed"):
        list(dlpipe.Loader(tmp_path / "1", augment="rrc(16)", batch=8, on_bad="stop", as_="numpy"))
    report = tmp_path / "bad.txt"
    list(dlpipe.Loader(tmp_path / "1", augment="rrc(16)", batch=8, quarantine=report, as_="numpy"))
    assert "ring/00003.jpg changed" in report.read_text()


def test_a_cache_of_linked_images_changes_no_batch(images, tmp_path):
    dlpipe.ingest(images, tmp_path / "linked", store="link")
    options = {"augment": "rrc(16) hflip", "batch": 8, "seed": 1, "threads": 2, "as_": "numpy"}
    plain = dlpipe.Loader(tmp_path / "linked", **options)
    loader = dlpipe.Loader(tmp_path / "linked", cache=tmp_path / "cache", **options)
    for epoch in range(2):
        for expected, batch in side_by_side(plain, loader):
            assert np.array_equal(expected.image, batch.image) and np.array_equal(expected.label, batch.label)
        end = time.monotonic() + 300  # the cache is written by threads that yield to all others
        while epoch == 0 and loader.stats()["cache"]["records"] < 300 and time.monotonic() < end:
            time.sleep(0.01)
    stats = loader.stats()["cache"]
    assert stats["records"] >= 300 and stats["taken"] >= 250
    assert "came from the coefficient cache, which holds" in loader.doctor()
    with pytest.raises(dlpipe.MisuseError, match="in use by another loader"):
        dlpipe.Loader(tmp_path / "linked", cache=tmp_path / "cache", **options)
    with pytest.raises(dlpipe.MisuseError, match="stores its records"):
        dlpipe.ingest(images, tmp_path / "stored")
        dlpipe.Loader(tmp_path / "stored", cache=tmp_path / "other", **options)
