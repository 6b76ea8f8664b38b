"""PyTorch's DistributedDataParallel over gloo, the peer of two ranks: prints one JSON line as benchmarks/peers/train does.

    PYTHON ddp.py --model resnet18_cifar --dtype f32 --batch 64 --size 32 --ranks 2 --threads 1 --steps 8

`--batch` is global. The step is that of benchmarks/peers/train: one cached batch, channels_last, SGD with momentum. Two
untimed steps come first. Runs in an environment with PyTorch; ranks are processes that this one starts.
"""

import argparse
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time

here = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(here.parent / "peers"), str(here.parent / "peers" / "train")]
WARM_UP_STEPS = 2


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", choices=["f32", "bf16"], required=True)
    for name in ("batch", "size", "ranks", "threads", "steps"):
        parser.add_argument(f"--{name}", type=int, required=True)
    return parser.parse_args()


def start_ranks(args):
    """Starts this program once per rank; ends them all where one fails."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(args.ranks),
              "OMP_NUM_THREADS": str(args.threads)}  # fmt: skip
    ranks = [
        subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, **common, "RANK": str(rank)})
        for rank in range(args.ranks)
    ]
    try:
        while any(rank.poll() is None for rank in ranks) and not any(rank.poll() for rank in ranks):
            time.sleep(0.05)
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
            rank.wait()
    return max(abs(rank.returncode) for rank in ranks)


def work(args):
    import measure
    import torch
    import training

    torch.manual_seed(1)
    torch.set_num_threads(args.threads)
    torch.set_num_interop_threads(1)
    torch.distributed.init_process_group("gloo")
    model = training.MODELS[args.model]().to(memory_format=torch.channels_last).train()
    inputs, labels = training.image_batch(model, args.batch // args.ranks, args.size)
    model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.dtype == "bf16"):
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()

    seconds = []
    for turn in range(WARM_UP_STEPS + args.steps):
        begin = time.monotonic()
        step()
        if turn >= WARM_UP_STEPS:
            seconds.append(time.monotonic() - begin)
    if torch.distributed.get_rank() == 0:
        measure.report(
            samples_per_s=args.batch * len(seconds) / sum(seconds),
            step_ms=1e3 * statistics.mean(seconds),
            versions={"torch": torch.__version__},
            isa=torch.backends.cpu.get_cpu_capability(),
        )
    torch.distributed.destroy_process_group()


def main():
    args = arguments()
    if "RANK" in os.environ:
        work(args)
        return 0
    return start_ranks(args)


if __name__ == "__main__":
    sys.exit(main())
