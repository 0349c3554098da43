"""Random messages made from their own declarations, and walks over them that the codecs compared
with ours need.
"""

import random
from collections.abc import Callable, Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final

import pk.core.wire.messages as package
from pk.core.wire.emit import fields_of
from pk.core.wire.schema import MISSING, Array, Field, Kind, Message, Struct
from pk.core.wire.types import RECORDS, STRING, UUID, Fixed

TEXTS = ("", "a", "topic-1", "größe", "名前", "😀", "x" * 127, "y" * 128, "z" * 300)


def all_messages() -> list[type[Message]]:
    """Every message class that is declared, by module and place."""
    found = []
    for info in iter_modules(package.__path__):
        module = import_module(f"{package.__name__}.{info.name}")
        found += [
            value
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, Message)
            and value.__module__ == module.__name__
        ]
    return found


def versions(cls: type[Message]) -> range:
    """Every version that `cls` can be encoded in."""
    return range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)


def cases() -> Iterator[tuple[type[Message], int]]:
    """Every message in every version."""
    for cls in all_messages():
        for version in versions(cls):
            yield cls, version


OWN_FIELDS: Final = frozenset({"EnvelopeResponse.image_offset"})
"""Fields that Apache Kafka's messages do not have: tagged, so that others pass them over."""


def shared_fields(cls: type[Struct]) -> Iterator[tuple[str, Kind, Field]]:
    """The fields that Apache Kafka's message has too."""
    return (f for f in fields_of(cls) if f"{cls.__name__}.{f[0]}" not in OWN_FIELDS)


class Maker:
    """Makes random values.

    `records` makes the content of a records field; `small` keeps all of it short.
    """

    def __init__(
        self,
        seed: int,
        records: Callable[[random.Random], bytes] | None = None,
        items_max: int = 3,
        small: bool = False,
    ) -> None:
        self.random = random.Random(seed)
        self.small = small
        self.records = records or (lambda r: r.randbytes(r.randint(0, 200)))
        self.items_max = 1 if small else items_max

    def message(self, cls: type[Struct], version: int) -> Any:
        """A random `cls`: fields that `version` lacks keep their defaults."""
        made = cls()
        for name, kind, f in shared_fields(cls):
            if f.within(version) and not (f.tag is not None and self.random.random() < 0.4):
                setattr(made, name, self.value(kind, f, version))
        return made

    def value(self, kind: Kind, f: Field | None, version: int) -> Any:
        """A random value of `kind`."""
        if f is not None and f.nullable_in(version) and self.random.random() < 0.25:
            return None
        if isinstance(kind, Fixed):
            return self.fixed(kind)
        if isinstance(kind, Array):
            if isinstance(kind.element, Fixed) and not self.small and self.random.random() < 0.1:
                return [self.fixed(kind.element) for _ in range(150)]
            count = 1 if self.small else self.random.randint(0, self.items_max)
            return [self.value(kind.element, None, version) for _ in range(count)]
        if isinstance(kind, type):
            return self.message(kind, version)
        if kind == STRING:
            return self.random.choice(TEXTS[:6] if self.small else TEXTS)
        if kind == RECORDS and not self.small:
            return self.records(self.random)
        sizes = (0, 1, 7) if self.small else (0, 1, 7, 126, 127, 128, 400)
        return self.random.randbytes(self.random.choice(sizes))

    def fixed(self, kind: Fixed) -> Any:
        """A random value of a type of fixed width, its bounds among them."""
        if kind == UUID:
            return self.random.choice((bytes(16), self.random.randbytes(16)))
        if kind.letter == "?":
            return self.random.random() < 0.5
        if kind.letter == "d":
            return self.random.choice((0.0, -1.5, 1e300, self.random.random()))
        bits = 8 * kind.size
        if kind.letter.isupper():
            return self.random.choice((0, 1, (1 << bits) - 1, self.random.getrandbits(bits)))
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1
        return self.random.choice((0, 1, -1, low, high, self.random.randint(low, high)))


def camel(name: str) -> str:
    """The field's name as Kafka's JSON converters have it."""
    if name.startswith("kraft"):
        name = "k_raft" + name.removeprefix("kraft")
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def walk(
    message: Struct, version: int, leaf: Callable[[Kind, Any], Any], *, tagged: bool = True
) -> dict[str, Any]:
    """The fields that `version` has, by their attribute's name; `leaf` converts values that are
    neither structs nor arrays.
    """

    def turn(kind: Kind, value: Any) -> Any:
        if value is None:
            return None
        if isinstance(kind, Array):
            return [turn(kind.element, item) for item in value]
        if isinstance(kind, type):
            return walk(value, version, leaf, tagged=tagged)
        return leaf(kind, value)

    return {
        name: turn(kind, getattr(message, name))
        for name, kind, f in shared_fields(type(message))
        if f.within(version) and (tagged or f.tag is None)
    }


def default(f: Field) -> Any:
    """A fresh default of `f`."""
    return f.default if f.default_factory is MISSING else f.default_factory()
