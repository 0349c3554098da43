"""The schema registry of a command: from the option, or else PK_SCHEMA_REGISTRY, or else the
profile."""

import os
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from pk.cli.exits import CommandError, Exit, Unusable
from pk.cli.runtime.context import Context
from pk.core.nearest import did_you_mean

if TYPE_CHECKING:
    from pk.core.schemas.registry.errors import RegistryError
    from pk.net.schemas.client import SchemaRegistry

ENVIRONMENT = "PK_SCHEMA_REGISTRY"
USER_ENVIRONMENT = "PK_SCHEMA_REGISTRY_USER"


def where(context: Context, given: str | None) -> str:
    """The URL or the directory of the schema registry. Raises Unusable if none is named."""
    profile = context.settings.profile
    found = given or os.environ.get(ENVIRONMENT) or (profile.schema_registry if profile else None)
    if not found:
        raise Unusable(
            f"No schema registry is named: give --schema-registry URL, set {ENVIRONMENT}, or name "
            "one in the profile."
        )
    if given is not None and "@" in given.partition("://")[2].partition("/")[0]:
        raise Unusable(
            f"A password must not be on the command line: set {USER_ENVIRONMENT}=NAME:PASSWORD."
        )
    return found


def refused(error: "RegistryError") -> str:
    """A registry's refusal, without a period."""
    return f"{error.message.rstrip('.')} ({error.code})"


def no_subject(error: "RegistryError", subject: str, known: Iterable[str]) -> str:
    """The refusal of a subject that does not exist, with a suggestion of one that does."""
    hint = did_you_mean(subject, known, "; `pk schema list` lists subjects.")
    return f"{refused(error)}{hint}"


@asynccontextmanager
async def registry(
    context: Context, given: str | None, subject: str | None = None
) -> "AsyncGenerator[SchemaRegistry]":
    """The registry, closed at the end of the block. Its errors become CommandErrors, with a
    suggestion if `subject` does not exist."""
    try:
        from pk.core.schemas.registry.errors import SUBJECT_NOT_FOUND, RegistryError
        from pk.core.schemas.schema import MissingLibrary, SchemaError
        from pk.net.schemas.answers import RegistryUnreachable
        from pk.net.schemas.client import open_registry
    except ImportError as e:
        raise CommandError(
            f"{e.name} is missing: schemas need `pip install 'pk-broker[schemas]'`."
        ) from None
    user, _, password = os.environ.get(USER_ENVIRONMENT, "").partition(":")
    try:
        found = open_registry(where(context, given), user=user or None, password=password)
    except ValueError as e:
        raise Unusable(f"--schema-registry: {e}.") from None
    try:
        yield found
    except RegistryUnreachable as e:
        raise CommandError(f"{e}.", Exit.NO_CONNECTION) from None
    except RegistryError as e:
        code = Exit.NOT_AUTHORISED if e.status in (401, 403) else Exit.FAILED
        said = f"{refused(e)}."
        if e.code == SUBJECT_NOT_FOUND and subject is not None:
            said = no_subject(e, subject, await found.subjects())
        raise CommandError(said, code) from None
    except (SchemaError, MissingLibrary) as e:
        raise CommandError(f"{str(e).rstrip('.')}.") from None
    finally:
        await found.close()
