"""How long does a data-parallel step take? Arithmetic alone: compute, the network's alpha and beta, buckets.

A rank computes forward, then backward; each bucket of gradients may travel once backward has finished its layers and the
bucket before it has arrived (one communication thread, as engine/collective has). An all-reduce by halving and doubling takes
log2(n) exchanges each way, so 2 log2(n) alpha + 2 (n-1)/n bytes beta. Its own work on a core, `core_s_per_byte`, comes on
top: bytes wait for it, and it makes computing longer where ranks have no core to spare.
"""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Machine:
    """`beside_s` is what a step takes beside forward and backward."""

    forward_s_per_sample: float
    backward_s_per_sample: float
    beside_s: float
    alpha_s: float  # of an exchange, whatever its size
    beta_s_per_byte: float  # of the wire
    core_s_per_byte: float  # of a core, for what is sent


def least_bytes(ranks, gradient_bytes):
    """What a rank sends at least in an all-reduce."""
    return 2 * (ranks - 1) / ranks * gradient_bytes


def bucket_up(layers, bucket_bytes):
    """[(bytes, share of backward after which the bucket is complete)] of layers [(bytes, flops)] from first to last.

    Backward takes them from the last; a bucket is closed once it has bucket_bytes or more, as in gradient_layout.h."""
    total = sum(flops for _, flops in layers)
    buckets, size, done = [], 0, 0
    for parameter_bytes, flops in reversed(layers):
        done += flops
        size += parameter_bytes
        if size >= bucket_bytes:
            buckets.append((size, done / total))
            size = 0
    if size:
        buckets.append((size, 1.0))
    return buckets


def all_reduce_s(machine, ranks, size, ranks_per_core=1.0):
    if ranks == 1:
        return 0.0
    per_byte = machine.beta_s_per_byte + machine.core_s_per_byte * ranks_per_core
    return 2 * math.log2(ranks) * machine.alpha_s + least_bytes(ranks, size) * per_byte


def step(machine, ranks, samples, buckets, ranks_per_core=1.0):
    """{step_s, compute_s, communication_s, hidden_share} of a step with `samples` per rank."""
    gradient_bytes = sum(size for size, _ in buckets)
    own_work = least_bytes(ranks, gradient_bytes) * machine.core_s_per_byte * ranks_per_core
    forward = samples * machine.forward_s_per_sample * ranks_per_core
    backward = samples * machine.backward_s_per_sample * ranks_per_core
    beside = machine.beside_s * ranks_per_core
    arrived = communication = 0.0
    for size, share in buckets:
        takes = all_reduce_s(machine, ranks, size, ranks_per_core)
        arrived = max(arrived, forward + backward * share) + takes
        communication += takes
    computed = forward + backward + own_work
    ended = max(computed, arrived)
    hidden = 1 - min(1.0, (ended - computed) / communication) if communication else 1.0
    return {
        "step_s": ended + beside,
        "compute_s": computed + beside,
        "communication_s": communication,
        "hidden_share": hidden,
    }
