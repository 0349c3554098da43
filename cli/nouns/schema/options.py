"""Options of `pk schema`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.options.option_sets import SchemaRegistryUrl
from pk.cli.options.parameters import Argument, Option

Subject = Annotated[str, Argument("SUBJECT", help="The subject, such as orders-value.")]
SchemaFile = Annotated[
    str,
    Argument(
        "FILE", help="The schema: .avsc, .json or .proto; - is standard input.", complete="file"
    ),
]
SchemaKind = Annotated[
    Literal["avro", "json", "protobuf"] | None,
    Option("--type", help="The schema's language (default: by the file's name, else avro)."),
]
References = Annotated[
    tuple[str, ...],
    Option(
        "--reference",
        value="NAME=SUBJECT:VERSION",
        help="Resolve NAME in the schema to this version of another subject; repeatable.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class ListSubjects:
    """Options of `pk schema list`."""

    pattern: Annotated[
        str | None,
        Argument("PATTERN", help="Only subjects whose whole name matches this regular expression."),
    ] = None
    schema_registry: SchemaRegistryUrl = None
    versions: Annotated[
        bool, Option("--versions", help="Show every version, not only the latest.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class ShowSchema:
    """Options of `pk schema show`."""

    subject: Annotated[str, Argument("SUBJECT", help="The subject, or a schema's id.")]
    schema_registry: SchemaRegistryUrl = None
    version: Annotated[
        int | None, Option("--version", value="N", help="This version (default: the latest).")
    ] = None


@dataclass(frozen=True, kw_only=True)
class AddSchema:
    """Options of `pk schema add` and `pk schema check`."""

    subject: Subject
    file: SchemaFile
    schema_registry: SchemaRegistryUrl = None
    type: SchemaKind = None
    reference: References = ()


@dataclass(frozen=True, kw_only=True)
class DeleteSchema:
    """Options of `pk schema delete`."""

    subject: Subject
    schema_registry: SchemaRegistryUrl = None
    version: Annotated[
        int | None, Option("--version", value="N", help="Only this version (default: all).")
    ] = None
    permanent: Annotated[
        bool,
        Option(
            "--permanent", help="Delete permanently: records with its id can no longer be read."
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class DiffSchemas:
    """Options of `pk schema diff`."""

    subject: Subject
    other: Annotated[
        str | None,
        Argument("FILE", help="Compare the subject's version with this file.", complete="file"),
    ] = None
    schema_registry: SchemaRegistryUrl = None
    from_version: Annotated[
        int | None,
        Option("--from", value="N", help="The older version (default: the one before)."),
    ] = None
    to_version: Annotated[
        int | None, Option("--to", value="N", help="The newer version (default: the latest).")
    ] = None
