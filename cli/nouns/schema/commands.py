"""The commands of `pk schema`, with their options."""

from typing import TYPE_CHECKING

from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import Change, Connection, Listing
from pk.cli.nouns.schema.options import (
    AddSchema,
    DeleteSchema,
    DiffSchemas,
    ListSubjects,
    ShowSchema,
)
from pk.cli.nouns.schema.rows import ChangedSchemaRow, CheckedSchemaRow, SubjectRow

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

SCHEMA = Noun("schema")


@SCHEMA.command(
    "list",
    "ls",
    takes=(Listing, Connection),
    examples=(
        "pk schema list --schema-registry ./schemas",
        "pk schema list 'orders-.*' --versions",
    ),
    notes=(
        "The registry is the one of --schema-registry, else of PK_SCHEMA_REGISTRY, else of the "
        "profile. PK_SCHEMA_REGISTRY_USER=NAME:PASSWORD logs in."
    ),
    shows=SubjectRow,
    repeatable=True,
)
def list_subjects(context: "Context", options: ListSubjects) -> Running:
    """List subjects, each with its latest schema."""
    from pk.cli.nouns.schema.schema import list_subjects

    return list_subjects(context, options)


@SCHEMA.command(
    "show",
    "cat",
    takes=(Connection,),
    examples=("pk schema show orders-value", "pk schema show orders-value --version 1"),
    notes="A number that is no subject's name is a schema's id.",
    repeatable=True,
)
def show(context: "Context", options: ShowSchema) -> Running:
    """Print a schema."""
    from pk.cli.nouns.schema.schema import show

    return show(context, options)


@SCHEMA.command(
    "add",
    "register",
    takes=(Change, Listing, Connection),
    examples=(
        "pk schema add orders-value order.avsc",
        "pk schema add payments-value payment.proto -d",
    ),
    notes="A schema that the subject has already is not added again.",
    shows=ChangedSchemaRow,
)
def add(context: "Context", options: AddSchema) -> Running:
    """Add a version to a subject, if it is compatible."""
    from pk.cli.nouns.schema.schema import add

    return add(context, options)


@SCHEMA.command(
    "check",
    takes=(Listing, Connection),
    examples=("pk schema check orders-value order.avsc",),
    notes="Ends with 1 if the schema may not follow, and says why.",
    shows=CheckedSchemaRow,
    repeatable=True,
)
def check(context: "Context", options: AddSchema) -> Running:
    """Check whether a schema may follow a subject's versions; change nothing."""
    from pk.cli.nouns.schema.schema import check

    return check(context, options)


@SCHEMA.command(
    "delete",
    "rm",
    takes=(Change, Listing, Connection),
    examples=(
        "pk schema delete orders-value --version 1",
        "pk schema delete orders-value",
    ),
    notes=(
        "What is deleted can still be read by its id, and a registry keeps it until it is deleted "
        "with --permanent, in a second step. There is no undo."
    ),
    shows=ChangedSchemaRow,
)
def delete(context: "Context", options: DeleteSchema) -> Running:
    """Delete a subject, or one version of it."""
    from pk.cli.nouns.schema.schema import delete

    return delete(context, options)


@SCHEMA.command(
    "diff",
    takes=(Connection,),
    examples=(
        "pk schema diff orders-value",
        "pk schema diff orders-value --from 1 --to 2",
        "pk schema diff orders-value order.avsc",
    ),
    repeatable=True,
)
def diff(context: "Context", options: DiffSchemas) -> Running:
    """Show what changed between two versions of a subject, or to a file."""
    from pk.cli.nouns.schema.schema import diff

    return diff(context, options)
