"""Later collections do not scan the survivors of a long one, which are freed when their last
reference goes; and collections are rare while a node starts."""

import gc
import weakref

import pytest

from pk.net.collector import rare_collections, short_collections


class Kept:
    """Something that a weak reference can watch."""


@pytest.fixture(autouse=True)
def thawed():
    gc.unfreeze()
    yield
    gc.unfreeze()


@pytest.mark.thorough
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
