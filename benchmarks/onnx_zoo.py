#!/usr/bin/env python3
"""Do torchvision's networks, exported to ONNX by both of PyTorch's exporters, give the same logits in dlpipe?

    onnx_zoo.py DLPIPE [--models NAME ...] [--folder FOLDER] [--bench SECONDS]

Needs torch, torchvision, onnx, onnxscript and onnxruntime, in no particular version. Weights, running statistics and
images are drawn (seeded). Each file goes through `dlpipe compile`, `run` at batch 1 and 32 with 1 and 2 threads.
Prints a row per file: the largest difference from ONNX Runtime's logits, over the largest logit; with --bench also
images per second of `dlpipe bench run` at batch 1. Exits with 1 if a difference is above the tolerance or a file is refused.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy
import onnxruntime
import torch
import torchvision

MODELS = [
    "resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large", "efficientnet_b0", "convnext_tiny",
    "vit_b_16", "densenet121", "squeezenet1_1", "inception_v3",
]  # fmt: skip
BATCHES, THREADS = (1, 32), (1, 2)
# f32 sums of up to 4608 products in another order, through up to 120 layers.
TOLERANCE = 1e-3


def network(name):
    """In eval mode, with drawn weights whose signals neither vanish nor grow, and drawn running statistics."""
    torch.manual_seed(0)
    options = {"init_weights": True} if name == "inception_v3" else {}
    model = getattr(torchvision.models, name)(weights=None, **options)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.normal_(module.running_mean, 0, 0.1)
            torch.nn.init.uniform_(module.running_var, 0.5, 1.5)
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.normal_(module.bias, 0, 0.1)
        elif isinstance(module, torch.nn.Linear):
            torch.nn.init.kaiming_normal_(module.weight)
    return model.eval(), 299 if name == "inception_v3" else 224


def export(model, size, path, with_dynamo):
    x = torch.randn(2, 3, size, size)
    names = {"input_names": ["x"], "output_names": ["y"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if with_dynamo:
            torch.onnx.export(model, (x,), path, dynamo=True, dynamic_shapes=({0: torch.export.Dim("N")},),
                              verbose=False, **names)  # fmt: skip
        else:
            torch.onnx.export(model, (x,), path, dynamo=False, opset_version=17, dynamic_axes={"x": {0: "N"}, "y": {0: "N"}},
                              **names)  # fmt: skip


def dlpipe(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(" ".join((done.stderr.strip() or f"exit {done.returncode}").splitlines()[-1:]))
    return done.stdout


def difference(program, folder, file, size, batch, threads):
    x = numpy.random.default_rng(batch).standard_normal((batch, 3, size, size), dtype=numpy.float32)
    expected = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    numpy.save(folder / "x.npy", x)
    dlpipe(program, "run", folder / "m.dlg", "--input", folder / "x.npy", "--output", folder / "y.npy", "--threads", threads)
    y = numpy.load(folder / "y.npy")
    if y.shape != expected.shape:
        raise RuntimeError(f"logits of shape {y.shape}, expected {expected.shape}")
    return float(numpy.abs(y - expected).max() / numpy.abs(expected).max())


def row(args, folder, file, size):
    """The cells behind a file's name, and whether it is right."""
    try:
        (folder / "m.dlg").unlink(missing_ok=True)
        dlpipe(args.dlpipe, "compile", file, "-o", folder / "m.dlg")
        cases = [(batch, threads) for batch in BATCHES for threads in THREADS]
        differences = [difference(args.dlpipe, folder, file, size, *case) for case in cases]
        cells = [f"{one:.1e}" for one in differences]
        for batch, threads in cases if args.bench else []:
            printed = dlpipe(args.dlpipe, "bench", "run", folder / "m.dlg", "--batch", batch, "--threads", threads,
                             "--dtype", "f32", "--seconds", args.bench, "--json")  # fmt: skip
            cells.append(f"{json.loads(printed)['samples_per_s']:.1f}")
        return cells, max(differences) <= TOLERANCE
    except RuntimeError as why:
        return [str(why)], False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dlpipe", type=pathlib.Path)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--folder", type=pathlib.Path, help="keep the ONNX files here, and use those that are there")
    parser.add_argument("--bench", type=float, metavar="SECONDS", help="also run `bench run` so long")
    args = parser.parse_args()
    heads = [f"{batch}x{threads}" for batch in BATCHES for threads in THREADS]
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}, onnxruntime {onnxruntime.__version__}")
    print(f"tolerance {TOLERANCE:g}; columns: batch x threads" + ("; then img/s" if args.bench else ""))
    print(f"{'network':20} {'exporter':12} " + " ".join(f"{head:>8}" for head in heads * (2 if args.bench else 1)), flush=True)
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        kept = args.folder or pathlib.Path(scratch)
        kept.mkdir(parents=True, exist_ok=True)
        for name in args.models:
            model, size = network(name)
            for exporter in ("torchscript", "dynamo"):
                file = kept / f"{name}-{exporter}.onnx"
                if not file.exists():
                    export(model, size, file, exporter == "dynamo")
                cells, is_right = row(args, pathlib.Path(scratch), file, size)
                wrong += not is_right
                print(f"{name:20} {exporter:12} " + " ".join(f"{cell:>8}" for cell in cells), flush=True)
                if not args.folder:
                    for path in kept.glob(file.name + "*"):
                        path.unlink()
    print("all the same" if wrong == 0 else f"{wrong} files are refused or differ")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
