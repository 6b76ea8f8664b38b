"""Tests of the contest itself; no peer needed:  python3 -m unittest discover benchmarks/peers -p '*_test.py'"""

import gzip
import json
import os
import pathlib
import random
import re
import sys
import tempfile
import types
import unittest
import unittest.mock
import zlib

here = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(here), *(str(here / folder) for folder in ("input", "train", "recipes", "detect"))]
import contest  # noqa: E402
import detect  # noqa: E402
import environment  # noqa: E402
import loading  # noqa: E402
import machine  # noqa: E402
import measure  # noqa: E402
import recipe  # noqa: E402
import scenes  # noqa: E402
import work  # noqa: E402


def program(source):
    return [sys.executable, "-c", source]


def says(rate):
    return program(f"print('chatter'); print('{json.dumps({'samples_per_s': rate})}')")


class RunOnce(unittest.TestCase):
    def test_takes_the_last_line_of_a_chatty_program(self):
        self.assertEqual(contest.run_once(says(12.5), 30)["samples_per_s"], 12.5)

    def test_takes_an_object_that_spans_lines(self):
        spread_out = program('print(\'{\\n "samples_per_s": 3,\\n "threads": 1}\\n\')')
        self.assertEqual(contest.run_once(spread_out, 30)["samples_per_s"], 3.0)

    def test_the_rate_is_of_all_the_time_where_that_is_told(self):
        told = {"samples_per_s": 20, "samples": 30, "seconds": 2}
        self.assertEqual(contest.run_once(program(f"print({json.dumps(json.dumps(told))})"), 30)["samples_per_s"], 15.0)

    def test_reports_why_a_program_failed(self):
        outcome = contest.run_once(program("import sys; sys.exit('[x] no such file')"), 30)
        self.assertEqual(outcome, {"error": "exit status 1: [x] no such file"})

    def test_reports_output_without_a_rate(self):
        self.assertIn("no JSON object", contest.run_once(program("print('{}')"), 30)["error"])
        self.assertIn("no JSON object", contest.run_once(program("pass"), 30)["error"])

    def test_ends_a_program_that_hangs(self):
        self.assertEqual(
            contest.run_once(program("import time; time.sleep(60)"), 0.2), {"error": "not finished after 0.2 s"}
        )


class WrittenOnce(unittest.TestCase):
    def test_writes_aside_and_only_at_the_first_start(self):
        with tempfile.TemporaryDirectory() as folder:
            cache = pathlib.Path(folder) / "cache"
            image = pathlib.Path(folder) / "a.jpg"
            image.write_bytes(b"12345")
            args = types.SimpleNamespace(files=[str(image)], cache=cache)
            written = []

            def write(files, path):
                self.assertEqual(path.suffix, ".partial")
                path.write_text("whole")
                written.append(files)

            for _ in range(2):
                path = loading.written_once(args, "peer", write)
                self.assertEqual(path, cache / "peer_1_5")
                self.assertEqual(path.read_text(), "whole")
            self.assertEqual(written, [[str(image)]])
            self.assertEqual(list(cache.iterdir()), [path])


class Clock:
    """Time that passes only where somebody sleeps."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class Timed(unittest.TestCase):
    def waited_share(self, step_s):
        clock = Clock()
        with unittest.mock.patch.object(measure, "time", clock):
            run = measure.timed(lambda: clock.sleep(step_s), 10, 1, warm_up_steps=1, min_steps=2, wants_per_s=1000)
        return run["waited_share"]

    def test_a_consumer_that_sleeps_waits_for_what_is_late_alone(self):
        self.assertEqual(self.waited_share(0.0), 0.0)
        self.assertAlmostEqual(self.waited_share(0.01), 0.5)  # 10 samples at 1,000 per second are 10 ms of work
        self.assertAlmostEqual(self.waited_share(0.03), 0.75)


class Play(unittest.TestCase):
    def test_rotates_the_order_and_asks_a_failed_one_no_more(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "order"

            def writes(name, rest):
                return program(f"open({str(log)!r}, 'a').write({name!r}); {rest}")

            good = "print('{\"samples_per_s\": 2}')"
            contestants = [
                contest.Contestant("a", "", lambda case: writes("a", good)),
                contest.Contestant("b", "", lambda case: writes("b", "raise SystemExit(1)")),
                contest.Contestant("c", "", lambda case: writes("c", good)),
            ]
            results = contest.play(contestants, [{"threads": 1}], rounds=3, timeout_s=30)
            self.assertEqual(log.read_text(), "abc" + "ca" + "ca")
        self.assertEqual([len(results["1"][name]) for name in "abc"], [3, 1, 3])
        self.assertEqual(contest.failures(results), ["b, 1: exit status 1: no message"])


class Summary(unittest.TestCase):
    def runs(self, *rates):
        return [{"samples_per_s": rate, "other_load": 0.0} if rate else {"error": "lost"} for rate in rates]

    def test_takes_ratios_within_rounds(self):
        self.assertEqual(contest.ratio(self.runs(200, 90, 300), self.runs(100, 30, 100)), 3.0)
        self.assertEqual(contest.ratio(self.runs(200, 90), self.runs(100, 0)), 2.0)
        self.assertIsNone(contest.ratio(self.runs(0), self.runs(100)))
        self.assertIsNone(contest.ratio([], self.runs(100)))

    def test_shows_rates_ratios_and_failures_in_a_table(self):
        contestants = [contest.Contestant(name, "as it is", lambda case: []) for name in ("dlpipe", "slow", "broken")]
        results = {"1": {"dlpipe": self.runs(300, 100, 200), "slow": self.runs(50.5, 50, 51), "broken": self.runs(0)}}
        lines = contest.table(contestants, [{"threads": 1}], results)
        self.assertEqual(
            [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]],
            [
                ["dlpipe", "as it is", "200 (100-300)", ""],
                ["slow", "as it is", "50.5 (50.0-51.0)", "3.92 x"],
                ["broken", "as it is", "failed", "-"],
            ],
        )
        self.assertEqual(len({len(line) for line in lines}), 1)

    def test_keeps_paths_out_of_the_record(self):
        args = types.SimpleNamespace(folder=pathlib.Path("/somewhere"), rounds=3, out=None)
        self.assertEqual(contest.settings(args), {"rounds": 3})


class Environment(unittest.TestCase):
    def test_reads_every_peer_with_each_version_pinned(self):
        for folder in (here / "input" / "loaders", here / "train" / "trainers", here / "recipes" / "loaders"):
            for peer in environment.find_peers(folder, None):
                pins = peer.dependencies + peer.no_deps
                self.assertTrue(pins, peer.name)
                self.assertTrue(all("==" in pin for pin in pins), f"{peer.name}: {pins}")

    def test_refuses_a_name_that_no_peer_has(self):
        with self.assertRaisesRegex(SystemExit, "no peer is called 'dahli'.*dali"):
            environment.find_peers(here / "input" / "loaders", ["dahli"])

    def test_refuses_a_file_without_metadata(self):
        with self.assertRaisesRegex(SystemExit, "has no '# /// script' block"):
            environment.read_peer(here / "contest.py")

    def test_names_the_distribution_packages_that_are_missing(self):
        peer = environment.Peer("x", here, "x", [], [], ["no-such-package-as-this"], {})
        if environment.missing_packages(peer.apt):  # empty where there is no dpkg
            with self.assertRaisesRegex(environment.Unavailable, "apt-get install no-such-package-as-this"):
                environment.prepare(peer, here / "nowhere")


class Recipe(unittest.TestCase):
    def test_reads_the_recipes_that_cifar10_trains(self):
        airbench, resnet18 = (recipe.read(recipe.FILES[name]) for name in ("airbench", "resnet18"))
        self.assertEqual((airbench.model, airbench.padding, airbench.flip), ("airbench", 2, "alternating_flip"))
        self.assertEqual((resnet18.model, resnet18.padding, resnet18.flip), ("resnet18_cifar", 4, "hflip"))
        self.assertEqual((resnet18.warmup, resnet18.epochs, resnet18.tta), (2, 10, "flip_translate"))

    def test_refuses_what_cifar10_has_no_code_for(self):
        text = 'model = "airbench"\nschedule = "linear"\naugment = "pad_crop(32,2,reflect) hflip"\n'
        self.assertEqual(recipe.parse(text, "x")["batch"], 128)
        refused = [("clip = 1", "'clip'"), ('tta = "flip"', "tta is 'flip'"), ('optimizer = "muon"', "muon")]
        for more, message in refused:
            with self.assertRaisesRegex(SystemExit, f"x: .*{message}"):
                recipe.parse(text + more, "x")
        with self.assertRaisesRegex(SystemExit, "augment 'pad_crop\\(32,2,zero\\) hflip'"):
            recipe.parse(text.replace("reflect", "zero"), "x")

    def test_scales_by_the_last_pattern_that_matches(self):
        scales = ["group*.norm?.bias=441.7", "*.bias=2"]
        self.assertEqual(recipe.factor("group1.norm2.bias", scales[::-1]), 441.7)
        self.assertEqual(recipe.factor("group1.norm2.bias", scales), 2.0)
        self.assertEqual(recipe.factor("head.fc.weight", scales), 1.0)

    def test_goes_straight_up_and_straight_down(self):
        self.assertEqual([recipe.rate(step, 8, 2) for step in (0, 1, 2, 5, 8)], [0, 0.5, 1, 0.5, 0])
        self.assertEqual([recipe.rate(step, 4, 0) for step in (0, 1, 3)], [1, 0.75, 0.25])


class Recipes(unittest.TestCase):
    """benchmarks/peers/recipes: what its loaders share."""

    def make_image(self, width, height, boxes):
        return work.Image("a.jpg", 0, width, height, boxes, list(range(len(boxes))), "a.png")

    def test_puts_the_parts_of_a_mosaic_side_by_side(self):
        rng = random.Random(3)
        images = [self.make_image(rng.randint(50, 900), rng.randint(50, 900), []) for _ in range(4)]
        for _ in range(100):
            plan = work.draw_mosaic(images, 64, rng)
            corners = set()
            for i, part in enumerate(plan.parts):
                self.assertEqual(max(part.width, part.height), 64)
                for axis, whole in enumerate((part.width, part.height)):
                    self.assertTrue(0 <= part.source[axis] <= part.source[axis] + part.shape[axis] <= whole)
                    self.assertTrue(0 <= part.target[axis] <= part.target[axis] + part.shape[axis] <= 128)
                corners.add((part.target[0] + (part.shape[0] if i % 2 == 0 else 0), part.target[1] + (part.shape[1] if i < 2 else 0)))
            self.assertEqual(len(corners), 1)  # they meet in one point

    def test_moves_boxes_as_the_matrix_says_and_cuts_them_off(self):
        whole = self.make_image(100, 50, [[0, 0, 100, 50], [0, 0, 0.001, 0.001]])
        part = work.Part(whole, 64, 32, (0, 0), (64, 64), (64, 32))
        plan = work.Mosaic(64, [part], 1.0, (-32.0, -32.0))
        self.assertEqual(plan.on_canvas()[0][0], (64, 64, 128, 96))
        self.assertEqual(plan.seen(), ([[32.0, 32.0, 64.0, 64.0]], [0]))  # nothing is left of the other one
        enlarged = work.Mosaic(64, [part], 1.5, (-80.0, -80.0))
        self.assertEqual(enlarged.seen()[0], [[16.0, 16.0, 64.0, 64.0]])

    def test_keeps_boxes_inside_of_the_image(self):
        rng = random.Random(4)
        images = [self.make_image(500, 375, [[0, 0, 500, 375], [10, 20, 60, 300]])] * 4
        for _ in range(100):
            for box in work.draw_mosaic(images, 64, rng).seen()[0]:
                self.assertTrue(0 <= box[0] <= box[2] - 1 and box[2] <= 64 and 0 <= box[1] <= box[3] - 1 and box[3] <= 64)

    def test_says_what_differs_and_by_how_much(self):
        ours = {"mean red": 0.1, "detail": 0.1}
        self.assertEqual(work.differences(ours, {"mean red": 0.15, "detail": 0.11}), [])
        self.assertEqual(work.differences(ours, {"detail": 0.2}), ["mean red is missing", "detail is 0.200, not 0.100"])

    def test_refuses_batches_of_another_kind(self):
        def array(shape, dtype, contiguous=True):
            return types.SimpleNamespace(shape=shape, dtype=dtype, flags=types.SimpleNamespace(c_contiguous=contiguous))

        masks = work.Recipe("", 8, 2, "float32", ("image", "mask"))
        good = {"image": array((2, 8, 8, 3), "torch.float32"), "mask": array((2, 8, 8), "uint8")}
        work.refuse_other_batches(masks, good)
        for name, other, said in (
            ("image", array((2, 3, 8, 8), "float32"), "image is float32"),
            ("image", array((2, 8, 8, 3), "float32", contiguous=False), "order in memory"),
            ("mask", array((2, 8, 8), "int64"), "mask is int64"),
        ):
            with self.assertRaisesRegex(SystemExit, said):
                work.refuse_other_batches(masks, good | {name: other})


class Scenes(unittest.TestCase):
    def digits(self):
        draw = random.Random(3)
        drawn = [
            bytes(200 if 5 < x < 9 + label else draw.randrange(30) for _ in range(28) for x in range(28))
            for label in range(10)
        ]
        return [(label, *scenes.cut_to_ink(pixels, 28)) for label, pixels in enumerate(drawn)]

    def test_reads_idx_files_and_refuses_truncated_ones(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            images = [bytes(28 * 10) + bytes([0] * 4 + [255] * 3 + [0] * 21) * 2 + bytes(28 * 16) for _ in range(2)]
            whole = b"\0\0\x08\x03" + b"".join(size.to_bytes(4, "big") for size in (2, 28, 28)) + b"".join(images)
            (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(whole))
            (folder / "train-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01\0\0\0\x02\x07\x01")
            self.assertEqual(scenes.read_digits(folder), [(7, 3, 2, b"\xff" * 6), (1, 3, 2, b"\xff" * 6)])
            (folder / "train-images-idx3-ubyte.gz").write_bytes(whole[:-1])
            with self.assertRaisesRegex(SystemExit, "truncated"):
                scenes.read_digits(folder)

    def test_resizes_bilinearly(self):
        self.assertEqual(scenes.resized(bytes([0, 100]), 2, 1, 4, 2), [bytes([0, 25, 75, 100])] * 2)
        self.assertEqual(scenes.resized(bytes(range(6)), 3, 2, 3, 2), [bytes([0, 1, 2]), bytes([3, 4, 5])])

    def test_composes_the_same_scenes_for_a_seed(self):
        self.assertEqual(scenes.digit_scenes(self.digits() * 3, 20, 1), scenes.digit_scenes(self.digits() * 3, 20, 1))
        self.assertNotEqual(
            scenes.digit_scenes(self.digits() * 3, 20, 1), scenes.digit_scenes(self.digits() * 3, 20, 2)
        )

    def test_boxes_fit_and_hardly_overlap(self):
        digits, draw, sizes = self.digits(), random.Random(1), set()
        for _ in range(100):
            pixels, objects = scenes.compose(digits, draw)
            self.assertEqual(len(pixels), scenes.SIZE**2)
            self.assertTrue(1 <= len(objects) <= scenes.DIGITS[1])
            boxes = [box for _, box in objects]
            for i, (left, top, width, height) in enumerate(boxes):
                self.assertTrue(0 <= left <= left + width <= scenes.SIZE and 0 <= top <= top + height <= scenes.SIZE)
                self.assertTrue(scenes.HEIGHTS[0] <= height <= scenes.HEIGHTS[1] and width > 0)
                self.assertTrue(all(scenes.overlap(boxes[i], other) <= scenes.MAX_OVERLAP for other in boxes[:i]))
                middle = (top + height // 2) * scenes.SIZE + left + width // 2
                self.assertGreaterEqual(pixels[middle], 190)  # the middle of each of these digits is ink
                sizes.add(height)
        self.assertGreater(len(sizes), 15)

    def test_training_and_validation_share_no_digit(self):
        seen = {"train": set(), "val": set()}

        def compose(digits, draw):
            seen["val" if len(digits) == 3 else "train"].update(number for number, *_ in digits)
            return bytes(scenes.SIZE**2), []

        with unittest.mock.patch.object(scenes, "compose", compose):
            split, _ = scenes.digit_scenes([(i, 1, 1, b"\xff") for i in range(30)], 10, 1)
        self.assertEqual((len(split["train"]), len(split["val"])), (9, 1))
        self.assertEqual(seen, {"train": {i for i in range(30) if i % 10}, "val": {0, 10, 20}})

    def test_splits_a_coco_file(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            listed = [{"id": 100 + i, "file_name": f"x{i}.jpg", "width": 40, "height": 30} for i in range(10)]
            for one in listed:
                (folder / one["file_name"]).write_bytes(one["file_name"].encode())
            boxes = [{"image_id": 100 + i, "category_id": 9 - i % 2, "bbox": [i, 2, 3, 4]} for i in range(10)]
            kinds = [{"id": 9, "name": "nine"}, {"id": 8, "name": "eight"}]
            (folder / "a.json").write_text(json.dumps({"images": listed, "annotations": boxes, "categories": kinds}))
            split, classes = scenes.coco_scenes(folder / "a.json", folder, 1)
        self.assertEqual((len(split["train"]), len(split["val"]), classes), (9, 1, ["eight", "nine"]))
        for _, data, _, _, objects in split["train"] + split["val"]:
            i = int(data.decode()[1:-4])
            self.assertEqual(objects, [(1 - i % 2, (i, 2, 3, 4))])

    def test_writes_coco_and_yolo_of_the_same_files(self):
        scene = ("000012.png", scenes.png(bytes(range(200)), 20, 10), 20, 10, [(1, (2, 3, 4, 6))])
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            scenes.write({"train": [scene], "val": []}, ["a", "b"], folder)
            coco = json.loads((folder / "coco/annotations/instances_train2017.json").read_text())
            files = [folder / "coco/train2017/000012.png", folder / "yolo/images/train/000012.png"]
            self.assertTrue(files[0].samefile(files[1]))
            self.assertEqual(
                (folder / "yolo/labels/train/000012.txt").read_text(), "1 0.200000 0.600000 0.200000 0.600000\n"
            )
        [box] = coco["annotations"]
        self.assertEqual((box["bbox"], box["category_id"], box["image_id"], box["area"]), ([2, 3, 4, 6], 2, 12, 24))
        self.assertEqual(coco["images"], [{"id": 12, "file_name": "000012.png", "width": 20, "height": 10}])
        self.assertEqual([one["name"] for one in coco["categories"]], ["a", "b"])

    def test_writes_pixels_in_three_equal_channels(self):
        data = scenes.png(bytes([0, 9, 200, 255]), 2, 2)
        begin = data.index(b"IDAT")
        size = int.from_bytes(data[begin - 4 : begin], "big")
        self.assertEqual(
            zlib.decompress(data[begin + 4 : begin + 4 + size]),
            bytes([0, 0, 0, 0, 9, 9, 9, 0, 200, 200, 200, 255, 255, 255]),
        )


class DetectLogs(unittest.TestCase):
    def read(self, lines, **program):
        about = {"name": "x", "about": "", "pixels": 1, "commands": []}
        log = detect.Log(detect.Program(**(about | program)))
        for now, line in enumerate(lines):
            log.read(line + "\n", float(now))
        return log

    def test_reads_dlpipe(self):
        log = self.read(
            [
                "1,080 training samples (each epoch leaves out 8 of them), 120 validation samples, 671,262 parameters, 2,010 steps",
                "epoch 5.00/30  step 335/2,010  loss 0.5455 (mean of 67 steps; epoch's 0.5455)",
                "validation after epoch 5.00: loss 0.4980  map 27.83 %  map50 45.60 %  map75 30.60 %  (120 samples, 0.2 s)  best",
                "validation after epoch 6.00: loss 0.4980  map 27.83 %  map50 100.00 %  map75 30.60 %  (120 samples, 1m05s)",
            ],
            result=detect.DLPIPE_RESULT, unit=100, parameters=detect.DLPIPE_PARAMETERS,
        )  # fmt: skip
        self.assertEqual(log.events, [(2.0, 0.456, 0.2), (3.0, 1.0, 65.0)])
        self.assertEqual(log.parameters, 671262)

    def test_reads_torchvision(self):
        average = " Average Precision  (AP) @[ IoU={} | area=   all | maxDets=100 ] = {}"
        one = [
            "Test:  [  0/120]  eta: 0:00:20  model_time: 0.1",
            "Test:  [119/120]  eta: 0:00:00",
            average.format("0.50:0.95", "0.100"),
        ]
        log = self.read(
            [*one, average.format("0.50     ", "0.250"), *one, average.format("0.50     ", "-1.000"), average.format("0.75     ", "0.9")],
            result=detect.REFERENCE_RESULT, validating=detect.REFERENCE_VALIDATING, parameters=7,
        )  # fmt: skip
        self.assertEqual(log.events, [(3.0, 0.25, 3.0), (7.0, 0.0, 3.0)])

    def test_reads_ultralytics(self):
        log = self.read(
            [
                "YOLO11n summary: 181 layers, 2,591,790 parameters, 2,591,774 gradients, 6.5 GFLOPs",
                "\x1b[K        1/30         0G      6.566       5.33        4.3         46        128: 98% ━━━━━━━━━━━─ 67/68 2.5it/s 12.2s<0.4s",
                "\x1b[K        1/30         0G      6.566       5.33        4.3         46        128: 100% ━━━━━━━━━━━━ 68/68 2.5it/s 12.6s",
                "\x1b[K                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100% ━━━━━━━━━━━━ 4/4 2.1it/s",
                "                   all        120        361    0.00111     0.0911    0.00252   0.000715",
                "                     0        120         30      0.911      0.911          1      0.995",
                "                   all        120        361          1          1      0.995   7.15e-05",
            ],
            result=detect.YOLO_RESULT, validating=detect.YOLO_VALIDATING, parameters=detect.YOLO_PARAMETERS,
        )  # fmt: skip
        self.assertEqual(log.events, [(4.0, 0.00252, 2.0), (6.0, 0.995, None)])
        self.assertEqual(log.parameters, 2591790)

    def run_program(self, source, target=0.9, cap=60, **more):
        with tempfile.TemporaryDirectory() as folder:
            one = detect.Program(
                name="x", about="a network", pixels=96, commands=[program(text) for text in source],
                result=re.compile(r"map50 (?P<map50>[\d.]+)"), **more,
            )  # fmt: skip
            cores = sorted(os.sched_getaffinity(0))[:1]
            result = detect.run(one, target, cap, cores, pathlib.Path(folder) / "log")
        return one, result

    def test_ends_a_program_at_the_target(self):
        endless = "import itertools\nfor i in itertools.count(): print('map50', i / 10, flush=True)"
        _, result = self.run_program(["print('ingest')", endless])
        self.assertEqual([one[1] for one in result["events"]], [i / 10 for i in range(10)])
        self.assertEqual(result["seconds"], result["events"][-1][0])
        self.assertNotIn("error", result)

    def test_ends_a_program_at_the_cap(self):
        one, result = self.run_program(["import time; time.sleep(600)"], cap=0.2)
        self.assertEqual((result["seconds"], result["events"]), (None, []))
        self.assertNotIn("error", result)
        cells = detect.row("drawn", one, result | {"elapsed": 31.0}, 10.0, 30.0)
        self.assertEqual(cells[5:9], ["not in 30 s", ">= 3.0 x", "0", "-"])

    def test_reports_why_a_program_failed(self):
        one, result = self.run_program(["import sys; sys.exit('[x] no such file')", "print('map50 1')"])
        self.assertEqual(result["error"], "exit status 1: [x] no such file")
        self.assertEqual(detect.row("drawn", one, result, 10.0, 30.0)[5:9], ["exit status 1: [x] no such file", "", "0", "-"])


class Inside(unittest.TestCase):
    def test_counts_samples_and_steps(self):
        calls = []
        result = measure.timed(lambda: calls.append(0), samples_a_step=8, seconds=0, warm_up_steps=1, min_steps=5)
        self.assertEqual(result["samples"], 40)
        self.assertGreater(len(calls), 5)

    def test_draws_crops_inside_the_image(self):
        for height, width in ((1, 1), (375, 500), (3, 4000)):
            for _ in range(200):
                top, left, h, w = loading.random_crop(height, width)
                self.assertTrue(0 <= top <= top + h <= height and 0 <= left <= left + w <= width and h > 0 and w > 0)

    def test_describes_the_machine_on_one_line(self):
        self.assertRegex(machine.line(machine.describe()), r"^\d+ cores, .*GB, Linux .*load [\d.]+ at the start$")


if __name__ == "__main__":
    unittest.main()
