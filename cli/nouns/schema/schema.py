"""`pk schema`: manages the schemas of a registry, by URL or in a directory of files."""

import difflib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pk.cli.cluster.topics import whole
from pk.cli.exits import CommandError, Unusable
from pk.cli.nouns.schema.options import (
    AddSchema,
    DeleteSchema,
    DiffSchemas,
    ListSubjects,
    ShowSchema,
)
from pk.cli.nouns.schema.rows import ChangedSchemaRow, CheckedSchemaRow, SubjectRow
from pk.cli.output.rows import listing
from pk.cli.phrases import count
from pk.cli.runtime.context import Context
from pk.cli.schemas.reach import registry, where
from pk.core.schemas.languages import parse
from pk.core.schemas.registry.errors import RegistryError
from pk.core.schemas.registry.state import Version
from pk.core.schemas.schema import (
    AVRO,
    JSON,
    PROTOBUF,
    SUFFIXES,
    Reference,
    Schema,
    SchemaError,
)
from pk.core.schemas.wire_format import SchemaId

if TYPE_CHECKING:
    from pk.net.schemas.client import SchemaRegistry


async def list_subjects(context: Context, options: ListSubjects) -> None:
    """Run `pk schema list`."""
    wanted = None if options.pattern is None else whole(options.pattern, "PATTERN")
    rows: list[SubjectRow] = []
    async with registry(context, options.schema_registry) as asked:
        for subject in await asked.subjects():
            if wanted is not None and not wanted.fullmatch(subject):
                continue
            level = await asked.level(subject)
            every = (
                await asked.versions(subject)
                if options.versions
                else [await asked.version(subject, -1)]
            )
            rows += [_row(each, level) for each in every]
    context.show(listing(SubjectRow, rows))
    if not rows:
        context.say_empty(
            "No subjects; `pk schema add SUBJECT FILE` adds one."
            if wanted is None
            else "No subjects match."
        )


def _row(version: Version, level: str) -> SubjectRow:
    return {
        "subject": version.subject,
        "version": version.version,
        "id": version.id,
        "type": version.schema.type,
        "references": len(version.schema.references),
        "compatibility": level,
    }


async def show(context: Context, options: ShowSchema) -> None:
    """Run `pk schema show`."""
    async with registry(context, options.schema_registry, options.subject) as asked:
        schema = await _named(asked, options.subject, options.version)
    context.write(f"{_pretty(schema)}\n".encode())


async def _named(asked: "SchemaRegistry", name: str, version: int | None) -> Schema:
    try:
        return (await asked.version(name, -1 if version is None else version)).schema
    except RegistryError:
        if not name.isdecimal() or version is not None:
            raise
        return (await asked.resolved(SchemaId(id=int(name)))).schema


def _pretty(schema: Schema) -> str:
    if schema.type == PROTOBUF:
        return schema.text.rstrip("\n")
    return json.dumps(json.loads(schema.text), indent=2, ensure_ascii=False)


def _read(options: AddSchema) -> Schema:
    """Read the schema of the command line. Raises Unusable."""
    kinds = {"avro": AVRO, "json": JSON, "protobuf": PROTOBUF}
    return _schema_of(
        options.file,
        kinds[options.type] if options.type is not None else None,
        [_reference(each) for each in options.reference],
    )


def _schema_of(name: str, kind: str | None, references: Sequence[Reference] = ()) -> Schema:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text()
    except (OSError, UnicodeDecodeError) as e:
        raise Unusable(f"{name} cannot be read: {getattr(e, 'strerror', None) or e}.") from None
    return Schema(text, kind or SUFFIXES.get(Path(name).suffix, AVRO), tuple(references))


def _reference(given: str) -> Reference:
    name, _, target = given.partition("=")
    subject, _, version = target.rpartition(":")
    if not name or not subject or not version.isdecimal():
        raise Unusable(f"--reference must be NAME=SUBJECT:VERSION, not {given!r}.")
    return Reference(name, subject, int(version))


async def _canonical(asked: "SchemaRegistry", schema: Schema, subject: str) -> Schema:
    """The schema in canonical form. Raises CommandError, with the problem, if it is invalid."""
    try:
        parsed = parse(await asked.resolve(schema, subject))
    except SchemaError as e:
        raise CommandError(f"The schema is invalid: {str(e).rstrip('.')}.") from None
    return Schema(parsed.text, schema.type, schema.references)


async def check(context: Context, options: AddSchema) -> None:
    """Run `pk schema check`."""
    async with registry(context, options.schema_registry, options.subject) as asked:
        schema = await _canonical(asked, _read(options), options.subject)
        reasons = await asked.check(options.subject, schema)
    # The rest of the messages is about the old schema, which `pk schema diff` shows better.
    named = [each for each in reasons if "errorType" in each] or reasons
    rows: list[CheckedSchemaRow] = [
        {"subject": options.subject, "compatible": not reasons, "reason": each}
        for each in (named or [None])
    ]
    if reasons:
        context.fail(CommandError("The schema is not compatible."))
    context.show(listing(CheckedSchemaRow, rows))


async def add(context: Context, options: AddSchema) -> None:
    """Run `pk schema add`."""
    subject = options.subject
    async with registry(context, options.schema_registry, options.subject) as asked:
        schema = await _canonical(asked, _read(options), subject)
        existing = await _existing(asked, subject, schema)
        if existing is not None:
            row = _changed(subject, existing.version, existing.id, "already there")
            context.show(listing(ChangedSchemaRow, [row]))
            return
        reasons = await asked.check(subject, schema)
        if reasons:
            raise CommandError(
                f"The schema is not compatible with {subject}: {'; '.join(reasons[:3])}."
            )
        if context.change.dry_run:
            row = _changed(subject, None, None, "would be added")
        else:
            context.say(
                f"This adds a version to {subject} at {where(context, options.schema_registry)}."
            )
            await context.agree("Add?", name=subject)
            new = await asked.register(subject, schema)
            row = _changed(subject, new.version, new.id, "added")
    context.show(listing(ChangedSchemaRow, [row]))


async def _existing(asked: "SchemaRegistry", subject: str, schema: Schema) -> Version | None:
    try:
        versions = await asked.versions(subject)
    except RegistryError as e:
        if e.status == 404:
            return None
        raise
    return next((each for each in versions if each.schema == schema), None)


def _changed(
    subject: str, version: int | None, schema_id: int | None, result: str
) -> ChangedSchemaRow:
    return {"subject": subject, "version": version, "id": schema_id, "result": result}


async def delete(context: Context, options: DeleteSchema) -> None:
    """Run `pk schema delete`."""
    subject = options.subject
    async with registry(context, options.schema_registry, options.subject) as asked:
        versions = await asked.versions(subject, deleted=options.permanent)
        numbers = [each.version for each in versions]
        if options.version is not None and options.version not in numbers:
            raise CommandError(f"{subject} has no version {options.version}.")
        chosen = numbers if options.version is None else [options.version]
        what = f"{subject} with {count(len(numbers), 'version')}"
        if options.version is not None:
            what = f"version {options.version} of {subject}"
        how = " permanently: records with its id can no longer be read" if options.permanent else ""
        context.say(f"This deletes {what}{how}.")
        if context.change.dry_run:
            done, result = chosen, "would be deleted"
        else:
            await context.agree("Delete?", name=subject)
            done = await asked.delete(subject, options.version, permanent=options.permanent)
            result = "deleted permanently" if options.permanent else "deleted"
    ids = {each.version: each.id for each in versions}
    rows = [_changed(subject, each, ids.get(each), result) for each in done]
    context.show(listing(ChangedSchemaRow, rows))


async def diff(context: Context, options: DiffSchemas) -> None:
    """Run `pk schema diff`."""
    subject = options.subject
    async with registry(context, options.schema_registry, options.subject) as asked:
        newest = await asked.version(subject, options.to_version or -1)
        if options.other is not None:
            older, name = newest, options.other
            given = _schema_of(options.other, None)
            text = _pretty(await _canonical(asked, given, subject))
        else:
            older, name = await _before(asked, newest, options.from_version), ""
            text = _pretty(newest.schema)
    lines = difflib.unified_diff(
        _pretty(older.schema).splitlines(),
        text.splitlines(),
        f"{subject} version {older.version}",
        name or f"{subject} version {newest.version}",
        lineterm="",
    )
    context.write("".join(f"{line}\n" for line in lines).encode())


async def _before(asked: "SchemaRegistry", newest: Version, number: int | None) -> Version:
    if number is not None:
        return await asked.version(newest.subject, number)
    older = [e for e in await asked.versions(newest.subject) if e.version < newest.version]
    if not older:
        raise CommandError(f"{newest.subject} has no version before {newest.version}.")
    return older[-1]
