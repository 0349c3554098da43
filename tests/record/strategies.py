"""Random records, as a producer may send them."""

from hypothesis import strategies as st

Row = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""Timestamp in ms, key, value, headers."""

timestamps = st.one_of(
    st.integers(1_700_000_000_000, 1_700_000_000_000 + 10_000),
    st.integers(0, 1 << 45),
    st.just(-1),
)
nullable_bytes = st.one_of(st.none(), st.binary(max_size=40), st.binary(min_size=60, max_size=70))
headers = st.lists(st.tuples(st.text(max_size=8), nullable_bytes), max_size=3).map(tuple)
rows = st.tuples(timestamps, nullable_bytes, nullable_bytes, st.one_of(st.just(()), headers))


@st.composite
def stretches(draw: st.DrawFn) -> list[Row]:
    """Rows of which many in a row are alike, and the stretches differ: what the quick paths of the
    walk turn on."""
    out: list[Row] = []
    for _ in range(draw(st.integers(1, 4))):
        timestamp, key, value, names = draw(rows)
        step = draw(st.sampled_from([0, 0, 1, -1, 40, 9000]))
        for i in range(draw(st.integers(1, 90))):
            fill = bytes((len(out) % 256,))
            out.append(
                (
                    timestamp + step * i,
                    None if key is None else fill * len(key),
                    None if value is None else fill * len(value),
                    names,
                )
            )
    return out
