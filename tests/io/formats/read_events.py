"""Prints every scalar of a directory of event files, as TensorBoard's own reader sees them."""
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

events = EventAccumulator(sys.argv[1])
events.Reload()
for tag in sorted(events.Tags()["scalars"]):
    print(tag, " ".join(f"{scalar.step}={scalar.value}" for scalar in events.Scalars(tag)))
