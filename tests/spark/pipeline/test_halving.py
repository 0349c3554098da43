"""Finding the records of a batch that fail by running parts of it."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

from hypothesis import given
from hypothesis import strategies as st

from pk.spark.pipeline.halving import failing
from pk.spark.read.ranges import OffsetRange

Place = tuple[int, int]


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[OffsetRange], list[Place]]:
    """Ranges, empty ones among them, and some of their offsets."""
    ranges: list[OffsetRange] = []
    for partition in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, 1000))
        ranges.append(OffsetRange("t", partition, begin, begin + draw(st.integers(0, 200))))
    places = [(r.partition, offset) for r in ranges for offset in range(r.begin, r.end)]
    chosen = st.lists(st.sampled_from(places), unique=True, max_size=12) if places else st.just([])
    return ranges, sorted(draw(chosen))


class Runs:
    """Runs that fail as the records among theirs do. Counts them."""

    def __init__(self, bad: Sequence[Place], pair: tuple[Place, Place] | None = None) -> None:
        self.bad = bad
        self.pair = pair
        self.count = 0

    def __call__(self, part: Sequence[OffsetRange]) -> str | None:
        self.count += 1

        def has(place: Place) -> bool:
            return any(r.partition == place[0] and r.begin <= place[1] < r.end for r in part)

        if self.pair is not None and all(map(has, self.pair)):
            return "together"
        return next((f"{place} fails" for place in self.bad if has(place)), None)


@given(batches(), st.integers(1, 13))
def test_what_fails_is_found_in_order_each_with_its_own_reason(
    batch: tuple[list[OffsetRange], list[Place]], most: int
) -> None:
    ranges, bad = batch
    runs = Runs(bad)
    said = runs(ranges)
    found = [] if said is None else failing(ranges, said, runs, most)
    wanted = [((p, o, o + 1), f"{(p, o)} fails") for p, o in bad][:most]
    assert [((r.partition, r.begin, r.end), why) for r, why in found] == wanted
    total = sum(r.offsets for r in ranges)
    assert runs.count <= 1 + len(bad[:most]) * (2 * log2(max(total, 2)) + 4)


@given(batches(), st.data())
def test_no_record_is_blamed_for_what_only_two_do_together(
    batch: tuple[list[OffsetRange], list[Place]], data: st.DataObject
) -> None:
    ranges, bad = batch
    places = [(r.partition, offset) for r in ranges for offset in range(r.begin, r.end)]
    if len(places) < 2:
        return
    one, other = data.draw(st.lists(st.sampled_from(places), min_size=2, max_size=2, unique=True))
    runs = Runs(bad, (one, other))
    said = runs(ranges)
    assert said is not None
    found = failing(ranges, said, runs, len(places))
    assert {(r.partition, r.begin) for r, _ in found} <= set(bad)
