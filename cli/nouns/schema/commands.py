"""The commands of `pk schema`, with their options."""

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.schema.options import (
    AddSchema,
    DeleteSchema,
    DiffSchemas,
    ListSubjects,
    ShowSchema,
)
from pk.cli.nouns.schema.rows import ChangedSchemaRow, CheckedSchemaRow, SubjectRow
from pk.cli.options.option_sets import Change, Connection, Listing

SCHEMA = Noun("schema")


SCHEMA.command(
    "list",
    "ls",
    help="List subjects, each with its latest schema.",
    worker="schema:list_subjects",
    options=ListSubjects,
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


SCHEMA.command(
    "show",
    "cat",
    help="Print a schema.",
    worker="schema:show",
    options=ShowSchema,
    takes=(Connection,),
    examples=("pk schema show orders-value", "pk schema show orders-value --version 1"),
    notes="A number that is no subject's name is a schema's id.",
    repeatable=True,
)


SCHEMA.command(
    "add",
    "register",
    help="Add a version to a subject, if it is compatible.",
    worker="schema:add",
    options=AddSchema,
    takes=(Change, Listing, Connection),
    examples=(
        "pk schema add orders-value order.avsc",
        "pk schema add payments-value payment.proto -d",
    ),
    notes="A schema that the subject has already is not added again.",
    shows=ChangedSchemaRow,
)


SCHEMA.command(
    "check",
    help="Check whether a schema is compatible with a subject's versions; change nothing.",
    worker="schema:check",
    options=AddSchema,
    takes=(Listing, Connection),
    examples=("pk schema check orders-value order.avsc",),
    notes="Exits with 1 if the schema is not compatible, and says why.",
    shows=CheckedSchemaRow,
    repeatable=True,
)


SCHEMA.command(
    "delete",
    "rm",
    help="Delete a subject, or one version of it.",
    worker="schema:delete",
    options=DeleteSchema,
    takes=(Change, Listing, Connection),
    examples=(
        "pk schema delete orders-value --version 1",
        "pk schema delete orders-value",
    ),
    notes=(
        "A deleted schema can still be read by its id until it is deleted again with "
        "--permanent. There is no undo."
    ),
    shows=ChangedSchemaRow,
)


SCHEMA.command(
    "diff",
    help="Show what changed between two versions of a subject, or to a file.",
    worker="schema:diff",
    options=DiffSchemas,
    takes=(Connection,),
    examples=(
        "pk schema diff orders-value",
        "pk schema diff orders-value --from 1 --to 2",
        "pk schema diff orders-value order.avsc",
    ),
    repeatable=True,
)
