"""A PostgreSQL of a test's own, where Debian's package is installed."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from clients.apache_kafka import free_ports

USER = "postgres"
_WAIT_S = 120
_PORTS = 5
"""How many ports are tried: PostgreSQL does not take one that the system chooses."""


def programs() -> Path | None:
    """The directory of the newest server's programs; None without one."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return found[-1].parent if found else None


class Postgres:
    """A server on a port of its own, with the user `postgres`, whom it trusts."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    @property
    def psql(self) -> list[str]:
        """The command line that runs the statements of its standard input, and prints what they
        return."""
        words = [str(_bin() / "psql"), "-h", str(self.folder), "-p", str(self.port), "-U", USER]
        return [*words, "-v", "ON_ERROR_STOP=1", "-qtA", "-d", "postgres"]

    def run(self, sql: str) -> str:
        """Statements, by psql; what they print."""
        done = subprocess.run(
            self.psql,
            input=sql,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout


def _bin() -> Path:
    found = programs()
    assert found is not None
    return found


@contextmanager
def postgres(**settings: str) -> Iterator[Postgres]:
    """A server with these settings while the block runs. It refuses to be root's, so it then runs
    as `postgres`."""
    folder = Path(tempfile.mkdtemp(prefix="pk-postgres-"))
    as_user: Sequence[str] = ()
    if os.getuid() == 0:
        owner = pwd.getpwnam(USER)
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        as_user = ("setpriv", f"--reuid={USER}", f"--regid={owner.pw_gid}", "--clear-groups")

    def run(*words: str) -> None:
        subprocess.run([*as_user, *words], check=True, stdout=subprocess.DEVNULL, cwd=folder)

    data, program = str(folder / "data"), str(_bin() / "pg_ctl")
    try:
        run(str(_bin() / "initdb"), "-D", data, "-U", USER, "-A", "trust", "--no-sync")
        port = 0
        for left in reversed(range(_PORTS)):
            [port] = free_ports(1)
            given = f"-k {folder} -p {port} -c listen_addresses=127.0.0.1 -c fsync=off"
            given += "".join(f" -c {name}={value}" for name, value in settings.items())
            log = str(folder / "log")
            try:
                run(program, "-D", data, "-l", log, "-w", "-t", str(_WAIT_S), "-o", given, "start")
                break
            except subprocess.CalledProcessError:
                if not left:  # otherwise another process took the port
                    raise
        try:
            yield Postgres(folder, port)
        finally:
            run(program, "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
