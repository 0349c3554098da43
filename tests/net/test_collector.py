"""What survives a long collection is not looked at again; nothing that lives is lost by it, and
what dies is freed."""

import gc
import weakref

import pytest

from pk.net.collector import large_request, rare_collections, short_collections


class Kept:
    """Something that a weak reference can watch."""


@pytest.fixture(autouse=True)
def thawed():
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_the_survivors_of_a_long_collection_are_frozen() -> None:
    with short_collections(0):
        gc.collect(0)
        assert not gc.get_freeze_count(), "not a full one"
        kept = Kept()
        gc.collect()
        assert gc.get_freeze_count() and not any(o is kept for o in gc.get_objects())
        died = weakref.ref(kept)
        del kept
        assert died() is None
    frozen = gc.get_freeze_count()
    gc.collect()
    assert gc.get_freeze_count() <= frozen, "outside of it nothing is"


def test_those_of_a_short_one_are_not() -> None:
    with short_collections(1e9):
        gc.collect()
        assert not gc.get_freeze_count()


def test_while_a_node_starts_collections_are_rare() -> None:
    before = gc.get_threshold()
    with rare_collections():
        assert all(rare >= usual for rare, usual in zip(gc.get_threshold(), before, strict=True))
        assert gc.get_threshold()[0] > before[0]
    assert gc.get_threshold() == before


def test_nothing_is_collected_while_a_large_request_is_handled() -> None:
    before = gc.get_threshold()
    collections: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        collections.append(info["generation"])

    gc.collect()
    gc.callbacks.append(note)
    try:
        with large_request():
            with large_request():
                elements = [[number] for number in range(200_000)]
            assert gc.get_threshold() != before, "one is still handled"
            assert not collections
    finally:
        gc.callbacks.remove(note)
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() >= len(elements), "later ones do not look at what it left"


def test_thresholds_are_those_of_before_where_a_large_request_fails() -> None:
    before = gc.get_threshold()
    with pytest.raises(ValueError), large_request():
        raise ValueError
    assert gc.get_threshold() == before
