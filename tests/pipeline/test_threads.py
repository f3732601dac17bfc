"""Many threads on one backbone and one cache: every picture is the one that a single run makes."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import mast
from mast import Job, Region, Settings
from mast.features.cache import Cache
from tests.tiny import halves, picture

THREADS, JOBS = 8, 10
LEFT, RIGHT = halves(64, 64)
SETTINGS = Settings(steps=2, size=64, inversion="refined")


def job(i: int) -> Job:
    photo, one, two = (picture(64, 64, seed) for seed in (i, 10 + i, 20 + i))
    return Job(photo, (Region(one, LEFT), Region(two, RIGHT)))


@pytest.mark.slow
def test_eighty_jobs_in_eight_threads_are_bit_equal_and_leave_a_sound_cache(tiny_backbone, tmp_path):
    methods = ("mast", "styleid", "shared", "zstar")
    alone = {
        (i, name): np.asarray(mast.stylize(job(i), tiny_backbone, name, SETTINGS.with_(cache=False)).image)
        for i in range(5)
        for name in methods
    }
    shared = Cache(tmp_path / "cache")

    def paint(turn: int) -> bool:
        key = (turn % 5, methods[turn % 4])
        made = mast.stylize(job(key[0]), tiny_backbone, key[1], SETTINGS, cache=shared).image
        return bool(np.array_equal(np.asarray(made), alone[key]))

    with ThreadPoolExecutor(THREADS) as pool:
        assert all(pool.map(paint, range(THREADS * JOBS)))
    again = [
        np.asarray(mast.stylize(job(i), tiny_backbone, name, SETTINGS, cache=shared).image)
        for i, name in alone
    ]
    assert all(np.array_equal(a, b) for a, b in zip(again, alone.values(), strict=True))
    assert shared.entries()
