"""Checks JSON Schema documents, and values against them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, cast

from pk.core.schemas.schema import SchemaError, UnfitValue, missing_library


def check(document: Any) -> None:
    """Check that the document is a valid schema of its draft. Raises SchemaError."""
    try:
        from jsonschema import exceptions, validators
    except ImportError as e:
        raise missing_library(e) from None
    found: Any = validators.validator_for(document, default=validators.Draft7Validator)
    try:
        found.check_schema(document)
    except exceptions.SchemaError as e:
        where = "/".join(map(str, e.absolute_path))
        raise SchemaError(f"{e.message[:300]} (at #/{where})") from None


def checker(text: str, dependencies: Iterable[tuple[str, str]] = ()) -> Callable[[Any], None]:
    """Return a function that raises UnfitValue for a value that does not fit the schema. Raises
    SchemaError."""
    try:
        import referencing
        from jsonschema import exceptions, validators
        from referencing.exceptions import Unresolvable
        from referencing.jsonschema import DRAFT7
    except ImportError as e:
        raise missing_library(e) from None
    document: Any = json.loads(text)
    named: list[Any] = [
        (name, referencing.Resource.from_contents(json.loads(each), default_specification=DRAFT7))
        for name, each in dependencies
    ]
    empty: Any = cast(Any, referencing.Registry)()
    registry: Any = empty.with_resources(named)
    kind: Any = validators.validator_for(document, default=validators.Draft7Validator)
    validator = kind(document, registry=registry)

    def run(value: Any) -> None:
        try:
            validator.validate(value)
        except exceptions.ValidationError as e:
            where = "/".join(map(str, e.absolute_path))
            raise UnfitValue(f"{e.message[:300]} (at #/{where})") from None
        except Unresolvable as e:
            raise SchemaError(f"$ref cannot be resolved: {e}") from None

    return run
