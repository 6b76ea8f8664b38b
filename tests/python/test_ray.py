"""dlpipe.ray on a real Ray of this machine, where it is installed."""

import filecmp
import functools
import http.server
import subprocess
import sys
import tarfile
import threading

import pytest

ray = pytest.importorskip("ray")

import dlpipe  # noqa: E402
import dlpipe.ray  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_parts_join_to_the_bytes_of_one_ingest(images, tmp_path):
    dlpipe.ingest(images, tmp_path / "whole")
    dlpipe.ray.ingest(images, tmp_path / "joined", parts=5)
    assert filecmp.cmp(tmp_path / "whole" / "data.mdb", tmp_path / "joined" / "data.mdb", shallow=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["joined", "whole"]


def test_archives_of_a_server_are_sources(images, tmp_path):
    with tarfile.open(tmp_path / "images.tar", "w") as tar:
        tar.add(images, ".")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        dlpipe.ray.ingest(f"http://127.0.0.1:{server.server_port}/images.tar", tmp_path / "joined", parts=2)
    finally:
        server.shutdown()
    assert len(dlpipe.Dataset(tmp_path / "joined")) == 400


def test_what_a_part_says_is_the_error(tmp_path):
    with pytest.raises(dlpipe.Error, match="nowhere"):
        dlpipe.ray.ingest(tmp_path / "nowhere", tmp_path / "data", parts=2)


def test_options_of_the_program_are_taken(images, tmp_path):
    with pytest.raises(dlpipe.Error, match="--jpeg"):
        dlpipe.ray.ingest(images, tmp_path / "data", parts=2, options=["--jpeg", "nothing"])


# A task runs in a folder of Ray's.
def test_paths_among_the_options_are_found_from_any_folder(images, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = sorted(path.relative_to(images).as_posix() for path in images.rglob("*.jpg"))[:10]
    (tmp_path / "list.csv").write_text("path,label\n" + "".join(f"{name},{i % 2}\n" for i, name in enumerate(names)))
    dlpipe.ray.ingest(images, "data", parts=2, options=["--manifest", "list.csv"])
    assert len(dlpipe.Dataset(tmp_path / "data")) == 10
    (tmp_path / "classes.txt").write_text("1\n0\n")
    dlpipe.ray.ingest(images, "same", parts=2, options=["--manifest=list.csv", "--classes-from=classes.txt"])
    assert dlpipe.Dataset(tmp_path / "same").classes == ["1", "0"]


def test_the_command(images, tmp_path):
    command = [sys.executable, "-m", "dlpipe.ray", "ingest", images, tmp_path / "data", "--parts", "2", "--jpeg", "standard"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(dlpipe.Dataset(tmp_path / "data")) == sum(1 for path in images.rglob("*.jpg"))
