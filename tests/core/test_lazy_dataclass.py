"""The lazy decorator, beside the standard library's on the same classes."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from pk.core import lazy_dataclass

T = TypeVar("T")
Decorator = Callable[..., Any]
BOTH = pytest.mark.parametrize(
    "dataclass", [lazy_dataclass.dataclass, dataclasses.dataclass], ids=["lazy", "standard"]
)


@lazy_dataclass.dataclass(frozen=True, slots=True)
class Pair:
    """At the top of a module, so that pickle finds it."""

    left: int
    right: list[int] = field(default_factory=list, hash=False)


@lazy_dataclass.dataclass(slots=True)
class Counter:
    """The same, and it changes."""

    count: int = 0


@BOTH
def test_arguments_and_defaults(dataclass: Decorator) -> None:
    @dataclass(slots=True)
    class Shape:
        LIMIT: ClassVar[int] = 3
        a: int
        b: str = "b"
        c: list[int] = field(default_factory=list)
        d: dict[str, int] = field(default_factory=dict, kw_only=True)
        e: int = field(default=7, init=False)
        f: list[int] = field(default_factory=list, init=False)

    one = Shape(1)
    assert (one.a, one.b, one.c, one.d, one.e, one.f) == (1, "b", [], {}, 7, [])
    assert Shape(1, "x", [2], d={"y": 3}) == Shape(b="x", a=1, c=[2], d={"y": 3})
    assert Shape(1).c is not one.c
    assert Shape.LIMIT == 3 and Shape.__match_args__ == ("a", "b", "c")
    for wrong in ((), (1, "b", [], {}), (1, "b", [], 7, 7)):
        with pytest.raises(TypeError, match="argument"):
            Shape(*wrong)
    with pytest.raises(TypeError, match="unexpected keyword argument 'e'"):
        Shape(1, e=8)
    with pytest.raises(AttributeError):
        one.unknown = 1
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


@BOTH
def test_frozen(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True)
    class Value:
        a: int
        b: str = field(default="b", compare=False)

    one = Value(1)
    assert one == Value(1, "other") and hash(one) == hash(Value(1, "other"))
    assert one != Value(2) and one != (1, "b")
    assert len({Value(1), Value(1, "c"), Value(2)}) == 2
    for change in (lambda: setattr(one, "a", 2), lambda: delattr(one, "a")):
        with pytest.raises(FrozenInstanceError, match="'a'"):
            change()
    assert one.a == 1


@BOTH
def test_repr(dataclass: Decorator) -> None:
    @dataclass(slots=True)
    class Node:
        name: str
        secret: str = field(default="s", repr=False)
        other: Any = None

    node = Node("x")
    assert repr(node) == "test_repr.<locals>.Node(name='x', other=None)"
    node.other = node
    assert repr(node) == "test_repr.<locals>.Node(name='x', other=...)"
    assert Node.__qualname__ == "test_repr.<locals>.Node"

    @dataclass(slots=True, repr=False)
    class Silent:
        secret: str

        def __str__(self) -> str:
            return "silent"

    assert "hidden" not in repr(Silent("hidden"))


@BOTH
def test_own_methods_stay(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True)
    class Point:
        x: int
        y: int = 0

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError(f"{self.x}")

        def __eq__(self, other: object) -> bool:
            return getattr(other, "x", None) == self.x

        def __repr__(self) -> str:
            return f"<{self.x}>"

    assert Point(1, 2) == Point(1, 3) and repr(Point(1)) == "<1>"
    assert hash(Point(1, 2)) == hash(Point(1, 2)) != hash(Point(1, 3))
    with pytest.raises(ValueError, match="-1"):
        Point(-1)


@BOTH
def test_identity(dataclass: Decorator) -> None:
    @dataclass(slots=True, eq=False)
    class Thing:
        a: int

    one = Thing(1)
    same = one
    assert one == same and one != Thing(1) and len({one, Thing(1)}) == 2


@BOTH
def test_derived(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Base:
        a: int = 1
        b: int = 2

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Derived(Base):
        b: int = 3
        c: int

    one = Derived(c=4)
    assert (one.a, one.b, one.c) == (1, 3, 4)
    assert [f.name for f in dataclasses.fields(Derived)] == ["a", "b", "c"]
    assert Derived(c=4) == one != Base(a=1, b=3)
    assert not hasattr(one, "__dict__")

    class Undecorated(Base):
        def __init__(self) -> None:
            super().__init__(a=9)

    assert Undecorated().a == 9


def test_a_standard_dataclass_derives_from_a_lazy_one() -> None:
    @dataclasses.dataclass(frozen=True)
    class Derived(Pair):
        more: int = 0

    assert Derived(1, [2], 3) == dataclasses.replace(Derived(0, [2], 3), left=1)
    with pytest.raises(TypeError, match="non-frozen"):
        standard: Decorator = dataclasses.dataclass
        standard(type("Derived", (Pair,), {}))


@BOTH
def test_generic(dataclass: Decorator) -> None:
    @dataclass(slots=True)
    class Box(Generic[T]):
        value: T

    assert Box[int](3) == Box(3) and Box[int](3).value == 3


@BOTH
def test_what_others_see(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True)
    class Value:
        a: int
        b: list[int] = field(default_factory=list, metadata={"unit": "ms"})
        c: int = field(default=0, repr=False)

    made: Any = Value  # asked of the class before there is an instance
    assert dataclasses.is_dataclass(made)
    a, b, c = dataclasses.fields(made)
    assert (a.name, a.type, b.default_factory, dict(b.metadata), c.repr) == (
        "a",
        "int",
        list,
        {"unit": "ms"},
        False,
    )
    one = Value(1, [2])
    assert dataclasses.asdict(one) == {"a": 1, "b": [2], "c": 0}
    assert dataclasses.replace(one, a=5) == Value(5, [2])
    match one:
        case Value(1, [x]):
            assert x == 2
        case _:
            raise AssertionError("it does not match")


@pytest.mark.parametrize(
    "make", [copy.copy, copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))]
)
def test_copies(make: Callable[[Any], Any]) -> None:
    assert make(Pair(1, [2])) == Pair(1, [2])
    assert repr(make(Counter(3))) == "Counter(count=3)" and make(Counter(3)) == Counter(3)


@BOTH
def test_names_of_fields_that_others_have_too(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True)
    class Names:
        x: int
        set_x: int = 1
        d_x: list[int] = field(default_factory=list)
        instance: int = 2
        MISSING: int = 3
        values: int = 4
        named: int = 5

    assert Names(x=0, instance=7, values=8).instance == 7
    assert Names(0).d_x == [] and Names(0, 5).set_x == 5


def test_a_value_that_differs_from_itself() -> None:
    """Fields are compared as a tuple of them, as the standard library did before Python 3.13."""

    @lazy_dataclass.dataclass(frozen=True, slots=True)
    class Single:
        a: float

    nan = float("nan")
    assert Single(nan) == Single(nan)
    assert hash(Single(1.0)) == hash((1.0,))


if sys.version_info >= (3, 13):

    def test_copy_replace() -> None:
        assert copy.replace(Pair(1, [2]), left=3) == Pair(3, [2])


def test_bases_that_are_refused() -> None:
    @dataclasses.dataclass
    class Standard:
        a: int

    @lazy_dataclass.dataclass(slots=True)
    class Changing:
        a: int

    decorate: Decorator = lazy_dataclass.dataclass
    with pytest.raises(TypeError, match="Standard is a standard dataclass"):
        decorate(slots=True)(type("Derived", (Standard,), {}))
    with pytest.raises(TypeError, match="Changing differs: frozen"):
        decorate(slots=True, frozen=True)(type("Derived", (Changing,), {}))


@BOTH
def test_wrong_definitions(dataclass: Decorator) -> None:
    with pytest.raises(TypeError, match="x"):
        dataclass(slots=True)(type("NoType", (), {"x": field(default=1)}))
    with pytest.raises((TypeError, ValueError), match="a"):

        @dataclass(slots=True)
        class _:
            a: list[int] = field(default=[])

    with pytest.raises(TypeError, match="b"):

        @dataclass(slots=True)
        class _:
            a: int = 0
            b: int

    with pytest.raises((TypeError, ValueError), match="a"):

        @dataclass(slots=True)
        class _:
            a: list[int] = []  # noqa: RUF012


def test_nothing_is_compiled_before_the_first_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def counted(cls: type, *args: Any, **named: Any) -> Any:
        compiled.append(cls.__name__)
        return compile_init(cls, *args, **named)

    compile_init = lazy_dataclass.compile_init
    monkeypatch.setattr(lazy_dataclass, "compile_init", counted)

    @lazy_dataclass.dataclass(frozen=True, slots=True)
    class Late:
        a: int

    assert compiled == []
    assert Late(1) == Late(1) and repr(Late(2)).endswith("(a=2)")
    assert compiled == ["Late"]
