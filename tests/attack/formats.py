"""The files that other programs write, corrupt: archives, records, arrays, annotations, images, models, parts and links.

A small whole file of each format is made, or taken from the tests' own. Of each, --count mutants are read as a user would
read it, then what no file may be: a pipe, a device, 40 GB of nothing, the first half of itself. A mutant may be refused, may
lose images, and may give other images where its format has no checksum; a dataset that was made of it must be whole."""

import gzip
import io
import json
import os
import pathlib
import shutil
import struct
import tarfile
import tempfile
import zipfile

from attack import Attack
from hostile import HUGE, IMAGES, good_images, judge, mutate, sparse

TESTS = pathlib.Path(__file__).parent.parent
JPEG = (IMAGES / "rgb_444.jpg").read_bytes()
PAGE = 4096


def tar_bytes(files, form=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zstd_bytes(data):
    """A frame of raw blocks (RFC 8878): a window of 2 MB, no checksum."""
    out, most = b"\x28\xb5\x2f\xfd\x00\x58", 100_000
    for at in range(0, len(data), most):
        piece = data[at:at + most]
        out += struct.pack("<I", len(piece) << 3 | (at + most >= len(data)))[:3] + piece
    return out


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number, data):
    """A protocol buffer's field: bytes, or a whole number."""
    if isinstance(data, int):
        return varint(number << 3) + varint(data)
    return varint(number << 3 | 2) + varint(len(data)) + data


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def tfrecord_bytes():
    def entry(key, kind, value):
        return field(1, field(1, key) + field(2, field(kind, field(1, value))))

    out = b""
    for i in range(4):
        example = field(1, entry(b"image/encoded", 1, JPEG) + entry(b"image/class/label", 3, i % 2))
        head = struct.pack("<Q", len(example))
        out += head + masked_crc(head) + example + masked_crc(example)
    return out


def npy_bytes(descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def npz_bytes(method):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("images.npy", npy_bytes("|u1", (6, 5, 4, 3), bytes(range(256)) + bytes(104)))
        archive.writestr("labels.npy", npy_bytes("<i8", (6,), struct.pack("<6q", 0, 1, 2, 0, 1, 2)))
    return out.getvalue()


def caffe_bytes():
    """LMDB as its sources lay it out (mdb.c: MDB_page, MDB_meta): two meta pages, a leaf of Datum records."""
    nodes, offsets, end = b"", [], PAGE
    for i in range(5):
        key = b"%08d" % i
        datum = b"".join(field(n, v) for n, v in ((1, 3), (2, 6), (3, 7), (4, bytes(range(126))), (5, i % 2)))
        node = struct.pack("<HHHH", len(datum), 0, 0, len(key)) + key + datum
        node += bytes(len(node) % 2)
        end -= len(node)
        nodes, offsets = node + nodes, offsets + [end]
    lower = 16 + 2 * len(offsets)
    leaf = struct.pack("<QHHHH", 2, 0, 2, lower, end) + struct.pack(f"<{len(offsets)}H", *offsets)
    leaf += bytes(end - len(leaf)) + nodes

    def meta(number):
        free = struct.pack("<IHHQQQQQ", PAGE, 8, 0, 0, 0, 0, 0, 2**64 - 1)
        main = struct.pack("<IHHQQQQQ", 0, 0, 1, 0, 1, 0, len(offsets), 2)
        return (struct.pack("<QHHHH", number, 0, 8, 0, 0) + struct.pack("<IIQQ", 0xBEEFC0DE, 1, 0, 1 << 20) + free + main
                + struct.pack("<QQ", 2, number)).ljust(PAGE, b"\0")

    return meta(0) + meta(1) + leaf


def coco_bytes():
    image = {"id": 1, "file_name": "a.jpg", "width": 53, "height": 37}
    box = {"id": 5, "image_id": 1, "category_id": 3, "bbox": [1.5, 2, 30, 20], "iscrowd": 0,
           "segmentation": [[1, 2, 30, 2, 30, 20, 1, 20]]}
    crowd = {"id": 6, "image_id": 1, "category_id": 4, "bbox": [0, 0, 9, 9], "iscrowd": 1,
             "segmentation": {"size": [37, 53], "counts": [100, 200, 1661]}}
    return json.dumps({"images": [image, image | {"id": 2, "file_name": "b.jpg"}], "annotations": [box, crowd],
                       "categories": [{"id": 3, "name": "cat"}, {"id": 4, "name": "dog"}]}).encode()


VOC = b"""<annotation><filename>a.jpg</filename><size><width>53</width><height>37</height><depth>3</depth></size>
<object><name>cat</name><difficult>0</difficult><bndbox><xmin>2</xmin><ymin>3</ymin><xmax>30</xmax><ymax>20</ymax></bndbox>
</object></annotation>"""


def beton(name):
    return gzip.decompress((TESTS / "interop/beton" / name).read_bytes())


def sources():
    """Format -> (what SRC is below the folder, the file to damage, all files)."""
    images = {"a.jpg": JPEG, "b.jpg": JPEG}
    samples = {f"{i:03}.{end}": data for i in range(4) for end, data in (("jpg", JPEG), ("cls", b"%d" % (i % 2)))}
    folders = {f"{c}/{i}.jpg": JPEG for c in ("cat", "dog") for i in range(2)}
    return {
        "tar, webdataset": ("a.tar", "a.tar", {"a.tar": tar_bytes(samples)}),
        "tar, GNU": ("a.tar", "a.tar", {"a.tar": tar_bytes({"x" * 150 + "/" + n: d for n, d in folders.items()},
                                                           tarfile.GNU_FORMAT)}),
        "tar.gz": ("a.tar.gz", "a.tar.gz", {"a.tar.gz": gzip.compress(tar_bytes(folders))}),
        "tar.zst": ("a.tar.zst", "a.tar.zst", {"a.tar.zst": zstd_bytes(tar_bytes(folders))}),
        "tfrecord": ("a.tfrecord", "a.tfrecord", {"a.tfrecord": tfrecord_bytes()}),
        "beton, JPEG": ("a.beton", "a.beton", {"a.beton": beton("jpg.beton.gz")}),
        "beton, raw": ("a.beton", "a.beton", {"a.beton": beton("raw.beton.gz")}),
        "npz, stored": ("a.npz", "a.npz", {"a.npz": npz_bytes(zipfile.ZIP_STORED)}),
        "npz, packed": ("a.npz", "a.npz", {"a.npz": npz_bytes(zipfile.ZIP_DEFLATED)}),
        "caffe": ("db", "db/data.mdb", {"db/data.mdb": caffe_bytes()}),
        "coco": ("a.json", "a.json", images | {"a.json": coco_bytes()}),
        "voc": (".", "a.xml", images | {"a.xml": VOC, "b.xml": VOC.replace(b"a.jpg", b"b.jpg")}),
        "yolo": ("data.yaml", "labels/a.txt", {
            "data.yaml": b"train: images\nnames: [cat, dog]\n", "images/a.jpg": JPEG, "images/b.jpg": JPEG,
            "labels/a.txt": b"0 0.5 0.5 0.25 0.5\n1 0.1 0.1 0.9 0.1 0.9 0.9\n", "labels/b.txt": b"1 0.5 0.5 1 1\n"}),
        "yolo, its yaml": ("data.yaml", "data.yaml", {
            "data.yaml": b"path: .\ntrain: images\nval: images\nnc: 2\nnames:\n  0: cat\n  1: dog\n", "images/a.jpg": JPEG,
            "labels/a.txt": b"0 0.5 0.5 0.25 0.5\n"}),
        "csv": ("a.csv", "a.csv", images | {"a.csv": b'path,label,split\n"a.jpg",cat,train\nb.jpg,"d""og",train\n'}),
        "jsonl": ("a.jsonl", "a.jsonl", images | {"a.jsonl": b'{"path": "a.jpg", "label": "cat"}\n{"path":"b.jpg","label":"dog"}\n'}),
    }


def write(folder, files):
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def ingested(attack, out):
    """What becomes of a mutant: nothing, or a whole dataset."""
    def check(outcome):
        if outcome.exit_code != 0:
            return "a dataset in spite of the error" if out.exists() else ""
        listed = attack.run("inspect", "--json", out)
        if listed.exit_code != 0:
            return f"inspect: {listed.err}"
        verified = attack.run("verify", "--decode", out)
        return verified.failure(10_000) or ("verify finds damage: " + verified.err if verified.exit_code else "")
    return check


def attack_source(attack, root, name, count):
    source, victim, files = sources()[name]
    folder, out = root / "src", root / "out"

    def ingest(kind, case, wanted):
        for leftover in root.glob("out*"):
            shutil.rmtree(leftover)
        judge(attack, kind, case, attack.run("ingest", folder / source, out, "--jobs", 1), ingested(attack, out) if wanted is None else wanted,
              folder if wanted is None else None)

    write(folder, files)
    ingest(name, "whole", 0)
    if not out.exists():
        return
    for i in range(count):
        (folder / victim).write_bytes(mutate(attack.random, files[victim]))
        ingest(name, f"mutant {i}", None)
    (folder / victim).write_bytes(files[victim][:len(files[victim]) // 2])
    ingest(name, "half", None)
    for case, make in (("empty", lambda p: p.write_bytes(b"")), ("a pipe", os.mkfifo), ("a folder", os.mkdir),
                       ("a device", lambda p: os.symlink("/dev/zero", p)), ("a link to itself", lambda p: os.symlink(p, p)),
                       ("40 GB of nothing", sparse),
                       ("40 GB behind it", lambda p: sparse(p, files[victim]))):
        if (folder / victim).is_dir() and not (folder / victim).is_symlink():
            (folder / victim).rmdir()
        else:
            (folder / victim).unlink()
        make(folder / victim)
        for leftover in root.glob("out*"):
            shutil.rmtree(leftover)
        outcome = attack.run("ingest", folder / source, out, "--jobs", 1)
        judge(attack, "no file of its format", f"{name}: {case}", outcome, ingested(attack, out))


def attack_images(attack, root, count):
    """WebP, BMP and PNM: what ingest takes, predict takes, whatever --jobs."""
    originals = sorted(p for p in IMAGES.iterdir() if p.suffix in (".webp", ".bmp", ".ppm", ".pgm", ".pbm"))
    folder = root / "images"
    write(folder, {"a/good.jpg": JPEG})
    for i in range(count * len(originals)):
        original = originals[i % len(originals)]
        (folder / "a" / f"{i:05}{original.suffix}").write_bytes(mutate(attack.random, original.read_bytes()))
    paths = sorted((folder / "a").iterdir())
    files = []
    for jobs in (1, 3):
        out = root / f"images.{jobs}"
        outcome = attack.run("ingest", folder, out, "--jobs", jobs)
        judge(attack, "webp, bmp, pnm", f"{len(paths)} files, --jobs {jobs}", outcome, ingested(attack, out), folder)
        files.append((out / "data.mdb").read_bytes() if (out / "data.mdb").exists() else b"")
    if files[0] != files[1] or not files[0]:
        attack.fail("webp, bmp, pnm", "ingest", "--jobs changes data.mdb", folder)
        return
    samples = json.loads(attack.must("inspect", "--json", root / "images.1").out)["samples"]

    def predicted(outcome):
        usable = sum("class" in json.loads(line) for line in outcome.out.splitlines())
        return "" if samples <= usable <= len(paths) else f"{usable} files predicted, {samples} ingested"

    judge(attack, "webp, bmp, pnm", "predict", attack.run("predict", "--json", "--ckpt", root / "run", *paths), predicted, folder)
    attack.cases += len(paths)


def attack_models(attack, root, good, count):
    """Compiled models and ONNX files."""
    dlg, onnx = root / "model.dlg", root / "model.onnx"
    attack.must("compile", "--ckpt", root / "run", "--out", dlg)
    attack.must("compile", "--ckpt", root / "run", "--out", onnx)
    image = next(iter(sorted((good / "ring").iterdir())))
    whole = {path: path.read_bytes() for path in (dlg, onnx)}
    answer = attack.must("predict", "--json", "--ckpt", dlg, image).out
    for path, data in whole.items():
        kind = path.suffix
        commands = {"info": ("info", path), "predict": ("predict", "--json", "--ckpt", path, image)}
        if path == onnx:
            commands["predict"] = ("compile", path, "--out", root / "again.dlg")

        def tried(case, keep):
            for name, command in commands.items():
                outcome = attack.run(*command)
                wrong = path == dlg and name == "predict" and outcome.exit_code == 0 and outcome.out != answer
                judge(attack, kind, f"{case}: {name}", outcome,
                      lambda o, wrong=wrong: "another answer without a word" if wrong else "", path if keep else None)

        for i in range(count):
            path.write_bytes(mutate(attack.random, data))
            tried(f"mutant {i}", True)
        for case, make in (("empty", lambda p: p.write_bytes(b"")), ("half", lambda p: p.write_bytes(data[:len(data) // 2])),
                           ("a pipe", os.mkfifo), ("40 GB of nothing", sparse), ("40 GB behind it", lambda p: sparse(p, data)),
                           ("a device", lambda p: os.symlink("/dev/zero", p))):
            path.unlink()
            make(path)
            tried(case, False)
        path.unlink()
        path.write_bytes(data)
    # Parts of a model that take two bytes each in the file.
    attribute = field(1, field(5, b"") * 20_000_000)
    for case, graph in (("nodes", field(1, b"") * 20_000_000), ("names", field(1, field(1, b"") * 20_000_000)),
                        ("attributes", attribute), ("values", field(11, b"") * 20_000_000),
                        ("weights", field(5, field(2, 1) + field(1, 0)) * 8_000_000)):
        onnx.write_bytes(field(1, 8) + field(7, graph))
        judge(attack, ".onnx", f"empty {case} of 40 MB", attack.run("compile", onnx, "--out", root / "again.dlg"),
              "without weights, need more than")
    onnx.write_bytes(field(1, 8) + field(7, field(99, 0) * 15_000_000))
    judge(attack, ".onnx", "fields of 45 MB that mean nothing", attack.run("compile", onnx, "--out", root / "again.dlg"),
          "opset 1;")
    # More weights beside a model than there is memory: by a file with holes, and by tensors that all name the same bytes.
    for case, tensors, size in (("40 GB beside it", 1, HUGE), ("1 GB beside it, 100 times", 100, 1 << 30)):
        beside = field(13, field(1, b"location") + field(2, b"w.bin"))
        tensor = field(1, size // 4) + field(2, 1) + field(8, b"w") + beside + field(14, 1)
        onnx.write_bytes(field(1, 8) + field(7, field(5, tensor) * tensors))
        sparse(root / "w.bin", size=size)
        judge(attack, ".onnx", case, attack.run("compile", onnx, "--out", root / "again.dlg"), "external weights need")
    sparse(root / "array.npy", npy_bytes("<f4", (HUGE // 4,), b""))
    outcome = attack.run("run", dlg, "--input", root / "array.npy", "--out", root / "o.npy")
    judge(attack, ".npy", "40 GB", outcome, lambda o: "" if o.exit_code else "accepted")


def attack_parts(attack, root, good, count):
    """Parts of an ingest, one of them corrupt: join refuses, or gives the bytes that one ingest gives."""
    attack.must("ingest", good, root / "one.d")
    whole = (root / "one.d" / "data.mdb").read_bytes()
    parts = [root / "parts" / str(i) for i in (1, 2)]
    for i, part in enumerate(parts):
        attack.must("ingest", good, part, "--part", f"{i + 1}/2")
    out = root / "joined"

    def joined(outcome):
        if outcome.exit_code != 0:
            return "a dataset in spite of the error" if out.exists() else ""
        return "" if (out / "data.mdb").read_bytes() == whole else "another dataset without a word"

    files = [path for part in parts for path in sorted(part.iterdir()) if path.is_file()]
    for i in range(count * 3):
        for leftover in root.glob("joined*"):
            shutil.rmtree(leftover)
        path = attack.random.choice(files)
        kept = path.read_bytes()
        path.write_bytes(mutate(attack.random, kept))
        judge(attack, "join", f"mutant {i} of {path.name}", attack.run("join", out, *parts), joined, parts[0].parent)
        path.write_bytes(kept)
    for leftover in root.glob("joined*"):
        shutil.rmtree(leftover)
    judge(attack, "join", "whole", attack.run("join", out, *parts), lambda o: joined(o) or ("failed" if o.exit_code else ""))


def attack_links(attack, root, good, count):
    """Images that a dataset links to, changed behind its back: verify names them, training goes on without them."""
    images = root / "linked"
    shutil.copytree(good, images)
    attack.must("ingest", images, root / "links.d", "--store", "link")
    paths = sorted(p for p in images.rglob("*") if p.is_file())
    changes = {"flipped": lambda p, data: p.write_bytes(mutate(attack.random, data)), "gone": lambda p, data: p.unlink(),
               "a pipe": lambda p, data: (p.unlink(), os.mkfifo(p)), "a folder": lambda p, data: (p.unlink(), p.mkdir()),
               "a device": lambda p, data: (p.unlink(), p.symlink_to("/dev/zero")),
               "40 GB": lambda p, data: sparse(p, data)}
    for name, change in changes.items():
        for i in range(count if name == "flipped" else 1):
            path = attack.random.choice(paths)
            data = path.read_bytes()
            change(path, data)
            changed = name != "flipped" or path.read_bytes() != data
            verified = attack.run("verify", root / "links.d")
            judge(attack, "links", f"{name}, verify", verified,
                  lambda o: "" if (o.exit_code != 0) == changed else f"exit code {o.exit_code}")
            trained = attack.run("train", "--model", "mlp", "--data", root / "links.d", "--augment", "resize(16x16)",
                                 "--epochs", 1, "--batch", 8, "--out", root / "links.run")
            judge(attack, "links", f"{name}, train", trained, 0)
            shutil.rmtree(root / "links.run", ignore_errors=True)
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            elif os.path.lexists(path):
                path.unlink()
            path.write_bytes(data)


def main():
    attack = Attack(__doc__.splitlines()[0])
    count = attack.options.count
    with tempfile.TemporaryDirectory(prefix="dlpipe_formats_") as name:
        root = pathlib.Path(name)
        good = good_images(attack, root)
        for source in sources():
            attack_source(attack, root, source, count)
        attack_images(attack, root, count)
        attack_models(attack, root, good, count)
        attack_parts(attack, root, good, count)
        attack_links(attack, root, good, count)
    attack.finish()


if __name__ == "__main__":
    main()
