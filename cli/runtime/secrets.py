"""Where the secrets of a profile come from when they are needed: asked for, out of the system's keyring, or what a command
prints (`pass show kafka`, `op read …`). They are never arguments of a command and never in a file of ours.
"""

import importlib
import shlex
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final

from pk.cli.runtime.exits import CommandError, Refused

SERVICE: Final = "pk"
"""The service under which secrets lie in the keyring; the name is `PROFILE/KEY`."""


def secret_values(profile: str, secrets: Mapping[str, str]) -> dict[str, str]:
    """The profile's secrets. Raises CommandError where one cannot be had, Refused where there is nobody to ask."""
    return {key: _value(profile, key, source) for key, source in secrets.items()}


def _value(name: str, key: str, source: str) -> str:
    if source == "prompt":
        return ask_secret(f"{key} of profile {name}: ")
    if source == "keyring":
        found = keyring().get_password(SERVICE, f"{name}/{key}")
        if found is None:
            raise CommandError(
                f"The keyring holds no {key} of profile {name}; `pk profile add {shlex.quote(name)} --secret {key}=keyring` asks for it."
            )
        return str(found)
    return _printed(key, source.partition(":")[2])


def ask_secret(question: str) -> str:
    """A line typed without being shown. Raises Refused where there is no terminal."""
    import getpass

    if not sys.stdin.isatty() or not sys.stderr.isatty():
        raise Refused(f"There is no terminal to ask for {question.rstrip(': ')} on.")
    return getpass.getpass(question)


def keyring() -> Any:
    """The library that knows the system's keyring. Raises CommandError where it is not there."""
    try:
        return importlib.import_module("keyring")
    except ImportError:
        raise CommandError(
            "The keyring wants the library `keyring`: pip install 'pk-broker[keyring]'."
        ) from None


def _printed(key: str, command: str) -> str:
    """What a command prints, without the line's end."""
    try:
        ended = subprocess.run(shlex.split(command), stdout=subprocess.PIPE, text=True, check=False)
    except (OSError, ValueError) as e:
        raise CommandError(f"The command for {key} cannot be run: {command!r}: {e}.") from None
    if ended.returncode:
        raise CommandError(f"The command for {key} ended with {ended.returncode}: {command!r}.")
    return ended.stdout.rstrip("\r\n")
