"""One of torchvision's models trained on the CPU in f32 on one cached batch, in one of PyTorch's modes or with
torch.compile(backend="dlpipe"). Prints one JSON line.

    python step.py --model resnet18 --mode dlpipe --batch 32 --seconds 10
    python step.py --model resnet18 --mode dlpipe --losses 50      # the losses beside eager's

Needs torch, torchvision and dlpipe.
"""

import argparse
import pathlib
import sys
import time

import torch
import torchvision

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import measure  # noqa: E402

MODES = ("dlpipe", "eager", "channels_last", "inductor")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--mode", choices=MODES, default="dlpipe")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--losses", type=int, default=0, metavar="STEPS", help="compare that many losses with eager's")
    parser.add_argument("--learning-rate", type=float, default=0.01)
    return parser.parse_args()


class Training:
    """A step of SGD with momentum on one batch; dropout off, so that two trainings can be compared."""

    def __init__(self, args, mode):
        torch.manual_seed(1)
        self.model = torchvision.models.get_model(args.model, weights=None)
        for module in self.model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        self.model.train()
        self.images = torch.randn(args.batch, 3, args.size, args.size)
        self.labels = torch.randint(0, 1000, (args.batch,))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=args.learning_rate, momentum=0.9)
        self.call = self.model
        if mode == "channels_last":
            self.model.to(memory_format=torch.channels_last)
            self.images = self.images.contiguous(memory_format=torch.channels_last)
        elif mode in ("dlpipe", "inductor"):
            self.call = torch.compile(self.model, backend=mode)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(self.call(self.images), self.labels)
        loss.backward()
        self.optimizer.step()
        return loss.item()


def compare(args):
    ours = Training(args, args.mode)
    losses = [ours.step() for _ in range(args.losses)]
    del ours
    eager = Training(args, "eager")
    expected = [eager.step() for _ in range(args.losses)]
    apart = max(abs(a - b) / max(abs(b), 1e-3) for a, b in zip(losses, expected))
    measure.report(model=args.model, mode=args.mode, steps=args.losses, first=losses[0], last=losses[-1],
                   eager_first=expected[0], eager_last=expected[-1], largest_relative_difference=apart)  # fmt: skip


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    if args.mode == "dlpipe" or args.losses:
        import dlpipe.torch_compile

        dlpipe.torch_compile.register()
    if args.losses:
        compare(args)
        return
    training = Training(args, args.mode)
    begin = time.monotonic()
    training.step()
    first_step_s = time.monotonic() - begin
    timed = measure.timed(training.step, args.batch, args.seconds, warm_up_steps=1, min_steps=2)
    versions = {"torch": torch.__version__, "torchvision": torchvision.__version__}
    measure.report(**timed, first_step_s=first_step_s, versions=versions)


if __name__ == "__main__":
    main()
