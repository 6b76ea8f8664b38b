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
