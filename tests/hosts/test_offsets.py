"""The measured offset of a host's monotonic clock, and its error, compared with a clock whose offset is known."""

from __future__ import annotations

from random import Random

import pytest

from harness.clusters.ssh.offsets import Measurement, bounds, error_of, measure

SECOND = 1_000_000_000


def simulated(offset_ns: int, drift: float, seed: int, *, count: int = 100) -> list[Measurement]:
    """Measure a clock that is ``offset_ns`` ahead at 0 and gains ``drift`` s a second, by round trips of 0.1 to 5 ms,
    with all of the delay on one side of some of them."""
    rng = Random(seed)
    found = []
    for number in range(count):
        now = [number * SECOND // 5]

        def clock(now: list[int] = now) -> int:
            return now[0]

        def read(now: list[int] = now) -> int:
            there, back = (round(rng.choice((0.0, 1.0, rng.random())) * 2_500_000) + 50_000 for _ in range(2))
            now[0] += there
            value = now[0] + offset_ns + int(drift * now[0])
            now[0] += back
            return value

        found.append(measure(read, clock))
    return found


@pytest.mark.parametrize("drift", [0.0, 2e-5, -5e-4])
@pytest.mark.parametrize("seed", range(3))
def test_the_true_offset_is_within_the_bounds_at_all_times(drift: float, seed: int) -> None:
    measurements = simulated(7_000 * SECOND, drift, seed)
    used = min(measurements[:20], key=lambda one: one.error_ns).offset_ns
    error = error_of(measurements, used)
    for at in range(0, 20 * SECOND, SECOND // 10):
        true = 7_000 * SECOND + int(drift * at)
        low, high = bounds(measurements, at)
        assert low <= true <= high
        assert abs(true - used) <= error
    assert error < 2_000_000 + abs(drift) * 20 * SECOND


def test_quick_round_trips_make_the_error_small() -> None:
    slow, quick = Measurement(0, 500, 1_000_000), Measurement(1000, 200, 10)
    assert error_of([slow, quick], 200) <= 10 + 2


def test_a_clock_that_was_not_steady_has_an_error_that_covers_all_its_measurements() -> None:
    before, after = Measurement(0, 0, 10), Measurement(1000, 50_000_000, 10)
    low, high = bounds([before, after], 1000)
    assert low > high
    assert error_of([before, after], 0) >= 50_000_000
