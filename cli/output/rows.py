"""The rows of a list, declared once.

A row is a TypedDict: it is the JSON object that the command prints, so it needs no conversion, and
the type checker checks the worker against it. Each field is a column, in the order of the
declaration. `Shown` has the properties that the type does not express:

    class PartitionRow(TypedDict):
        topic: str
        partition: int
        idle_ms: Annotated[int | None, Shown("IDLE", show=show_span)]
        log_dir: Annotated[NotRequired[str], Shown(wide=True)]

The columns of the table (`columns`), the JSON Schema (`object_schema`), the names that `--columns`,
`--sort`, `--where` and their completion accept (`names`) and the list of columns in help and the
manual are derived from it. A description is a row too, with the rows of its parts inside:
`partitions: list[PartitionOfTopic]`.

A module with rows is imported together with the declarations of its noun, so also when help is
shown. To keep that fast, it imports only this module, `typing` and the functions that show a value.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    NotRequired,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

if TYPE_CHECKING:
    from pk.cli.output.formats import Column, Listing

RowType = TypeVar("RowType", bound=Mapping[str, object])


class Shown:
    """How a table shows a field.

    `title` is the column's title (default: the field's name in capitals). `show` formats a value
    for people; `null` replaces a missing one. A `wide` column is shown by `-f wide` only. Numbers
    are aligned `right`, everything else left, unless this is given. `on_terminal` writes the cell
    for a terminal, from the whole row. The cells of a `whole` column are folded last, since people
    copy their names from the screen. A `word` is one of a fixed set, such as a state: --where
    compares it in any case. A field whose type is a Literal is a word, too.
    """

    __slots__ = ("null", "on_terminal", "right", "show", "title", "whole", "wide", "word")

    def __init__(
        self,
        title: str | None = None,
        *,
        show: Callable[[Any], str] | None = None,
        null: str = "-",
        wide: bool = False,
        right: bool | None = None,
        on_terminal: Callable[[Any], str] | None = None,
        whole: bool = False,
        word: bool = False,
    ) -> None:
        self.title = title
        self.show = show
        self.null = null
        self.wide = wide
        self.right = right
        self.on_terminal = on_terminal
        self.whole = whole
        self.word = word

    def writer(self) -> Callable[[Any], str] | None:
        """A function that formats a value that may be missing; None if no special format is
        needed."""
        show, null = self.show, self.null
        if show is None and null == "-":
            return None
        if show is None:
            from pk.cli.output.formats import plain

            show = plain
        return lambda value: null if value is None else show(value)


_PLAIN: Final = Shown()


@cache
def _fields(kind: type) -> dict[str, tuple[Any, Shown, bool]]:
    """Each field: its type, its display, and whether every row has it."""
    assert is_typeddict(kind), kind
    required: frozenset[str] = vars(kind)["__required_keys__"]
    found: dict[str, tuple[Any, Shown, bool]] = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        shown = _PLAIN
        while (origin := get_origin(hint)) in (Annotated, NotRequired):
            if origin is Annotated:
                shown = next((m for m in hint.__metadata__ if isinstance(m, Shown)), shown)
            hint = get_args(hint)[0]
        found[name] = (hint, shown, name in required)
    return found


def _parts(hint: Any) -> tuple[list[Any], bool]:
    """The types that a value may have, and whether it may be null."""
    kinds = list(get_args(hint)) if get_origin(hint) in (Union, UnionType) else [hint]
    return [kind for kind in kinds if kind is not NoneType], NoneType in kinds


@cache
def _all_columns(kind: type) -> "tuple[Column, ...]":
    from pk.cli.output.formats import Column

    found: list[Column] = []
    for name, (hint, shown, _) in _fields(kind).items():
        kinds, _null = _parts(hint)
        is_number = bool(kinds) and all(each in (int, float) for each in kinds)
        right = is_number if shown.right is None else shown.right
        is_word = shown.word or all(get_origin(each) is Literal for each in kinds)
        found.append(
            Column(
                name,
                shown.writer(),
                shown.wide,
                right,
                shown.title,
                shown.on_terminal,
                shown.whole,
                is_word,
            )
        )
    return tuple(found)


def columns(
    kind: type, *, without: Collection[str] = (), wide: Collection[str] = ()
) -> "tuple[Column, ...]":
    """The columns of a list of such rows, except those of `without`. Only `-f wide` shows those in
    `wide` and those that are declared wide."""
    return tuple(
        column._replace(wide=True) if column.key in wide else column
        for column in _all_columns(kind)
        if column.key not in without
    )


def listing(
    kind: type[RowType],
    rows: Sequence[RowType],
    style: Callable[[RowType], str | None] | None = None,
    *,
    without: Collection[str] = (),
    wide: Collection[str] = (),
) -> "Listing":
    """A list of such rows. `style` names a rich style for a row that should stand out; `without`
    and `wide` are those of `columns`."""
    from pk.cli.output.formats import Listing

    found = columns(kind, without=without, wide=wide)
    return Listing(found, rows, style)  # pyright: ignore[reportArgumentType] - of these rows alone


def field_listing(row: Mapping[str, object]) -> "Listing":
    """A listing of a single row for people: a line for each field, with its name and its value."""
    from pk.cli.output.formats import Column, Listing

    lines = [{"name": name.replace("_", " "), "value": value} for name, value in row.items()]
    return Listing((Column("name"), Column("value")), lines)


def words_of(kind: type) -> frozenset[str]:
    """The fields whose values are of a fixed set."""
    return frozenset(column.key for column in _all_columns(kind) if column.word)


def part_of(kind: type[RowType], row: Mapping[str, object]) -> RowType:
    """The fields of `row` that rows of this type have, in the order of the type. An optional field
    may be missing."""
    return cast("RowType", {name: row[name] for name in names(kind) if name in row})


def annotations(kind: type) -> dict[str, Shown]:
    """How each field is shown."""
    return {name: shown for name, (_, shown, _) in _fields(kind).items()}


def names(kind: type) -> list[str]:
    """The names of the fields that `--columns`, `--sort` and `--where` accept."""
    return list(_fields(kind))


_TYPES: Final[dict[Any, dict[str, Any]]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
}


def object_schema(kind: type) -> dict[str, Any]:
    """The JSON Schema of one row."""
    fields = _fields(kind)
    return {
        "type": "object",
        "properties": {name: _schema(hint) for name, (hint, _, _) in fields.items()},
        "required": [name for name, (_, _, required) in fields.items() if required],
        "additionalProperties": False,
    }


def _schema(hint: Any) -> dict[str, Any]:
    """The JSON Schema of a value. Raises TypeError if JSON has no such value."""
    if hint is Any:
        return {}
    kinds, null = _parts(hint)
    if len(kinds) > 1:
        found = [_schema(each) for each in kinds]
        return {"anyOf": [*found, {"type": "null"}] if null else found}
    schema = _schema_of_one(kinds[0])
    if null and "type" in schema:
        schema["type"] = [schema["type"], "null"]
        if "enum" in schema:
            schema["enum"].append(None)
    return schema


def _schema_of_one(hint: Any) -> dict[str, Any]:
    origin, args = get_origin(hint), get_args(hint)
    if hint in _TYPES:
        return dict(_TYPES[hint])
    if is_typeddict(hint):
        return object_schema(hint)
    if origin is Literal:
        return {**_TYPES[type(args[0])], "enum": list(args)}
    if origin in (list, tuple, Sequence):
        return {"type": "array", "items": _schema(args[0])}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": _schema(args[1])}
    if hint is Any:
        return {}
    raise TypeError(f"a row cannot hold {hint}")
