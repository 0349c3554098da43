"""The file of profiles as a document, so that a change keeps the user's comments and order."""

import os
from typing import Any

from pk.cli.runtime.paths import make_user_dir
from pk.cli.runtime.settings import profiles_file, read_profiles


def read_document() -> Any:
    """The file as a TOML document; empty if the file is missing. Raises CommandError if it is
    invalid."""
    import tomlkit

    path = profiles_file()
    read_profiles()  # raises if the file is invalid, before it is changed
    if not os.path.exists(path):
        return tomlkit.document()
    with open(path, encoding="utf-8") as file:
        return tomlkit.load(file)


def write_document(document: Any) -> None:
    """Replace the file, readable only by the user. Raises OSError."""
    import tomlkit

    make_user_dir("config")
    path = profiles_file()
    scratch = f"{path}.{os.getpid()}"
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        tomlkit.dump(document, file)
    os.replace(scratch, path)
