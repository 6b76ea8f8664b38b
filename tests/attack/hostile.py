"""Files made to hurt: corrupt and truncated images, headers that claim more than there is, bombs, pipes, files
without end. Each costs its own file, within bounded memory and time; the files beside it come through.

Deterministic cases first, then --count mutants of the codec's test images, which also must give the same dataset
whatever --jobs, decode under `verify --decode` and get the same answer from `predict`."""

import gzip
import io
import json
import os
import pathlib
import shutil
import struct
import tempfile
import zlib

from attack import MOST_MEMORY_MB, Attack

IMAGES = pathlib.Path(__file__).parent.parent / "io/data/codec/images"
HUGE = 40 << 30


def png(width, height, depth=8, color=2, body=b""):
    def chunk(tag, data):
        return struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(tag + data))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(body)) + chunk(b"IEND", b""))


def sized_jpeg(data, width, height):
    """The same JPEG with another size in its frame header."""
    data = bytearray(data)
    at = 2
    while data[at + 1] not in (0xC0, 0xC1, 0xC2):
        at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    struct.pack_into(">HH", data, at + 5, height, width)
    return bytes(data)


def without(data, marker):
    """A JPEG without its segments of `marker`."""
    out, at = bytearray(data[:2]), 2
    while data[at + 1] != 0xDA:
        length = 2 + struct.unpack_from(">H", data, at + 2)[0]
        if data[at + 1] != marker:
            out += data[at:at + length]
        at += length
    return bytes(out + data[at:])


def sparse(path, head=b"", size=HUGE):
    path.write_bytes(head)
    os.truncate(path, size)


def bad_images():
    """Name -> bytes, none of which is an image."""
    jpeg = (IMAGES / "rgb_420.jpg").read_bytes()
    progressive = (IMAGES / "progressive_420.jpg").read_bytes()
    good_png = (IMAGES / "rgb.png").read_bytes()
    images = {
        "empty.jpg": b"", "zeros.png": bytes(5000), "text.jpg": b"no image\n" * 100, "soi.jpg": b"\xff\xd8\xff",
        "cut.jpg": jpeg[:len(jpeg) // 2], "cut_header.jpg": jpeg[:30], "cut.png": good_png[:len(good_png) // 2],
        "no_dqt.jpg": without(jpeg, 0xDB), "no_frame.jpg": without(jpeg, 0xC0),
        "huge.jpg": sized_jpeg(jpeg, 65500, 65500), "wide.jpg": sized_jpeg(jpeg, 65535, 37),
        "huge_progressive.jpg": sized_jpeg(progressive, 65500, 65500), "zero.jpg": sized_jpeg(jpeg, 53, 0),
        "huge_long.jpg": sized_jpeg(jpeg, 65500, 65500) + bytes(1 << 20),
        "below_limit.jpg": sized_jpeg(jpeg, 13370, 13370), "below_limit.png": png(13370, 13370),
        "huge.png": png(60000, 60000), "most.png": png(0x7FFFFFFF, 0x7FFFFFFF), "zero.png": png(0, 5),
        "bits.png": png(50, 50, depth=200), "interlaced_bomb.png": png(13000, 13000, body=bytes(200_000)),
        "bomb.png": png(60000, 60000, body=bytes(30_000_000)),
        "raw.jpg": b"DLPRAW1\n" + struct.pack("<III", 0x7FFFFFFF, 0x7FFFFFFF, 3) + bytes(100),
        "coefficients.jpg": b"dlc1" + struct.pack("<HHBBBBIII", 65500, 65500, 1, 3, 1, 8, 0, 0, 1) + bytes(4000),
    }
    return images


def write_special(folder):
    """What is no regular file, or has no end. Answers the names that ingest leaves aside."""
    os.mkfifo(folder / "pipe.jpg")
    os.symlink("/dev/zero", folder / "zero_device.jpg")
    sparse(folder / "sparse.jpg")
    sparse(folder / "sparse_jpeg.jpg", (IMAGES / "rgb_420.jpg").read_bytes())
    sparse(folder / "sparse.png", (IMAGES / "rgb.png").read_bytes()[:200])
    return {"pipe.jpg", "zero_device.jpg"}


def good_images(attack, root):
    attack.must("synth", root / "good", "--per-class", 3, "--size", "40..60")
    attack.must("ingest", root / "good", root / "good.d")
    attack.must("train", "--model", "mlp", "--data", root / "good.d", "--augment", "resize(16x16)", "--epochs", 1, "--batch",
                8, "--out", root / "run")
    return root / "good"


def judge(attack, kind, case, outcome, wanted, path=None, most_mb=MOST_MEMORY_MB):
    """`wanted`: an exit code, or a text that stderr must have, or a function that answers why not."""
    why = outcome.failure(most_mb)
    if not why and isinstance(wanted, int) and outcome.exit_code != wanted:
        why = f"exit code {outcome.exit_code}, not {wanted}: {outcome.err.strip()[-300:]}"
    if not why and isinstance(wanted, str) and (outcome.exit_code == 0 or wanted not in outcome.err):
        why = f"exit code {outcome.exit_code}, '{wanted}' isn't in: {outcome.err.strip()[-300:]}"
    if not why and callable(wanted):
        why = wanted(outcome)
    if why:
        attack.fail(kind, case, why, path)
    else:
        attack.count(kind, "survived")


def attack_images(attack, root, good):
    source = root / "mixed"
    shutil.copytree(good, source)
    bad = bad_images()
    for name, data in bad.items():
        (source / "ring" / name).write_bytes(data)
    # As frames of Motion JPEG are: the standard Huffman tables aren't in them.
    (source / "ring" / "bare.jpg").write_bytes(without((IMAGES / "rgb_420.jpg").read_bytes(), 0xC4))
    aside = write_special(source / "ring")
    bad_names = set(bad) | {"sparse.jpg", "sparse_jpeg.jpg", "sparse.png"} | aside
    goods = {p.name for p in (good / "ring").iterdir()} | {"bare.jpg"}

    def predicted(outcome):
        lines = {pathlib.Path(line["path"]).name: line for line in map(json.loads, outcome.out.splitlines())}
        for name in bad_names:
            if "error" not in lines.get(name, {}):
                return f"{name} got no error: {lines.get(name)}"
        missing = [name for name in goods if "class" not in lines.get(name, {})]
        return f"good files without a class: {missing}" if missing else ""

    ring = sorted(p for p in (source / "ring").iterdir())
    for threads in (1, 3):
        outcome = attack.run("predict", "--json", "--ckpt", root / "run", "--threads", threads, *ring)
        judge(attack, "predict", f"{len(ring)} files, {threads} threads", outcome, predicted)
    for path in ring:
        if path.name in bad_names:
            outcome = attack.run("predict", "--json", "--ckpt", root / "run", path)
            judge(attack, "predict, one file", path.name, outcome, 1, path if path.is_file() and path.stat().st_size < 1 << 20 else None)

    def ingested(directory):
        def check(outcome):
            if outcome.exit_code != 0:
                return f"exit code {outcome.exit_code}: {outcome.err.strip()[-300:]}"
            info = json.loads(attack.must("inspect", "--json", directory).out)
            wanted = sum(len(list(c.iterdir())) for c in good.iterdir()) + 1
            if info["samples"] != wanted:
                return f"{info['samples']} samples, not {wanted}"
            return "" if attack.run("verify", "--decode", directory).exit_code == 0 else "verify finds damage"
        return check

    files = []
    for jobs in (1, 3):
        for layout in ("auto", "standard", "restart"):
            directory = root / f"mixed.{jobs}.{layout}"
            outcome = attack.run("ingest", source, directory, "--jobs", jobs, "--jpeg", layout)
            judge(attack, "ingest", f"--jobs {jobs} --jpeg {layout}", outcome, ingested(directory))
            if (directory / "data.mdb").exists():
                files.append((layout, (directory / "data.mdb").read_bytes()))
    for layout in ("auto", "standard", "restart"):
        if len({data for name, data in files if name == layout}) > 1:
            attack.fail("ingest", f"--jpeg {layout}", "--jobs changes data.mdb")
    outcome = attack.run("ingest", source, root / "raw", "--store", "raw")
    judge(attack, "ingest", "--store raw", outcome, ingested(root / "raw"))


def idx(dims, items=b""):
    return b"\0\0\x08" + bytes([len(dims)]) + b"".join(struct.pack(">I", d) for d in dims) + items


def attack_sources(attack, root):
    """Files that are a source by themselves."""
    def case(name, wanted, files, source=None, *options):
        folder = root / "source"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for file, content in files.items():
            if callable(content):
                content(folder / file)
            else:
                (folder / file).write_bytes(content)
        shutil.rmtree(root / "out", ignore_errors=True)
        shutil.rmtree(root / "out.partial", ignore_errors=True)
        outcome = attack.run("ingest", folder / source if source else folder, root / "out", *options)
        judge(attack, "sources", name, outcome, wanted)

    labels = idx([5], bytes(5))
    images, names = "x-images-idx3-ubyte", "x-labels-idx1-ubyte"
    case("idx, good", 0, {images: idx([5, 3, 4], bytes(60)), names: labels})
    case("idx, claims 16 TB", "header", {images: idx([0xFFFF, 0xFFFF, 0xFFFF]), names: labels})
    case("idx, claims 1e28 bytes", "invalid size", {images: idx([0xFFFFFFFF] * 3), names: labels})
    case("idx, more labels than images", "labels", {images: idx([4, 3, 4], bytes(48)), names: labels})
    case("idx, sparse", 1, {images: lambda p: sparse(p, idx([1 << 20, 200, 204])), names: labels})
    bomb = gzip.compress(idx([60000, 160, 160], bytes(1500 << 20)), 9)
    case("idx.gz, 1.5 GB of zeros, 5 labels", "labels", {images + ".gz": bomb, names: labels})
    case("idx.gz, a stream shorter than it claims", "less than",
         {images + ".gz": gzip.compress(idx([60000, 50, 50], bytes(100_000_000)), 9) + bytes(1_300_000),
          names: idx([60000], bytes(60000))})
    case("idx.gz, claims 1,000 times its bytes", "more than 128 times",
         {images + ".gz": gzip.compress(idx([60000, 160, 160], bytes(200_000_000)), 9) + bytes(1_300_000),
          names: idx([60000], bytes(60000))})
    case("idx.gz, cut", 1, {images + ".gz": gzip.compress(idx([5, 3, 4], bytes(60)))[:-20], names: labels})
    case("idx, a pipe", 1, {images: os.mkfifo, names: labels})
    case("text, sparse", 1, {"a.txt": sparse}, "a.txt")
    case("text, a pipe", "not a regular file", {"a.txt": os.mkfifo}, "a.txt")
    case("text, empty", 2, {"a.txt": b""}, "a.txt")
    case("text, bytes", 0, {"a.txt": bytes(range(256)) * 40}, "a.txt", "--length", 16)
    case("manifest, a pipe", "a.csv", {"a.csv": os.mkfifo}, "a.csv")
    case("manifest, sparse", 1, {"a.csv": sparse}, "a.csv")
    case("manifest, no newline in 10 MB", 1, {"a.csv": b"x" * 10_000_000}, "a.csv")
    case("manifest, zeros", 1, {"a.csv": bytes(10_000)}, "a.csv")


def safetensors(header, data=b"", claimed=None):
    return struct.pack("<Q", len(header) if claimed is None else claimed) + header + data


def attack_models(attack, root):
    """Weights, checkpoints and configs."""
    def case(name, wanted, content):
        path = root / "weights.safetensors"
        if os.path.lexists(path):
            os.remove(path)
        content(path) if callable(content) else path.write_bytes(content)
        outcome = attack.run("train", "--model", "mlp", "--data", root / "good.d", "--augment", "resize(16x16)", "--epochs",
                             1, "--batch", 8, "--init", path, "--out", root / "run.init")
        judge(attack, "weights", name, outcome, wanted)

    case("empty", 1, b"")
    case("a header of 2^63 bytes", "header", safetensors(b"{}", claimed=1 << 63))
    case("a header of 90 MB that isn't there", "header", safetensors(b"{}", claimed=90_000_000))
    case("a sparse header of 90 MB", 1, lambda p: sparse(p, struct.pack("<Q", 90_000_000)))
    case("a header of 90 MB of numbers", 1, safetensors(b"[" + b"1," * 45_000_000 + b"1]"))
    case("a header of 90 MB of brackets", 1, safetensors(b"[" * 90_000_000))
    case("a header of 90 MB of members", 1,
         safetensors(b"{" + b",".join(b'"%d":{}' % i for i in range(6_000_000)) + b"}"))
    case("a tensor of 2^60 values", 1, safetensors(
        b'{"w":{"dtype":"F32","shape":[1152921504606846976],"data_offsets":[0,4611686018427387904]}}', bytes(64)))
    case("a pipe", "weights.safetensors", os.mkfifo)
    case("a device", "weights.safetensors", lambda p: os.symlink("/dev/zero", p))
    for name, make, wanted in (("a pipe", os.mkfifo, "not a regular file"), ("sparse", sparse, 2)):
        path = root / f"config_{name.replace(' ', '_')}.toml"
        make(path)
        outcome = attack.run("train", "--config", path)
        judge(attack, "config", name, outcome, wanted if isinstance(wanted, str) else (lambda o: "" if o.exit_code else "accepted"))
    for name, make in (("a pipe", os.mkfifo), ("sparse", sparse), ("empty", lambda p: p.write_bytes(b""))):
        folder = root / f"data_{name.replace(' ', '_')}"
        folder.mkdir()
        make(folder / "data.mdb")
        for command in ("inspect", "verify"):
            judge(attack, "data.mdb", f"{name}, {command}", attack.run(command, folder), 1)


def mutate(random, data):
    data = bytearray(data)
    for _ in range(random.randrange(1, 5)):
        if not data:
            break
        at, length = random.randrange(len(data)), random.randrange(1, 33)
        kind = random.randrange(6)
        if kind == 0:
            del data[at:]
        elif kind == 1:
            data[at] ^= 1 << random.randrange(8)
        elif kind == 2:
            data[at:at + length] = random.randbytes(length)
        elif kind == 3:
            data[at:at + length] = bytes([random.choice((0, 255, 127, 128))]) * length
        elif kind == 4:
            data[at:at] = data[at:at + length]
        else:
            del data[at:at + length]
    return bytes(data)


def attack_mutants(attack, root, count):
    """Rounds of mutants in one folder: the same dataset whatever --jobs, and predict takes what ingest takes."""
    originals = sorted(p for p in IMAGES.iterdir() if p.suffix in (".jpg", ".png"))
    a_round = 100
    for begin in range(0, count, a_round):
        source = root / "mutants"
        shutil.rmtree(source, ignore_errors=True)
        (source / "a").mkdir(parents=True)
        shutil.copy(IMAGES / "rgb_444.jpg", source / "a" / "good.jpg")
        for i in range(begin, min(begin + a_round, count)):
            original = attack.random.choice(originals)
            (source / "a" / f"{i:06}{original.suffix}").write_bytes(mutate(attack.random, original.read_bytes()))
        files = []
        for jobs in (1, 3):
            directory = root / f"mutants.{jobs}"
            shutil.rmtree(directory, ignore_errors=True)
            judge(attack, "mutants", f"round {begin}, --jobs {jobs}",
                  attack.run("ingest", source, directory, "--jobs", jobs), 0, source)
            files.append((directory / "data.mdb").read_bytes() if (directory / "data.mdb").exists() else b"")
        if files[0] != files[1]:
            attack.fail("mutants", f"round {begin}", "--jobs changes data.mdb", source)
        judge(attack, "mutants", f"round {begin}, verify", attack.run("verify", "--decode", root / "mutants.1"), 0, source)
        samples = json.loads(attack.must("inspect", "--json", root / "mutants.1").out)["samples"]
        paths = sorted((source / "a").iterdir())

        def predicted(outcome):
            usable = sum("class" in json.loads(line) for line in outcome.out.splitlines())
            # predict decodes the part of an image that its chain asks for, ingest all of it.
            return "" if samples <= usable <= len(paths) else f"{usable} files predicted, {samples} ingested"

        judge(attack, "mutants", f"round {begin}, predict",
              attack.run("predict", "--json", "--ckpt", root / "run", *paths), predicted, source)
        attack.cases += len(paths) - 5


def main():
    attack = Attack(__doc__.splitlines()[0])
    with tempfile.TemporaryDirectory(prefix="dlpipe_hostile_") as name:
        root = pathlib.Path(name)
        good = good_images(attack, root)
        attack_images(attack, root, good)
        attack_sources(attack, root)
        attack_models(attack, root)
        attack_mutants(attack, root, attack.options.count)
    attack.finish()


if __name__ == "__main__":
    main()
