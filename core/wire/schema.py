"""What a message is: a class whose annotations are its fields, in wire order.

    @struct
    class PartitionProduceData(Struct):
        index: Int32 = 0
        records: Records = field(default=None, nullable=0)

    @message(versions=(0, 13), flexible=9, key=0)
    class ProduceRequest(Request["ProduceResponse"]):
        acks: Int16 = 0
        topic_data: list[TopicProduceData] = field(default_factory=list)

A type checker reads these as dataclasses with keyword-only constructors, and so they behave: slots,
equality, a repr that shows what differs from the defaults, and `dataclasses.replace`, `fields` and
`asdict` work. They are not made by the dataclasses module because that compiles four functions a
class at import; there are hundreds of classes here, and a command line must not wait for them. As
in core/lazy_dataclass.py, `__init__` is compiled when the first instance is made.
"""

import dataclasses
from collections.abc import Callable, Iterator
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)

from pk.core.api_keys import API_KEYS
from pk.core.lazy_dataclass import Parameter, compile_init
from pk.core.wire.types import BOOL, BYTES, RECORDS, STRING, Fixed, Variable

MISSING: Any = dataclasses.MISSING
T = TypeVar("T")
R = TypeVar("R", bound="Message")


class Field(NamedTuple):
    """A field: its default, and the versions that know it."""

    default: Any
    default_factory: Any
    since: int
    until: int | None
    nullable: int | tuple[int, int] | None
    tag: int | None
    ignorable: bool

    def within(self, version: int) -> bool:
        """Whether `version` has this field."""
        return self.since <= version and (self.until is None or version <= self.until)

    def nullable_in(self, version: int) -> bool:
        """Whether the field may be null in `version`."""
        if self.nullable is None:
            return False
        if isinstance(self.nullable, tuple):
            return self.nullable[0] <= version <= self.nullable[1]
        return version >= self.nullable


def field(
    *,
    default: Any = MISSING,
    default_factory: Callable[[], Any] = MISSING,
    since: int = 0,
    until: int | None = None,
    nullable: int | tuple[int, int] | None = None,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """A field that versions `since` to `until` have, and that may be null from version `nullable`
    on (or in a range).

    With a `tag` it is a tagged field: on the wire only where it differs from its default. One that
    is `ignorable` is dropped where a version lacks it; any other refuses to be encoded then, unless
    it has its default.
    """
    return Field(default, default_factory, since, until, nullable, tag, ignorable)


class _DataclassFields:
    """`__dataclass_fields__`, made when the dataclasses module first asks."""

    def __get__(self, instance: object, owner: type["Struct"]) -> dict[str, Any]:
        specs = [
            (
                name,
                owner.ANNOTATIONS[name],
                dataclasses.field(default_factory=f.default_factory)
                if f.default_factory is not MISSING
                else dataclasses.field(default=f.default),
            )
            for name, f in owner.FIELDS.items()
        ]
        made: Any = dataclasses.make_dataclass(owner.__name__, specs, kw_only=True)
        fields: dict[str, Any] = made.__dataclass_fields__
        type.__setattr__(owner, "__dataclass_fields__", fields)
        return fields


class Struct:
    """What is made of fields. Its classes come from `@struct` and `@message`."""

    __slots__ = ()
    FIELDS: ClassVar[dict[str, Field]] = {}
    ANNOTATIONS: ClassVar[dict[str, Any]] = {}

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        cls.__init__ = compile_init(
            cls,
            {
                name: Parameter(f.default, f.default_factory, True, True)
                for name, f in cls.FIELDS.items()
            },
        )
        self.__init__(**values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.FIELDS)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._shown())})"

    def _shown(self) -> Iterator[str]:
        for name, f in self.FIELDS.items():
            value = getattr(self, name)
            default = f.default if f.default_factory is MISSING else f.default_factory()
            if value != default:
                yield f"{name}={value!r}"


class Message(Struct):
    """A struct that is encoded by itself, in one of its VERSIONS."""

    __slots__ = ()
    API_KEY: ClassVar[int] = -1
    """The api key of a request or response; -1 for other structs."""
    RECORD_TYPE: ClassVar[int] = -1
    """For keys and values of internal topics: the version of the key, which says what the record
    is.
    """
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    """The lowest and highest version that can be encoded and decoded: wider than what Apache serves
    today.
    """
    FLEXIBLE_SINCE: ClassVar[int | None] = None
    """The version from which strings and arrays are compact and tagged fields exist; None for
    never.
    """
    ENCODERS: ClassVar[dict[int, Callable[..., Any]]] = {}
    DECODERS: ClassVar[dict[int, Callable[..., Any]]] = {}


class Request(Message, Generic[R]):
    """A request, and in the brackets what answers it."""

    __slots__ = ()

    def changes_nothing(self) -> bool:
        """Whether this request only reads, or only validates a change. An API whose row in the
        table does not say that it reads is assumed to change something."""
        row = API_KEYS.get(self.API_KEY)
        return (row is not None and row.reads) or getattr(self, "validate_only", False)


class Response(Message):
    """The response to a request."""

    __slots__ = ()


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def struct(cls: type[T]) -> type[T]:
    """Make `cls` a struct of its annotations."""
    return _build(cls, {})


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def message(
    *,
    versions: tuple[int, int],
    flexible: int | None = None,
    key: int = -1,
    record_type: int = -1,
) -> Callable[[type[T]], type[T]]:
    """Make a class a message of these versions, compact from version `flexible` on."""

    def make(cls: type[T]) -> type[T]:
        return _build(
            cls,
            {
                "API_KEY": key,
                "RECORD_TYPE": record_type,
                "VERSIONS": versions,
                "FLEXIBLE_SINCE": flexible,
                "ENCODERS": {},
                "DECODERS": {},
            },
        )

    return make


def _build(cls: type[T], constants: dict[str, Any]) -> type[T]:
    annotations = dict(cls.__annotations__)  # its own, never a base's
    fields: dict[str, Field] = {}
    for name in annotations:
        value = cls.__dict__[name]
        if not isinstance(value, Field):
            value = Field(value, MISSING, 0, None, None, None, False)
        fields[name] = value
    namespace = {
        name: value
        for name, value in cls.__dict__.items()
        if name not in fields and name not in ("__dict__", "__weakref__")
    }
    namespace |= constants
    namespace |= {
        "__slots__": tuple(fields),
        "__match_args__": (),
        "FIELDS": fields,
        "ANNOTATIONS": annotations,
        "__dataclass_fields__": _DataclassFields(),
    }
    return type(cls)(cls.__name__, cls.__bases__, namespace)


class Array(NamedTuple):
    """An array of `element`."""

    element: "Kind"


Kind = Fixed | Variable | Array | type[Struct]
"""What the compiler knows of a field's type."""

_PLAIN: dict[Any, Kind] = {bool: BOOL, str: STRING, bytes: BYTES, Any: RECORDS}


def kind_of(annotation: Any) -> Kind:
    """The kind that `annotation` declares. Raises TypeError if it is none."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return annotation.__metadata__[0]
    if origin in (Union, UnionType):
        (inner,) = (a for a in get_args(annotation) if a is not NoneType)
        return kind_of(inner)
    if origin is list:
        return Array(kind_of(get_args(annotation)[0]))
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return annotation
    raise TypeError(f"not a type of a field: {annotation!r}")
