"""Gets the secrets of a profile when they are needed: from a prompt, the system's keyring, or the
output of a command (`pass show kafka`, `op read …`). Secrets are never command-line arguments, and
pk never writes them to a file."""

import importlib
import shlex
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final

from pk.cli.exits import CommandError, Refused

SERVICE: Final = "pk"
"""The service name of pk's secrets in the keyring; the user name is `PROFILE/KEY`."""


def secret_values(profile: str, secrets: Mapping[str, str]) -> dict[str, str]:
    """The profile's secrets. Raises CommandError if a secret cannot be read, and Refused if there
    is no terminal to ask on."""
    return {key: _value(profile, key, source) for key, source in secrets.items()}


def _value(name: str, key: str, source: str) -> str:
    if source == "prompt":
        return ask_secret(f"{key} of profile {name}: ")
    if source == "keyring":
        found = keyring().get_password(SERVICE, f"{name}/{key}")
        if found is None:
            raise CommandError(
                f"The keyring has no {key} for profile {name}; `pk profile add {shlex.quote(name)} "
                f"--secret {key}=keyring` asks for it."
            )
        return str(found)
    return _printed(key, source.partition(":")[2])


def ask_secret(question: str) -> str:
    """Read a line without echo. Raises Refused if there is no terminal."""
    import getpass

    if not sys.stdin.isatty() or not sys.stderr.isatty():
        raise Refused(f"There is no terminal to ask for {question.rstrip(': ')}.")
    return getpass.getpass(question)


def keyring() -> Any:
    """The library for the system's keyring. Raises CommandError if it is not installed."""
    try:
        return importlib.import_module("keyring")
    except ImportError:
        raise CommandError(
            "The keyring needs the library `keyring`: pip install 'pk-broker[keyring]'."
        ) from None


def _printed(key: str, command: str) -> str:
    """The output of a command, without the final newline."""
    try:
        ended = subprocess.run(shlex.split(command), stdout=subprocess.PIPE, text=True, check=False)
    except (OSError, ValueError) as e:
        raise CommandError(f"The command for {key} cannot be run: {command!r}: {e}.") from None
    if ended.returncode:
        raise CommandError(
            f"The command for {key} failed with exit code {ended.returncode}: {command!r}."
        )
    return ended.stdout.rstrip("\r\n")
