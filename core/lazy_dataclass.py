"""Dataclasses whose methods are made when they are first needed.

`dataclass` here is used like the standard library's, for classes with slots:

    from pk.core.lazy_dataclass import dataclass

    @dataclass(frozen=True, slots=True)
    class TopicPartition:
        topic: str
        partition: int

The standard decorator compiles four to seven functions for each class at import. The broker has
some hundred such classes, and compiling them was a third of the time in which it is imported; a
command, or the first test of a suite, uses few of them. Here the class gets its slots at import and
`__init__` is compiled for the first instance. Comparing, hashing and showing are closures that need
no compiling.

Such a class is a dataclass to others: `fields`, `replace`, `asdict`, `is_dataclass` and dataclasses
derived from it work. `order`, `unsafe_hash`, `InitVar` and `KW_ONLY` are missing, and so are bases
that are dataclasses of the standard library.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, field
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, Literal, NamedTuple, NoReturn, TypeVar, cast, dataclass_transform

T = TypeVar("T")


@dataclass_transform(field_specifiers=(field,))
def dataclass(
    *,
    slots: Literal[True],
    frozen: bool = False,
    eq: bool = True,
    repr: bool = True,
    kw_only: bool = False,
) -> Callable[[type[T]], type[T]]:
    """Make a class a dataclass with slots. The arguments mean what they mean in the standard
    library.

    Raises TypeError for a definition that the standard library refuses too, and for a base that is
    a dataclass of the standard library.
    """

    def make(cls: type[T]) -> type[T]:
        return _Definition(cls, frozen, kw_only).build(eq, repr)

    return make


class Parameter(NamedTuple):
    """A field to `compile_init`."""

    default: Any = MISSING
    default_factory: Any = MISSING
    init: bool = True
    """Whether it is a parameter of `__init__`."""
    kw_only: bool = False


def compile_init(
    cls: type, parameters: Mapping[str, Parameter], *, frozen: bool = False, then: bool = False
) -> Callable[..., None]:
    """The `__init__` of a class with slots: it sets each field of `parameters`. With `then` it
    calls `__post_init__`."""
    # No field has such names: those of the scope do not hide a parameter.
    scope: dict[str, Any] = {"_pk_MISSING": MISSING}
    lines: list[str] = []
    for name, (default, default_factory, init, _) in parameters.items():
        if default_factory is not MISSING:
            scope[f"_pk_default_{name}"] = default_factory
            made = "[]" if default_factory is list else f"_pk_default_{name}()"
            value = f"{made} if {name} is _pk_MISSING else {name}" if init else made
        elif default is not MISSING:
            scope[f"_pk_default_{name}"] = default
            value = name if init else f"_pk_default_{name}"
        elif init:
            value = name
        else:
            continue
        if frozen:
            scope[f"_pk_set_{name}"] = getattr(cls, name).__set__
            lines.append(f"    _pk_set_{name}(self, {value})")
        else:
            lines.append(f"    self.{name} = {value}")
    if then:
        lines.append("    self.__post_init__()")
    head = f"def __init__({', '.join(_signature(parameters))}):"
    exec("\n".join([head, *lines, "    return"]), scope)  # noqa: S102
    init = scope["__init__"]
    init.__module__, init.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    return init


def _signature(parameters: Mapping[str, Parameter]) -> Iterable[str]:
    yield "self"
    starred = False
    for name, parameter in sorted(parameters.items(), key=lambda each: each[1].kw_only):
        if not parameter.init:
            continue
        if parameter.kw_only and not starred:
            starred = True
            yield "*"
        if parameter.default_factory is not MISSING:
            yield f"{name}=_pk_MISSING"
        elif parameter.default is not MISSING:
            yield f"{name}=_pk_default_{name}"
        else:
            yield name


class _Own(NamedTuple):
    """A field with what the standard library wants to know of it."""

    annotation: Any
    field: Field[Any]


class _Definition:
    """The definition of one class, kept until its methods are needed."""

    def __init__(self, cls: type, frozen: bool, kw_only: bool) -> None:
        self.source = cls
        self.frozen = frozen
        self.own = _own_fields(cls, kw_only)
        self.fields: dict[str, _Own] = {}
        for base in reversed(cls.__mro__[1:]):
            definition = vars(base).get("_definition")
            if isinstance(definition, _Definition):
                self.fields |= definition.own
                if definition.frozen is not frozen:
                    raise TypeError(
                        f"{cls.__qualname__}: its base {base.__qualname__} differs: frozen"
                    )
            elif "__dataclass_fields__" in vars(base):
                raise TypeError(
                    f"{cls.__qualname__}: its base {base.__qualname__} is a standard dataclass"
                )
        self.fields |= self.own
        _check_order(cls, self.fields)

    def build(self, eq: bool, repr: bool) -> Any:
        """The class with slots. It replaces the one that was written, as in the standard
        library."""
        source, own = self.source, self.own
        namespace = {
            name: value
            for name, value in vars(source).items()
            if name not in own and name not in ("__dict__", "__weakref__")
        }
        inherited = {
            name for base in source.__mro__[1:] for name in vars(base).get("__slots__", ())
        }
        methods = self._methods(eq, repr)
        if any(name in namespace for name in ("__setattr__", "__delattr__")) and self.frozen:
            raise TypeError(f"{source.__qualname__} is frozen and sets attributes itself")
        if "__eq__" in namespace and namespace.get("__hash__") is None:
            namespace.pop("__hash__", None)  # Python's, not the class's
        namespace = methods | namespace
        namespace |= {
            "__slots__": tuple(name for name in own if name not in inherited),
            "__dataclass_fields__": _DataclassFields(),
            "_definition": self,
        }
        namespace.setdefault(
            "__match_args__",
            tuple(n for n, (_, f) in self.fields.items() if f.init and not f.kw_only),
        )
        self.made = type(source)(source.__name__, source.__bases__, namespace)
        self.made.__qualname__ = source.__qualname__
        return self.made

    def _methods(self, eq: bool, repr: bool) -> dict[str, Any]:
        shown = [name for name, (_, f) in self.fields.items() if f.repr]
        compared = [name for name, (_, f) in self.fields.items() if f.compare]
        hashed = [
            name
            for name, (_, f) in self.fields.items()
            if (f.compare if f.hash is None else f.hash)
        ]
        methods: dict[str, Any] = {"__init__": self._first_init()}
        if repr:
            methods["__repr__"] = _repr_of(shown)
        if eq:
            methods["__eq__"] = _eq_of(compared)
            methods["__hash__"] = _hash_of(hashed) if self.frozen else None
        if sys.version_info >= (3, 13):
            methods["__replace__"] = _replaced
        if self.frozen:
            methods |= {
                "__setattr__": _refuse_set,
                "__delattr__": _refuse_delete,
                "__getstate__": _getstate,
                "__setstate__": _setstate,
            }
        return methods

    def _first_init(self) -> Callable[..., None]:
        def __init__(instance: Any, /, *values: Any, **named: Any) -> None:
            made = self.made
            parameters = {
                name: Parameter(f.default, f.default_factory, f.init, bool(f.kw_only))
                for name, (_, f) in self.fields.items()
            }
            init = compile_init(
                made, parameters, frozen=self.frozen, then=hasattr(made, "__post_init__")
            )
            if vars(made)["__init__"] is __init__:
                made.__init__ = init
            init(instance, *values, **named)

        return __init__

    def standard(self) -> Any:
        """The same fields as a class of the standard library, which needs no methods."""
        namespace: dict[str, Any] = {
            "__annotations__": {name: annotation for name, (annotation, _) in self.fields.items()},
            "__module__": self.source.__module__,
            "__doc__": "",
        }
        namespace |= {name: f for name, (_, f) in self.fields.items()}
        model: Any = type(self.source.__name__, (), namespace)
        decorate: Any = dataclasses.dataclass
        return decorate(model, init=False, repr=False, eq=False, frozen=False)


class _DataclassFields:
    """`__dataclass_fields__`, made when the dataclasses module first asks."""

    def __get__(self, instance: object, owner: Any) -> dict[str, Field[Any]]:
        definition: _Definition = owner._definition
        model = definition.standard()
        params = model.__dataclass_params__
        params.frozen = definition.frozen
        definition.made.__dataclass_params__ = params
        definition.made.__dataclass_fields__ = model.__dataclass_fields__
        return model.__dataclass_fields__


def _own_fields(cls: type, kw_only: bool) -> dict[str, _Own]:
    annotations: dict[str, Any] = cls.__annotations__  # its own, never a base's
    own: dict[str, _Own] = {}
    for name, annotation in annotations.items():
        if str(annotation).startswith(("ClassVar", "typing.ClassVar")):
            continue
        value: Any = vars(cls).get(name, MISSING)
        if value is MISSING:
            value = field()
        elif not isinstance(value, Field):
            value = field(default=value)
        default: Any = cast(Any, value).default
        if default.__class__.__hash__ is None:
            raise TypeError(f"{cls.__qualname__}.{name}: a default that can change would be shared")
        if value.kw_only is MISSING:
            value.kw_only = kw_only
        own[name] = _Own(annotation, value)
    for name, value in vars(cls).items():
        if isinstance(value, Field) and name not in own:
            raise TypeError(f"{cls.__qualname__}.{name} is a field without a type")
    return own


def _check_order(cls: type, fields: Mapping[str, _Own]) -> None:
    optional: str | None = None
    for name, (_, f) in fields.items():
        if not f.init or f.kw_only:
            continue
        if f.default is not MISSING or f.default_factory is not MISSING:
            optional = name
        elif optional is not None:
            raise TypeError(
                f"{cls.__qualname__}: {name} has no default, and comes after {optional}, which has"
            )


def _values(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that returns the values of these fields."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda instance: tuple(getattr(instance, name) for name in names)


def _eq_of(names: list[str]) -> Callable[[Any, object], Any]:
    values = _values(names)

    def __eq__(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return __eq__


def _hash_of(names: list[str]) -> Callable[[Any], int]:
    values = _values(names)

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _repr_of(names: list[str]) -> Callable[[Any], str]:
    @recursive_repr()
    def __repr__(self: Any) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({shown})"

    return __repr__


def _refuse_set(self: object, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _replaced(self: Any, /, **changes: Any) -> Any:
    """Implement `copy.replace`."""
    return dataclasses.replace(self, **changes)


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__dataclass_fields__]


def _setstate(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__dataclass_fields__, state, strict=True):
        object.__setattr__(self, name, value)
