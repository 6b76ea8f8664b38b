"""Writes the inputs of targets whose formats other programs write: make_corpus.py FOLDER (tests/fuzz/corpus).

Small files, the same in every run. Needs scripts/requirements-test.txt.
"""

import gzip
import io
import os
import sys
import tarfile

import zstandard


tarfile.RECORDSIZE = 1024  # an end mark, and no tape's block


def tar(format, files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def tars():
    shard = {"0.jpg": b"a", "0.cls": b"1", "1.jpg": b"b", "1.json": b'{"label": 2}', "1.txt": b"t"}
    folders = {"pets/cat/1.jpg": b"a", "pets/dog/" + "d" * 120 + ".jpg": b"b"}
    plain = tar(tarfile.USTAR_FORMAT, shard)
    yield "webdataset", plain
    yield "pax", tar(tarfile.PAX_FORMAT, folders)
    yield "gnu", tar(tarfile.GNU_FORMAT, folders)
    yield "nested", tar(tarfile.USTAR_FORMAT, {"n1.tar": tar(tarfile.USTAR_FORMAT, {"1.jpg": b"a"})})
    yield "gzip", gzip.compress(plain, mtime=0)
    yield "zstd", zstandard.ZstdCompressor().compress(plain)


KINDS = {"tar": tars}


def main():
    for kind, make in KINDS.items():
        folder = os.path.join(sys.argv[1], kind)
        os.makedirs(folder, exist_ok=True)
        for name, data in make():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(data)


if __name__ == "__main__":
    main()
