"""Rates over a window and buckets of tokens, beside what Apache Kafka's formulas give."""

from __future__ import annotations

from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from pk.core.errors import ErrorCode, KafkaError
from pk.core.quota.mutations import Mutations
from pk.core.quota.rates import WAIT_MS_MAX, SampledRate, TokenBucket

NUM, SIZE_S = 11, 1.0


def rate(limit: float = 1000.0) -> SampledRate:
    return SampledRate(limit, NUM, SIZE_S)


def test_a_new_window_counts_as_if_it_had_been_silent() -> None:
    one = rate()
    one.record(60_000, 100.0)
    assert one.measured(100.0) == 6000
    assert one.wait_ms(100.0) == 50_000, "(6,000 - 1,000) / 1,000 * 10 s"


def test_what_is_within_the_limit_waits_for_nothing() -> None:
    one = rate()
    one.record(10_000, 5.0)
    assert one.wait_ms(5.0) == 0
    one.record(1, 5.0)
    assert one.wait_ms(5.0) == 1


def test_old_samples_are_forgotten() -> None:
    one = rate()
    one.record(60_000, 100.0)
    assert one.wait_ms(110.9) > 0
    assert one.wait_ms(111.0) == 0
    assert one.measured(200.0) == 0


def test_what_is_taken_back_does_not_count() -> None:
    one = rate()
    one.record(60_000, 100.0)
    one.record(-60_000, 100.0)
    assert one.wait_ms(100.0) == 0


def test_the_wait_fits_an_answer() -> None:
    one = rate(1e-9)
    one.record(1e9, 0.0)
    assert one.wait_ms(0.0) == WAIT_MS_MAX
    assert rate(float("nan")).wait_ms(0.0) == 0


@given(
    st.lists(st.tuples(st.floats(0, 3), st.integers(0, 5000)), max_size=60),
    st.sampled_from([2, 11]),
)
def test_the_rate_is_that_of_the_samples_that_are_not_too_old(
    steps: list[tuple[float, int]], num: int
) -> None:
    one, now_s, samples = SampledRate(500, num, SIZE_S), 1000.0, list[list[float]]()
    for pause_s, count in steps:
        now_s += pause_s
        if samples and now_s - samples[-1][0] < SIZE_S:
            samples[-1][1] += count
        else:
            samples.append([now_s, count])
        one.record(count, now_s)
        samples = [s for s in samples if s[0] > now_s - num * SIZE_S]
        elapsed = now_s - samples[0][0]
        missing = max(num - 1 - int(elapsed / SIZE_S), 0)
        window = max(elapsed + missing * SIZE_S, SIZE_S)
        expected = sum(s[1] for s in samples) / window
        assert abs(one.measured(now_s) - expected) < 1e-6


@settings(max_examples=examples(20))
@given(st.integers(100, 100_000), st.floats(0.01, 0.3))
def test_a_client_that_waits_as_it_is_told_keeps_its_rate(limit: int, share: float) -> None:
    """This holds if a request is smaller than a second's quota. A window has one much larger
    request more or less."""
    one, now_s, total, size = rate(limit), 0.0, 0, max(1, int(limit * share))
    while now_s < 120:
        one.record(size, now_s)
        total += size
        now_s += one.wait_ms(now_s) / 1000 + 0.001
    # The initial allowance is one window's worth.
    assert total <= limit * (now_s + NUM) * 1.10 + size


def test_a_bucket_holds_a_window_and_may_go_below_zero_once() -> None:
    bucket = TokenBucket(2.0, NUM, SIZE_S, 0.0)
    bucket.take(22, 0.0)
    assert bucket.wait_ms(0.0) == 0
    bucket.take(10, 0.0)
    assert bucket.wait_ms(0.0) == 5000
    assert bucket.wait_ms(4.0) == 1000
    assert bucket.wait_ms(5.0) == 0
    bucket.take(0, 1000.0)
    bucket.take(22, 1000.0)
    assert bucket.wait_ms(1000.0) == 0, "it holds no more than a window"
    bucket.take(1, 1000.0)
    assert bucket.wait_ms(1000.0) == 500
    bucket.set_limit(1.0, 1000.0)
    assert bucket.wait_ms(1000.0) == 1000


def refused(mutations: Mutations, *counts: int) -> list[bool]:
    found = []
    mutations.begin()
    for count in counts:
        try:
            mutations.take(count)
        except KafkaError as e:
            assert e.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
            found.append(True)
        else:
            found.append(False)
    return found


def test_strict_mutations_are_refused_below_zero_and_permissive_ones_are_not() -> None:
    bucket = TokenBucket(1.0, NUM, SIZE_S, 0.0)
    strict = Mutations(bucket, 0.0, strict=True)
    assert refused(strict, 10, 11, 1) == [False, False, True]
    assert strict.wait_ms() == 10_000
    assert refused(strict, 10, 11, 1) == [False, False, True], "made again, it is the same"
    later = Mutations(bucket, 0.0, strict=True)
    assert refused(later, 1) == [True]
    assert later.wait_ms() == 10_000, "what is refused takes nothing"
    permissive = Mutations(bucket, 0.0, strict=False)
    assert refused(permissive, 5, 5) == [False, False]
    assert permissive.wait_ms() == 20_000
