"""dlpipe.ray on a real Ray of this machine, where it is installed."""

import filecmp
import subprocess
import sys

import pytest

ray = pytest.importorskip("ray")

import dlpipe  # noqa: E402
import dlpipe.ray  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_parts_join_to_the_bytes_of_one_ingest(pictures, tmp_path):
    dlpipe.ingest(pictures, tmp_path / "whole")
    dlpipe.ray.ingest(pictures, tmp_path / "joined", parts=5)
    assert filecmp.cmp(tmp_path / "whole" / "data.mdb", tmp_path / "joined" / "data.mdb", shallow=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["joined", "whole"]


def test_what_a_part_says_is_the_error(tmp_path):
    with pytest.raises(dlpipe.Error, match="nowhere"):
        dlpipe.ray.ingest(tmp_path / "nowhere", tmp_path / "data", parts=2)


def test_options_of_the_program_are_taken(pictures, tmp_path):
    with pytest.raises(dlpipe.Error, match="--jpeg"):
        dlpipe.ray.ingest(pictures, tmp_path / "data", parts=2, options=["--jpeg", "nothing"])


def test_the_command(pictures, tmp_path):
    command = [sys.executable, "-m", "dlpipe.ray", "ingest", pictures, tmp_path / "data", "--parts", "2", "--jpeg", "standard"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(dlpipe.Dataset(tmp_path / "data")) == sum(1 for path in pictures.rglob("*.jpg"))
