"""Continues in the middle of an epoch with the batches that would have followed: python resume.py DATA"""

import json
import sys

import dlpipe

data = sys.argv[1]


def open_loader(threads):
    return dlpipe.Loader(f"{data}/train", augment="rrc(28) hflip", batch=32, seed=1, threads=threads, as_="numpy")


loader = open_loader(threads=1)
batches = iter(loader)
for _ in range(3):
    next(batches)
state = json.dumps(loader.state_dict())  # a few integers: keep it beside the model's weights
expected = [batch.image.copy() for batch in batches]  # the rest of the epoch

resumed = open_loader(threads=2)  # in another process; the number of threads does not matter
resumed.load_state_dict(json.loads(state))
followed = [batch.image.copy() for batch in resumed]

assert len(followed) == len(expected)
assert all((a == b).all() for a, b in zip(followed, expected))
print(f"the same {len(followed)} batches follow, bit for bit")
