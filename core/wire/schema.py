"""The declaration of messages: classes whose annotations are their fields, in wire order.

    @struct
    class PartitionProduceData(Struct):
        index: Int32 = 0
        records: Records = field(default=None, nullable=0)

    @message(versions=(0, 13))
    class ProduceRequest(Request["ProduceResponse"]):
        acks: Int16 = 0
        topic_data: list[TopicProduceData] = field(default_factory=list)

Messages are msgspec structs with keyword arguments only. The garbage collector does not track them,
since messages form no reference cycles.
"""

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

import msgspec

from pk.core.api_keys import API_KEYS, BY_NAME
from pk.core.wire.types import BOOL, BYTES, RECORDS, STRING, Fixed, Variable

MISSING: Any = msgspec.NODEFAULT
T = TypeVar("T")
R = TypeVar("R", bound="Message")


class Field(NamedTuple):
    """A field: its default, and the versions that have it."""

    default: Any
    default_factory: Any = MISSING
    since: int = 0
    until: int | None = None
    nullable: int | tuple[int, int] | None = None
    tag: int | None = None
    ignorable: bool = False
    secret: bool = False

    def within(self, version: int) -> bool:
        """Return whether `version` has this field."""
        return self.since <= version and (self.until is None or version <= self.until)

    def nullable_in(self, version: int) -> bool:
        """Return whether the field may be null in `version`."""
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
    secret: bool = False,
) -> Any:
    """Declare a field of versions `since` to `until`, which may be null from version `nullable` on
    (or in a range). The keywords are the attributes of a field in Kafka's message definitions.

    With a `tag` it is a tagged field: on the wire only if it differs from its default. A version
    without an `ignorable` field omits it; any other field that a version lacks must have its
    default, or encoding fails. A `secret` is never shown by `repr`.
    """
    return Field(default, default_factory, since, until, nullable, tag, ignorable, secret)


class Struct:
    """The base of classes with fields, created by `@struct` and `@message`."""

    __slots__ = ()
    FIELDS: ClassVar[dict[str, Field]] = {}
    """Name → field, in wire order."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._shown())})"

    def _shown(self) -> Iterator[str]:
        """Yield the fields that differ from their defaults, with `…` for secrets."""
        for name, f in self.FIELDS.items():
            value = getattr(self, name)
            default = f.default if f.default_factory is MISSING else f.default_factory()
            if value != default:
                yield f"{name}={'…' if f.secret else repr(value)}"


class Message(Struct):
    """A struct that is encoded on its own, in one of its VERSIONS."""

    __slots__ = ()
    API_KEY: ClassVar[int] = -1
    """The api key of a request or response; -1 for other structs."""
    RECORD_TYPE: ClassVar[int] = -1
    """The type of a record in an internal topic, for the structs of its key and value. It is the
    version of the key."""
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    """The lowest and highest version that can be encoded and decoded. The range is wider than that
    of current Apache Kafka."""
    FLEXIBLE_SINCE: ClassVar[int | None] = None
    """The version from which strings and arrays are compact and tagged fields exist; None for
    never.
    """
    ENCODERS: ClassVar[dict[int, Callable[..., Any]]] = {}
    DECODERS: ClassVar[dict[int, Callable[..., Any]]] = {}


class Request(Message, Generic[R]):
    """A request. The class of its response is the type argument."""

    __slots__ = ()

    def changes_nothing(self) -> bool:
        """Return whether this request only reads, or only validates a change. An API is assumed to
        change something unless its row in the table says that it reads."""
        return API_KEYS[self.API_KEY].reads or getattr(self, "validate_only", False)


class Response(Message):
    """The response to a request."""

    __slots__ = ()


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def struct(cls: type[T]) -> type[T]:
    """Make `cls` a struct from its annotations."""
    return _build(cls, {})


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def message(
    *, versions: tuple[int, int], flexible: int | None = None, record_type: int = -1
) -> Callable[[type[T]], type[T]]:
    """Make a class a message with these versions, which are flexible from `flexible` on.

    For requests and responses, the table of APIs has the first flexible version and the API key.
    Raises KeyError if a class has no row there.
    """

    def make(cls: type[T]) -> type[T]:
        constants: dict[str, Any] = {
            "RECORD_TYPE": record_type,
            "VERSIONS": versions,
            "FLEXIBLE_SINCE": flexible,
            "ENCODERS": {},
            "DECODERS": {},
        }
        made: Any = cls
        if issubclass(made, (Request, Response)):
            api = BY_NAME[cls.__name__.removesuffix("Request").removesuffix("Response")]
            constants |= {"API_KEY": api.key, "FLEXIBLE_SINCE": api.flexible}
        return _build(cls, constants)

    return make


def _build(cls: type[T], constants: dict[str, Any]) -> Any:
    """Create the msgspec struct that `cls` declares. A decorator does this, since Python 3.11 takes
    four times as long to create instances of a class whose metaclass is written in Python."""
    fields: dict[str, Field] = {}
    defaults: dict[str, Any] = {}
    annotations = cls.__annotations__
    for name in annotations:
        value = cls.__dict__[name]
        fields[name] = f = value if isinstance(value, Field) else Field(value)
        defaults[name] = f.default
        if f.default_factory is not MISSING:
            defaults[name] = msgspec.field(default_factory=f.default_factory)
    namespace = {
        name: value
        for name, value in cls.__dict__.items()
        if name not in ("__dict__", "__weakref__")
    }
    namespace |= constants | defaults | {"FIELDS": fields}
    namespace |= {"__annotations__": annotations, "__qualname__": cls.__qualname__}
    bases = (*cls.__bases__, msgspec.Struct)
    return msgspec.StructMeta(cls.__name__, bases, namespace, kw_only=True, gc=False)


class Array(NamedTuple):
    """An array of `element`."""

    element: "Kind"


Kind = Fixed | Variable | Array | type[Struct]
"""A field's type, as the compiler knows it."""

_PLAIN: dict[Any, Kind] = {bool: BOOL, str: STRING, bytes: BYTES, Any: RECORDS}


def kind_of(annotation: Any) -> Kind:
    """Return the kind that `annotation` declares. Raises TypeError if there is none."""
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
