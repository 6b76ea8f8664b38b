"""The cases of endurance.py, a few times each."""

import random

import pytest

import endurance
from conftest import measures_memory

MEASURE_MEMORY = (endurance.opened, endurance.limits, endurance.flat)


@pytest.mark.parametrize("case", [
    pytest.param(case, marks=measures_memory) if case in MEASURE_MEMORY else case for case in endurance.CASES
], ids=lambda case: case.__name__)
def test_a_loader_bears(train, case):
    tried, seen = case(train, False, random.Random(1))
    assert tried and seen


@measures_memory
@pytest.mark.parametrize("spare_mib", [44, 45, 46, 48, 52, 60])  # at 45 and 46 oneTBB died, at 48 the loader hung
def test_a_limit_at_which_threads_cant_begin_is_a_memory_error(train, spare_mib):
    code, out, err = endurance.end_of(endurance.child(endurance.LIMITED, train, spare_mib << 20, "begin"))
    assert code == 0 and (out.startswith("OutOfMemoryError [loader] ") or out == "batches\n"), (code, out, err)
