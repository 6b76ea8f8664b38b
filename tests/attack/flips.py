"""One wrong bit at rest, anywhere in a dataset: the program refuses the dataset, or the record, or nothing that it
read has changed. Also datasets and unfinished ingests that were cut short.

For every flipped bit `inspect`, `verify --decode` and one epoch of `train` run on the dataset. A failure is a
signal, a hang, too much memory, and any result that differs from the whole dataset's without a word: another
dataset description, other weights after training, or `verify` content with a dataset that trains differently."""

import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import tempfile
import time

from attack import MOST_MEMORY_MB, Attack

PAGE = 4096
ROWS = 511
ROW_BYTES = 32

# name, sides of the images, options of ingest
FORMS = (
    ("coefficients", "40..90", ()),
    ("packed", "16", ("--store", "raw")),
    ("zstd", "16", ("--store", "raw", "--zstd")),
    ("restart", "64", ("--jpeg", "restart")),
)


def places(data):
    """Offsets of bytes by what they are, found from the file's own pages."""
    found = {"meta pages": [at + i for at in (0, PAGE) for i in range(152)], "page headers": [], "entries": [],
             "header rows": [], "description": [], "anywhere": range(len(data))}
    for page in range(2 * PAGE, len(data) - PAGE + 1, PAGE):
        number, flags, lower = struct.unpack_from("<Q2xHH", data, page)
        if number != page // PAGE or flags not in (1, 2) or not 16 <= lower <= PAGE:
            continue
        found["page headers"] += range(page, page + lower)
        for at in struct.unpack_from(f"<{(lower - 16) // 2}H", data, page + 16):
            found["entries"] += range(page + at, min(page + at + 24, len(data)))
    text = data.find(b'{"format":"dlpipe-dataset"')
    found["description"] = range(text, data.index(b'"}', data.index(b'"text_checksum":"', text)) + 2)
    skipped = data.find(b"ring/bad.jpg\0")
    found["skipped file"] = range(skipped - 24, skipped + 40)
    return found


def first_row(data, info):
    """Where the header table's first chunk lies: rows whose sizes and checksums make sense side by side."""
    rows = min(ROWS, info["samples"])
    for at in range(2 * PAGE, len(data) - rows * ROW_BYTES, 2):
        good = True
        for i in range(rows):
            width, height, size, channels, orientation, layout, zero, label = struct.unpack_from(
                "<IIIBBBBq", data, at + i * ROW_BYTES)
            good = (0 < width < 200 and 0 < height < 200 and size < 65536 and channels == 3 and orientation in (0, 1)
                    and 1 <= layout <= 5 and zero == 0 and 0 <= label < 10)
            if not good:
                break
        if good:
            return range(at, at + rows * ROW_BYTES)
    raise SystemExit("flips: no header table found")


class Subject:
    """A dataset with what inspect, verify and train say of it while it is whole."""

    def __init__(self, attack, root, name, size, options):
        self.attack, self.name = attack, name
        self.directory = root / name
        source = root / f"{name}.src"
        attack.must("synth", source, "--per-class", 13, "--size", size)
        (source / "ring" / "bad.jpg").write_bytes(b"no image")  # the list of skipped files isn't empty
        attack.must("ingest", source, self.directory, "--jobs", 2, *options)
        self.file = self.directory / "data.mdb"
        self.whole = self.file.read_bytes()
        self.seen = self.look(root)
        assert self.seen["verify"].exit_code == 0 and self.seen["train"].exit_code == 0, self.seen["train"].err
        self.most_mb = max(o.peak_mb for o in self.seen.values() if hasattr(o, "peak_mb")) + MOST_MEMORY_MB
        info = json.loads(self.seen["inspect"].out)
        self.places = places(self.whole)
        self.places["header rows"] = first_row(self.whole, info)

    def look(self, root):
        run = root / "run"
        shutil.rmtree(run, ignore_errors=True)
        seen = {
            "inspect": self.attack.run("inspect", "--json", self.directory),
            "verify": self.attack.run("verify", "--decode", "--json", "--jobs", 1, self.directory),
            "train": self.attack.run("train", "--model", "mlp", "--data", self.directory, "--augment", "resize(16x16)",
                                     "--epochs", 1, "--batch", 16, "--threads", 1, "--out", run)}
        receipt = run / "receipt.json"
        seen["receipt"] = json.loads(receipt.read_text()) if receipt.exists() else {}
        quarantine = run / "quarantine.txt"
        seen["quarantined"] = quarantine.exists() and len(quarantine.read_text().splitlines()) > 1
        return seen

    def verdict(self, seen):
        """What became of a corrupt dataset, or (None, why it must not)."""
        for command in ("inspect", "verify", "train"):
            if why := seen[command].failure(self.most_mb):
                return None, f"{command} {why}"
        if seen["inspect"].exit_code == 0 and self.description(seen) != self.description(self.seen):
            return None, "inspect describes another dataset"
        if seen["train"].exit_code != 0:
            return ("dataset refused", "") if seen["inspect"].exit_code != 0 else ("training refused", "")
        same = all(seen["receipt"][key] == self.seen["receipt"][key] for key in ("batches_chain", "parameters_chain"))
        if seen["verify"].exit_code == 0 and not same:
            return None, "verify is content, training gives other weights"
        if not same and not seen["quarantined"]:
            return None, "training gives other weights without a word"
        return ("nothing changed" if same else "record refused"), ""

    @staticmethod
    def description(seen):
        return json.loads(seen["inspect"].out)


def flip(subject, root, count):
    attack = subject.attack
    for region, offsets in subject.places.items():
        kind = f"{subject.name}, {region}"
        for _ in range(count):
            at, bit = attack.random.choice(offsets), attack.random.randrange(8)
            corrupt = bytearray(subject.whole)
            corrupt[at] ^= 1 << bit
            subject.file.write_bytes(corrupt)
            verdict, why = subject.verdict(subject.look(root))
            if verdict:
                attack.count(kind, verdict)
            else:
                attack.fail(kind, f"byte {at} bit {bit}", why, subject.directory)
    subject.file.write_bytes(subject.whole)


def cut(subject, root, count):
    attack = subject.attack
    for _ in range(count):
        keep = attack.random.randrange(len(subject.whole))
        subject.file.write_bytes(subject.whole[:keep])
        verdict, why = subject.verdict(subject.look(root))
        if verdict == "dataset refused":
            attack.count(f"{subject.name}, cut short", verdict)
        else:
            attack.fail(f"{subject.name}, cut short", f"{keep} bytes", why or verdict, subject.directory)
    subject.file.write_bytes(subject.whole)


RESUMED = ("--jobs", "1", "--store", "raw")


def transaction(file):
    """Of the last commit, from LMDB's meta pages; 0 before the first."""
    try:
        data = file.read_bytes()[:2 * PAGE]
        return max(struct.unpack_from("<Q", data, at + 144)[0] for at in (0, PAGE))
    except (FileNotFoundError, struct.error):
        return 0


def size(file):
    try:
        return file.stat().st_size
    except FileNotFoundError:  # not yet, or no longer: the ingest is done
        return 0


def interrupted(attack, root):
    """An ingest that was killed behind its first commit, which comes after 32 MB of records."""
    source, partial = root / "long.src", root / "long.partial"
    attack.must("synth", source, "--per-class", 12, "--size", "400")
    for _ in range(20):
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(root / "long", ignore_errors=True)
        process = subprocess.Popen([attack.program, "ingest", source, root / "long", *RESUMED],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        file = partial / "data.mdb"
        while process.poll() is None and not transaction(file):
            time.sleep(0.001)
        committed = time.monotonic()  # a disk then gets pages of the next commit, memory gets them all at its end
        while process.poll() is None and size(file) < 32 << 20 and time.monotonic() < committed + 0.05:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if transaction(file) and (partial / "ingest.list").exists():  # not killed while it finished
            return source, partial
    raise SystemExit("flips: no interrupted ingest could be made")


def id_of(attack, dataset):
    """A hash of all that the dataset says about its records, their checksums too, which verify compares."""
    return json.loads(attack.must("inspect", "--json", dataset).out)["datasets"][0]["id"]


def resume(attack, root, count):
    source, partial = interrupted(attack, root)
    undisturbed = root / "undisturbed"
    attack.must("ingest", source, undisturbed, *RESUMED)
    expected = id_of(attack, undisturbed)  # bytes of the file that mean nothing may differ
    kept = root / "kept"
    shutil.copytree(partial, kept)
    whole = (kept / "data.mdb").read_bytes()
    for kind in ("unfinished ingest, cut short", "unfinished ingest, flipped", "unfinished ingest, its list flipped"):
        for _ in range(count):
            shutil.rmtree(partial, ignore_errors=True)
            shutil.rmtree(root / "long", ignore_errors=True)
            shutil.copytree(kept, partial)
            if kind.endswith("cut short"):
                at, bit = attack.random.randrange(len(whole)), 0
                os.truncate(partial / "data.mdb", at)
            else:
                file = partial / ("ingest.list" if "list" in kind else "data.mdb")
                corrupt = bytearray(file.read_bytes())
                spots = range(len(corrupt)) if "list" in kind else attack.random.choice(
                    [o for name, o in partial_places(corrupt).items() if o])
                at, bit = attack.random.choice(spots), attack.random.randrange(8)
                corrupt[at] ^= 1 << bit
                file.write_bytes(corrupt)
            outcome = attack.run("ingest", source, root / "long", *RESUMED)
            why = outcome.failure(MOST_MEMORY_MB)
            if not why and outcome.exit_code == 0:
                verified = attack.run("verify", "--decode", root / "long")
                why = verified.failure(MOST_MEMORY_MB)
                if not why and verified.exit_code != 0 and not kind.endswith("flipped"):
                    why = "a corrupt dataset was made of it"
                elif not why and verified.exit_code == 0 and id_of(attack, root / "long") != expected:
                    why = "verify is content, and the dataset is another than without the interruption"
                verdict = "nothing changed" if verified.exit_code == 0 else "found by verify"
            else:
                verdict = "refused"
            if why:
                attack.fail(kind, f"byte {at} bit {bit}", why, partial)
            else:
                attack.count(kind, verdict)


def partial_places(data):
    found = places_of_pages(data)
    found["anywhere"] = range(len(data))
    return found


def places_of_pages(data):
    found = {"meta": [at + i for at in (0, PAGE) for i in range(152)], "pages": []}
    for page in range(2 * PAGE, len(data) - PAGE + 1, PAGE):
        number, flags, lower = struct.unpack_from("<Q2xHH", data, page)
        if number == page // PAGE and flags in (1, 2) and 16 <= lower <= PAGE:
            found["pages"] += range(page, page + lower)
    return found


def main():
    attack = Attack(__doc__.splitlines()[0])
    with tempfile.TemporaryDirectory(prefix="dlpipe_flips_") as name:
        root = pathlib.Path(name)
        for form in FORMS:
            subject = Subject(attack, root, *form)
            flip(subject, root, attack.options.count)
            cut(subject, root, attack.options.count)
        resume(attack, root, attack.options.count)
    attack.finish()


if __name__ == "__main__":
    main()
