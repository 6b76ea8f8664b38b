"""Archives, as the programs that write them do: tar of each kind, WebDataset, ImageNet as published."""

import gzip
import io
import os
import subprocess
import tarfile

import zstandard

from source_case import Case, make_image


def write_tar(path, files, format, mode="w"):
    with tarfile.open(path, mode, format=format) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def class_files(prefix=""):
    long = "d" * 90 + "/" + "e" * 120
    return {
        prefix + "cat/1.jpg": make_image(1),
        prefix + "cat/2.png": make_image(2, "PNG"),
        prefix + f"dog/{long}.jpg": make_image(3),
        prefix + "dog/\u00fcber.jpg": make_image(4),
    }


def by_class(files, strip=""):
    return {name[len(strip):]: (name[len(strip):].split("/")[0], data, {}) for name, data in files.items()}


def case_python_tar(folder):
    """Python's tarfile: pax and GNU."""
    for name, format in (("pax", tarfile.PAX_FORMAT), ("gnu", tarfile.GNU_FORMAT)):
        path = os.path.join(folder, name + ".tar")
        write_tar(path, class_files("pets/"), format)
        yield name, Case([path], by_class(class_files("pets/"), "pets/"), [path])


def case_gnu_tar(folder):
    """GNU tar, in each of its formats; and what a pipe gives."""
    source = os.path.join(folder, "files")
    for name, data in class_files().items():
        os.makedirs(os.path.dirname(os.path.join(source, name)), exist_ok=True)
        with open(os.path.join(source, name), "wb") as file:
            file.write(data)
    for format in ("gnu", "pax", "posix", "oldgnu"):
        path = os.path.join(folder, format + ".tar")
        subprocess.run(["tar", f"--format={format}", "-C", source, "-cf", path, "."], check=True)
        yield format, Case([path], by_class(class_files()), [path])
    packed = os.path.join(folder, "packed.tar.gz")
    subprocess.run(["tar", "-C", source, "-czf", packed, "cat", "dog"], check=True)
    yield "tgz", Case([packed], by_class(class_files()), [packed])
    yield "stdin", Case(["-"], by_class(class_files()), [packed], stdin=packed)


def case_webdataset(folder):
    """WebDataset's own ShardWriter; shards by braces, one of them packed by gzip, one by zstd."""
    import webdataset

    samples, shards = {}, []
    with webdataset.ShardWriter(os.path.join(folder, "s-%04d.tar"), maxcount=5, verbose=0) as writer:
        for i in range(20):
            data, info = make_image(i), {"label": i % 4, "n": i}
            writer.write({"__key__": f"k{i:05d}", "jpg": data, "cls": i % 3, "json": info, "txt": f"number {i}"})
            ending = {2: ".gz", 3: ".zst"}.get(i // 5, "")
            shards.append(f"s-{i // 5:04d}.tar{ending}")
            samples[f"{shards[-1]}/k{i:05d}.jpg"] = (
                str(i % 3), data, {"txt": f"number {i}".encode(), "json": None})
    for number, pack in ((2, lambda b: gzip.compress(b)), (3, lambda b: zstandard.ZstdCompressor().compress(b))):
        plain = os.path.join(folder, f"s-{number:04d}.tar")
        with open(plain, "rb") as file, open(plain + {2: ".gz", 3: ".zst"}[number], "wb") as out:
            out.write(pack(file.read()))
        os.remove(plain)
    for shard in set(shards):  # the JSON as it was written
        path = os.path.join(folder, shard)
        with open(path, "rb") as file:
            data = file.read()
        if shard.endswith(".gz"):
            data = gzip.decompress(data)
        if shard.endswith(".zst"):
            data = zstandard.ZstdDecompressor().decompress(data)
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                if member.name.endswith(".json"):
                    key = f"{shard}/{member.name[:-5]}.jpg"
                    samples[key][2]["json"] = archive.extractfile(member).read()
    yield "folder", Case([folder], samples, [os.path.join(folder, shards[0]), os.path.join(folder, shards[-1])])
    both = [os.path.join(folder, "s-{0000..0001}.tar"), os.path.join(folder, "s-*.tar.*")]
    yield "braces", Case(both, samples)
    relabelled = {key: (str(int(key.split("/k")[1][:5]) % 4), *rest) for key, (_, *rest) in samples.items()}
    yield "json", Case([folder, "--label", "label"], relabelled)


def case_imagenet(folder):
    """As published: an archive of class archives, and validation images with a list of their classes."""
    classes = {"n01440764": 3, "n01443537": 2}
    train, samples = {}, {}
    for name, count in classes.items():
        inner = io.BytesIO()
        with tarfile.open(fileobj=inner, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for i in range(count):
                data = make_image(i + 100 * count)
                info = tarfile.TarInfo(f"{name}_{i}.JPEG")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
                samples[f"train:{name}/{name}_{i}.JPEG"] = (name, data, {})
        train[f"{name}.tar"] = inner.getvalue()
    val = {f"ILSVRC2012_val_{i:08d}.JPEG": make_image(50 + i) for i in range(1, 5)}
    labels = ["n01443537", "n01440764", "n01440764", "n01443537"]
    for name, files in (("train", train), ("val", val)):
        write_tar(os.path.join(folder, f"ILSVRC2012_img_{name}.tar"), files, tarfile.USTAR_FORMAT)
    with open(os.path.join(folder, "synsets.txt"), "w") as file:
        file.write("\n".join(labels) + "\n")
    for (name, data), label in zip(val.items(), labels):
        samples[f"val:{name}"] = (label, data, {})
    arguments = [folder, "--labels", os.path.join(folder, "synsets.txt")]
    yield "archives", Case(arguments, samples, [os.path.join(folder, "ILSVRC2012_img_train.tar")],
                           splits=("train", "val"))
