#!/usr/bin/env python3
"""What does a step send over a slow network, and how much of the sending is hidden behind backward?

    benchmarks/scaling/network.py DLPIPE [--ranks 2 4] [--rate 1gbit] [--delay-ms 0.2] [--model resnet18_cifar]

One rank in each network namespace, of one thread; bytes travel by TCP (namespaces.py). Beside what the program counts stand
2 (n-1)/n of the gradients' bytes and what the kernel saw leave each node. "Hidden" is the share of the communication
thread's time for which training did not wait. Linux, root; takes a few minutes on two cores.
"""

import argparse
import pathlib
import sys
import tempfile

import launch
import namespaces
import step_model

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "peers"))
import contest  # noqa: E402
import machine  # noqa: E402

HEADS = [
    "ranks", "network", "bucket, MB", "step, ms", "computing, ms", "communicating, ms", "hidden",
    "sent per step and rank, MB", "2 (n-1)/n of gradients, MB", "ratio", "on the wire, MB",
]  # fmt: skip


def row_of(nodes, ledger, receipt, batch, gradients, bucket_mb, wire_bytes):
    """A line of the table; `wire_bytes` of every node during the whole run."""
    done = launch.summary(ledger, receipt, batch)
    least = step_model.least_bytes(nodes.count, gradients)
    sent = done["bytes_sent_per_step"]
    waited = done["spans_ms"].get("collective", 0.0)
    return [
        str(nodes.count), f"{nodes.rate or 'no limit'}, {nodes.delay_ms:g} ms", f"{bucket_mb:g}", f"{done['step_ms']:.0f}",
        f"{done['step_ms'] - waited:.0f}", f"{done['communication_ms']:.0f}", f"{100 * done['hidden_share']:.0f} %",
        f"{sent / 1e6:.3f}", f"{least / 1e6:.3f}", f"{sent / least:.4f}",
        f"{max(wire_bytes) / ledger['steps'] / 1e6:.3f}",
    ]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dlpipe")
    parser.add_argument("--model", default="resnet18_cifar")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--batch", type=int, default=16, help="per rank")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--ranks", nargs="+", type=int, default=[2, 4])
    parser.add_argument("--buckets-mb", nargs="+", type=float, default=[1, 4, 25])
    parser.add_argument("--rate", default="1gbit", help="of each node, as tc says it; 'none': no limit")
    parser.add_argument("--delay-ms", type=float, default=0.2)
    options = parser.parse_args()
    rate = None if options.rate == "none" else options.rate
    gradients = launch.gradient_bytes(options.dlpipe, options.model, options.size)
    about, rows, links = machine.describe(), [], []
    with tempfile.TemporaryDirectory() as folder:
        data = launch.make_data(options.dlpipe, pathlib.Path(folder), options.size)
        for ranks in options.ranks:
            with namespaces.Nodes(ranks, rate, options.delay_ms) as nodes:
                links.append(nodes.measured())
                for bucket_mb in options.buckets_mb:
                    print(f"[scaling] {ranks} ranks, buckets of {bucket_mb:g} MB", file=sys.stderr, flush=True)
                    before = [nodes.bytes_sent(node) for node in range(1, ranks + 1)]
                    ledger, receipt = launch.train(
                        options.dlpipe, data, model=options.model, size=options.size, batch=options.batch * ranks,
                        steps=options.steps, grains=ranks, ranks=ranks, threads=1, launcher=nodes.launcher(ranks),
                        more=["--bucket-mb", bucket_mb],
                    )  # fmt: skip
                    wire = [nodes.bytes_sent(node) - was for node, was in enumerate(before, 1)]
                    rows.append(row_of(nodes, ledger, receipt, options.batch * ranks, gradients, bucket_mb, wire))
    print(f"Machine: {machine.line(about)}; dlpipe at commit {contest.commit()}")
    print(f"{options.model} at {options.size}, {options.batch} samples and one thread per rank, {options.steps} steps; "
          f"gradients {gradients / 1e6:.3f} MB")  # fmt: skip
    for ranks, link in zip(options.ranks, links):
        print(f"{ranks} nodes: a TCP round trip took {link['round_trip_ms']:.2f} ms, one stream {link['mbit_s']:.0f} Mbit/s, "
              f"two that go both ways {link['both_ways_mbit_s']:.0f} Mbit/s each")  # fmt: skip
    print("\n" + "\n".join(contest.markdown(HEADS, rows)))


if __name__ == "__main__":
    try:
        main()
    except namespaces.Impossible as reason:
        sys.exit(f"[scaling] not to be done on this machine: {reason}")
