#!/usr/bin/env python3
"""predictor.py [--model NAME] [--batches 1 64] [--threads 1 2] [--rounds N] [--seconds S]: images per second of
dlpipe.Predictor and of PyTorch with the same weights (drawn once, by torchvision's names), from uint8 pixels 224 x 224 to
probabilities. Each round runs both, in turn; the table has medians of rates and of the rounds' ratios, and the largest
difference of a probability. PyTorch: channels_last, inference_mode, eager. Needs dlpipe, torch, torchvision."""
import argparse
import json
import pathlib
import statistics
import struct
import tempfile
import time

import dlpipe
import numpy as np
import torch
import torchvision

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)


def save_weights(model, file):
    header, data = {}, b""
    for name, tensor in model.state_dict().items():
        if tensor.dtype != torch.float32:
            continue  # the counters of batch norms
        end = len(data) + 4 * tensor.numel()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), end]}
        data += tensor.contiguous().numpy().tobytes()
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)


def rate(work, images, seconds):
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        work()
        count += images
    return count / (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 64])
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    args = parser.parse_args()
    torch.manual_seed(1)
    model = torchvision.models.get_model(args.model, weights=None).eval().to(memory_format=torch.channels_last)
    print(f"{args.model} at 224 x 224, f32; torch {torch.__version__}, dlpipe {dlpipe.__version__}; {args.rounds} rounds of "
          f"{args.seconds:g} s each\n")
    print("| threads | batch | dlpipe, img/s | PyTorch, img/s | dlpipe / PyTorch | least and most | largest difference |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        save_weights(model, folder / "w.safetensors")
        (folder / "classes.txt").write_text("".join(f"{i}\n" for i in range(1000)))
        for threads in args.threads:
            torch.set_num_threads(threads)
            predictor = dlpipe.Predictor(
                folder / "w.safetensors", model=args.model, classes=folder / "classes.txt", threads=threads,
                val_augment="center_crop(224)", batch=max(args.batches),
            )  # fmt: skip
            for batch in args.batches:
                images = np.random.default_rng(batch).integers(0, 256, (batch, 224, 224, 3), np.uint8)

                @torch.inference_mode()
                def by_torch():
                    x = torch.from_numpy(images).permute(0, 3, 1, 2)  # channels_last already
                    return model((x.float() / 255 - MEAN) / STD).softmax(1).numpy()

                difference = np.abs(predictor(images) - by_torch()).max()
                ours, theirs = [], []
                for _ in range(args.rounds):
                    ours.append(rate(lambda: predictor(images), batch, args.seconds))
                    theirs.append(rate(by_torch, batch, args.seconds))
                ratios = sorted(a / b for a, b in zip(ours, theirs))
                print(f"| {threads} | {batch} | {statistics.median(ours):.1f} | {statistics.median(theirs):.1f} | "
                      f"{statistics.median(ratios):.2f} | {ratios[0]:.2f}, {ratios[-1]:.2f} | {difference:.1e} |", flush=True)


if __name__ == "__main__":
    main()
