"""Starts a real KDC: Debian's `krb5-kdc`, for one realm, on a free port of loopback.

If the package or the Python library gssapi is missing, tests that need it are skipped with that
reason.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from clients.apache_kafka import free_ports

REALM: Final = "PK.TEST"
START_TIMEOUT_S: Final = 240.0
_PATH: Final = os.pathsep.join(
    [os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/opt/krb5/sbin"]
)


def missing() -> str | None:
    """The part of Kerberos that this machine lacks, or None."""
    for program in ("krb5kdc", "kdb5_util", "kadmin.local", "kinit"):
        if shutil.which(program, path=_PATH) is None:
            return f"{program} is not installed"
    if importlib.util.find_spec("gssapi") is None:
        return "the library gssapi is not installed"
    return None


class Kdc:
    """Its realm's users and services, and the environment variables that point Kerberos to it."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.environment: Mapping[str, str] = {
            "KRB5_CONFIG": str(folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{folder}/tickets",
            "KRB5RCACHENAME": f"dfl:{folder}",
            "KRB5RCACHEDIR": str(folder),
        }
        (folder / "krb5.conf").write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n"
            " dns_lookup_realm = false\n dns_canonicalize_hostname = false\n rdns = false\n"
            " udp_preference_limit = 1\n"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
        )
        (folder / "kdc.conf").write_text(
            f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n"
            f"[realms]\n {REALM} = {{\n  database_name = {folder}/principal\n"
            f"  key_stash_file = {folder}/stash\n  max_life = 1h\n }}\n"
            f"[logging]\n kdc = FILE:{folder}/kdc.log\n"
        )

    def run(self, program: str, *words: str, input: str = "") -> None:
        """Runs a program of Kerberos. Raises subprocess.CalledProcessError."""
        found = shutil.which(program, path=_PATH)
        subprocess.run(
            [found or program, *words],
            input=input,
            env=os.environ | self.environment,
            check=True,
            capture_output=True,
            text=True,
        )

    def keytab(self, principal: str) -> Path:
        """The keys of a new principal, in a separate keytab."""
        path = self.folder / f"{principal.replace('/', '-').partition('@')[0]}.keytab"
        self.run("kadmin.local", "-q", f"addprinc -randkey {principal}")
        self.run("kadmin.local", "-q", f"ktadd -k {path} {principal}")
        return path

    def tickets(self, principal: str, keytab: Path) -> Path:
        """The cache of the tickets that kinit fetches."""
        cache = self.folder / "kinit-tickets"
        self.run("kinit", "-k", "-t", str(keytab), "-c", str(cache), principal)
        return cache


@contextlib.contextmanager
def running_kdc(folder: Path) -> Iterator[Kdc]:
    """A KDC. Sets this process's environment for its clients. Skips the test if Kerberos is
    missing."""
    if (reason := missing()) is not None:
        pytest.skip(reason)
    kdc = Kdc(folder, free_ports(1)[0])
    kdc.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
    program = shutil.which("krb5kdc", path=_PATH) or "krb5kdc"
    environment = os.environ | kdc.environment
    with (
        pytest.MonkeyPatch.context() as patch,
        subprocess.Popen([program, "-n"], env=environment, stdout=subprocess.DEVNULL) as process,
    ):
        for name, value in kdc.environment.items():
            patch.setenv(name, value)
        try:
            _wait_for(kdc.port, process)
            yield kdc
        finally:
            process.terminate()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise AssertionError("the KDC did not start")
