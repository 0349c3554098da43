"""The clients of the table: what they need, how each is built, and how its program is called."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Final, NamedTuple

from clients import apache_kafka

HERE: Final = Path(__file__).resolve().parent
BUILD_S: Final = 3600.0

Command = tuple[str, ...]


class MissingError(Exception):
    """This client cannot be had here; the message says why, in a few words."""


class Client(NamedTuple):
    """One row of the table."""

    name: str
    """The client's name on the command line, for example `kafka-python`."""

    title: str
    language: str
    version: Callable[[], str]
    """Raises MissingError if the version cannot be found."""

    command: Callable[[Path], Command]
    """Builds its program if need be, in a folder that is kept, and returns its command line.
    Raises MissingError."""

    cannot: Mapping[str, str]
    """Scenario → why this client has nothing of the kind."""

    sets_times: bool = True
    """Whether it can say what time a record has."""


NO_KIP_848: Final = "it does not support KIP-848"
NO_CONFIGS: Final = "its administrator neither describes nor changes configs"


def need(program: str) -> str:
    """The path of a program. Raises MissingError."""
    found = shutil.which(program)
    if found is None:
        raise MissingError(f"{program} is not installed")
    return found


def build(name: str, command: Command, folder: Path, **environment: str) -> None:
    """Raises MissingError; what a build that fails printed goes to standard error."""
    ran = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    if ran.returncode:
        print(ran.stdout, file=sys.stderr, flush=True)
        raise MissingError(
            f"{name} could not be built: {Path(command[0]).name} ended with {ran.returncode}"
        )


def copy_sources(source: Path, target: Path) -> None:
    """Copy the sources, so that a build leaves nothing among the originals."""
    target.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        if path.is_file():
            shutil.copy(path, target)
        elif path.name != "node_modules":
            copy_sources(path, target / path.name)


def _python(file: str) -> Callable[[Path], Command]:
    return lambda _: (sys.executable, str(HERE / "python" / file))


def _java(_: Path) -> Command:
    reason = apache_kafka.available()
    if reason is not None:
        raise MissingError(reason)
    return tuple(apache_kafka.java_command(str(HERE / "java" / "Scenarios.java")))


def _go(name: str) -> Callable[[Path], Command]:
    def command(builds: Path) -> Command:
        folder = builds / "go"
        copy_sources(HERE / "go", folder)
        build(name, (need("go"), "build", "-o", f"built-{name}", f"./{name}"), folder)
        return (str(folder / f"built-{name}"),)

    return command


def _go_version(module: str) -> Callable[[], str]:
    def version() -> str:
        found = re.search(rf"{module} v(\S+)", (HERE / "go" / "go.mod").read_text())
        assert found is not None, module
        return found[1]

    return version


def install_node_packages(source: Path, folder: Path, **environment: str) -> None:
    """Copies the sources, and installs what their package-lock.json (or else package.json) names
    beside them, once. Raises MissingError."""
    with apache_kafka.locked(folder.with_name(f".{folder.name}-lock")):
        copy_sources(source, folder)
        lock = folder / "package-lock.json"
        words = ("ci",) if lock.exists() else ("install", "--no-package-lock")
        wanted = (lock if lock.exists() else folder / "package.json").read_text()
        stamp = folder / ".installed"
        if not stamp.exists() or stamp.read_text() != wanted:
            npm = (need("npm"), *words, "--no-audit", "--no-fund")
            build(folder.name, npm, folder, **environment)
            stamp.write_text(wanted)


def _node(folder_name: str) -> Callable[[Path], Command]:
    def command(builds: Path) -> Command:
        folder = builds / folder_name
        install_node_packages(HERE / folder_name, folder)
        return (need("node"), str(folder / "scenarios.js"))

    return command


def _node_rdkafka(folder_name: str, package: str) -> Callable[[Path], Command]:
    """Both are node-rdkafka's classes above a librdkafka that is built here, for some minutes, and
    linked with the system's curl, zstd, SASL and OpenSSL (Confluent's asks for `dynamic`)."""

    def command(builds: Path) -> Command:
        folder = builds / folder_name
        install_node_packages(HERE / folder_name, folder, CKJS_LINKING="dynamic")
        program = HERE / "node_rdkafka" / "scenarios.js"
        return (need("node"), str(program), str(folder / "node_modules" / package))

    return command


def _node_version(folder: str, package: str) -> Callable[[], str]:
    def version() -> str:
        text = (HERE / folder / "package.json").read_text()
        found = re.search(rf'"{re.escape(package)}": "([^"]+)"', text)
        assert found is not None, package
        return found[1]

    return version


def _rust(folder_name: str) -> Callable[[Path], Command]:
    def command(builds: Path) -> Command:
        folder = builds / folder_name
        copy_sources(HERE / folder_name, folder)
        build(folder_name, (need("cargo"), "build", "--quiet"), folder)
        return (str(folder / "target" / "debug" / "scenarios"),)

    return command


def _rust_version(folder: str, crate: str) -> Callable[[], str]:
    def version() -> str:
        found = re.search(
            rf'(?m)^{crate} = \{{ version = "=([^"]+)"', (HERE / folder / "Cargo.toml").read_text()
        )
        assert found is not None, crate
        return found[1]

    return version


def _kcat(_: Path) -> Command:
    need("kcat")
    return (sys.executable, str(HERE / "python" / "client_kcat.py"))


def _kcat_version() -> str:
    said = subprocess.run((need("kcat"), "-V"), capture_output=True, text=True, check=False)
    found = re.search(r"Version (\S+).*librdkafka (\S+)", said.stdout)
    assert found is not None, said.stdout
    return f"{found[1]}, librdkafka {found[2]}"


def _refused(why: str) -> Callable[[Path], Command]:
    def command(_: Path) -> Command:
        raise MissingError(why)

    return command


NO_MODULE: Final = "Go's module proxy does not serve it here"

CLIENTS: Final = (
    Client(
        "confluent-kafka",
        "confluent-kafka",
        "Python",
        lambda: installed_version("confluent-kafka"),
        _python("client_confluent.py"),
        {},
    ),
    Client(
        "kafka-python",
        "kafka-python",
        "Python",
        lambda: installed_version("kafka-python"),
        _python("client_kafka_python.py"),
        {"kip-848": NO_KIP_848},
    ),
    Client(
        "aiokafka",
        "aiokafka",
        "Python",
        lambda: installed_version("aiokafka"),
        _python("client_aiokafka.py"),
        {"kip-848": NO_KIP_848},
    ),
    Client(
        "kcat",
        "kcat",
        "C",
        _kcat_version,
        _kcat,
        {
            "kip-848": "its librdkafka is older than KIP-848",
            "transactions": "it has no transactions",
            "admin": "it cannot create topics or change configs",
        },
        sets_times=False,
    ),
    Client("java", "Apache's Java client", "Java", lambda: apache_kafka.VERSION, _java, {}),
    Client("franz-go", "franz-go", "Go", _go_version("github.com/twmb/franz-go"), _go("franz"), {}),
    Client(
        "sarama",
        "sarama",
        "Go",
        _go_version("github.com/IBM/sarama"),
        _go("sarama"),
        {"kip-848": NO_KIP_848},
    ),
    Client(
        "kafka-go",
        "segmentio/kafka-go",
        "Go",
        _go_version("github.com/segmentio/kafka-go"),
        _go("segmentio"),
        {"kip-848": NO_KIP_848, "transactions": "its writer has no transactions"},
    ),
    Client("kcl", "kcl", "Go", lambda: "", _refused(NO_MODULE), {}),
    Client("kaf", "kaf", "Go", lambda: "", _refused(NO_MODULE), {}),
    Client(
        "kafkajs",
        "kafkajs",
        "JavaScript",
        _node_version("kafkajs", "kafkajs"),
        _node("kafkajs"),
        {"kip-848": NO_KIP_848},
    ),
    Client(
        "kafka-javascript",
        "@confluentinc/kafka-javascript",
        "JavaScript",
        _node_version("kafka_javascript", "@confluentinc/kafka-javascript"),
        _node_rdkafka("kafka_javascript", "@confluentinc/kafka-javascript"),
        {"admin": NO_CONFIGS},
    ),
    Client(
        "node-rdkafka",
        "node-rdkafka",
        "JavaScript",
        _node_version("node_rdkafka", "node-rdkafka"),
        _node_rdkafka("node_rdkafka", "node-rdkafka"),
        {"admin": NO_CONFIGS},
    ),
    Client("rdkafka", "rdkafka", "Rust", _rust_version("rust", "rdkafka"), _rust("rust"), {}),
)
"""The rows, in order."""
