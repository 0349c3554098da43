"""`pk up --secure`: a cluster whose listeners encrypt, whose clients log in, and that denies every
operation without an ACL that allows it.

Its files are in the directory `secure` beside the data, readable only by the user:

    ca.pem, ca-key.pem        the development CA (certificates.py)
    node-1.pem, …             the key and the certificate of each node
    broker-password           the password with which nodes log in to each other, as user `broker`
    admin-password            the password of the user `admin`, which clients use
    client.pem                the key and the certificate of clients, for listeners that ask for one
    client.properties         for pk and Apache's tools (`--command-config`)
    librdkafka.properties     for kcat (`-F`) and confluent-kafka, which do not read Java's logins

Both users are super users. `broker` is in the nodes' configuration, since nodes log in before there
is any metadata. `admin` is a SCRAM user in the metadata like any other, created when the cluster
first serves, so `pk users alter admin` changes its password. The next start uses all of these files
again. The profile gets the password from its file with a command, so it contains no secret.
"""

import os
import secrets
import shlex
from collections.abc import Mapping
from typing import Any, Final

from pk.cli.exits import CommandError, Unusable
from pk.cli.runtime.profile_file import read_document, write_document
from pk.cli.runtime.settings import read_profiles
from pk.cli.up.private_files import write_private
from pk.core.auth.scram import ITERATIONS_MIN, Mechanism

FOLDER: Final = "secure"
PROFILE: Final = "secure"
LISTENER: Final = "SASL_SSL"
CONTROLLER: Final = "CONTROLLER"
MECHANISM: Final = Mechanism.SCRAM_SHA_512
BROKER: Final = "broker"
ADMIN: Final = "admin"
OURS: Final = (
    "listener.security.protocol.map",
    "inter.broker.listener.name",
    "security.inter.broker.protocol",
    "sasl.mechanism.inter.broker.protocol",
    "sasl.mechanism.controller.protocol",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "authorizer.class.name",
    "super.users",
)
"""The keys that --secure sets."""
_PASSWORD_BYTES: Final = 24


def folder_of(directory: str) -> str:
    """The directory of a cluster's credentials."""
    return os.path.join(os.path.abspath(directory), FOLDER)


def is_secured(directory: str) -> bool:
    """Whether a cluster was started here with --secure. It stays secured, since its users would not
    expect it to be open."""
    return os.path.isdir(folder_of(directory))


def check_keys(given: Mapping[str, str]) -> None:
    """Raise Unusable if the user sets a key that --secure sets."""
    for key in OURS:
        if key in given:
            raise Unusable(f"{key}: pk up --secure sets it. Leave out one of them.")


class Secured:
    """The credentials of a secured cluster."""

    def __init__(self, directory: str) -> None:
        """Make the files that are missing in `directory`, the cluster's. Raises CommandError."""
        from pk.cli.up.certificates import Authority  # takes long to import

        self.folder = folder_of(directory)
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
        except OSError as e:
            raise CommandError(f"{self.folder}: {e.strerror}.") from None
        self._authority = Authority.in_directory(self.folder)
        self._broker_password = self._password("broker-password")
        self._admin_password = self._password("admin-password")
        self._authority.give(self._path("client.pem"), "client")

    @property
    def authority(self) -> str:
        """The file with the authority's certificate."""
        return self._path("ca.pem")

    def certificate_of(self, node_id: str) -> str:
        """The file with the key and the certificate of a node, created if it is missing. Raises
        CommandError."""
        path = self._path(f"node-{node_id}.pem")
        self._authority.give(path, f"node-{node_id}")
        return path

    def config_of(self, node_id: str, *, broker: bool = True) -> dict[str, str]:
        """The keys of a node; `broker` says whether it serves clients. Raises CommandError."""
        key_store = self.certificate_of(node_id)
        login = (
            "org.apache.kafka.common.security.scram.ScramLoginModule required"
            f' username="{BROKER}" password="{self._broker_password}";'
        )
        mechanism = MECHANISM.sasl_name
        config = {
            "listener.security.protocol.map": f"{LISTENER}:SASL_SSL,{CONTROLLER}:SASL_SSL",
            "inter.broker.listener.name": LISTENER,
            "sasl.enabled.mechanisms": mechanism,
            "sasl.mechanism.inter.broker.protocol": mechanism,
            "sasl.mechanism.controller.protocol": mechanism,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": key_store,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{BROKER};User:{ADMIN}",
        }
        for listener in (LISTENER, CONTROLLER):
            name = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
            config[name] = login
        if not broker:
            del config["inter.broker.listener.name"]
            del config["sasl.mechanism.inter.broker.protocol"]
        return config

    async def open_to(self, bootstrap: str) -> list[str]:
        """Create the admin user, the files for clients and the profile, for a cluster that serves
        at `bootstrap`. Returns lines that say what clients need. Raises CommandError."""
        await self._make_admin(bootstrap)
        login = (
            "org.apache.kafka.common.security.scram.ScramLoginModule required"
            f' username="{ADMIN}" password="{self._admin_password}";'
        )
        for_java = {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM.sasl_name,
            "sasl.jaas.config": login,
            **self._tls_keys,
        }
        for_librdkafka = {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM.sasl_name,
            "sasl.username": ADMIN,
            "sasl.password": self._admin_password,
            "ssl.ca.location": self._path("ca.pem"),
            "ssl.certificate.location": self._path("client.pem"),
            "ssl.key.location": self._path("client.pem"),
        }
        java, other = self._path("client.properties"), self._path("librdkafka.properties")
        write_private(java, _properties(for_java, _escaped))
        write_private(other, _properties(for_librdkafka, str))
        lines = [f"The admin is {ADMIN}; its password is in {self._path('admin-password')}"]
        if self._write_profile(bootstrap):
            lines.append(f"pk:             pk --profile {PROFILE} topics list")
        else:
            lines.append(
                f"pk:             pk --config-file {shlex.quote(java)} topics list"
                f" (your own profile {PROFILE!r} stays as it is)"
            )
        lines.append(f"Apache's tools: --command-config {shlex.quote(java)}")
        lines.append(f"kcat and such:  kcat -F {shlex.quote(other)} -L")
        return lines

    def close(self) -> None:
        """Delete the profile of a cluster whose credentials are deleted with a temporary
        directory."""
        profiles, chosen = read_profiles()
        if PROFILE not in profiles or not self._is_ours(profiles[PROFILE].secrets):
            return
        document = read_document()
        document["profiles"].pop(PROFILE)
        if chosen == PROFILE:
            document.pop("use")
        write_document(document)

    async def _make_admin(self, bootstrap: str) -> None:
        from pk.cli.cluster.propagation import until_user
        from pk.core.errors import KafkaError
        from pk.net.client.admin import open_admin
        from pk.net.client.admin_operations.users import NewPassword
        from pk.net.client.errors import ClientError

        own = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM.sasl_name,
            "sasl.username": BROKER,
            "sasl.password": self._broker_password,
            **self._tls_keys,
        }
        try:
            async with open_admin(bootstrap, own) as admin:
                if (await admin.describe_scram_users([ADMIN])).ok.get(ADMIN):
                    return
                change = NewPassword(ADMIN, MECHANISM, self._admin_password, ITERATIONS_MIN)
                error = (await admin.set_passwords([change])).errors.get(ADMIN)
                if error is not None:
                    raise CommandError(f"The user {ADMIN} cannot be created: {error}.")
                await until_user(admin, ADMIN, MECHANISM, ITERATIONS_MIN)
        except (KafkaError, ClientError) as e:
            raise CommandError(f"The user {ADMIN} cannot be created: {e}.") from e

    def _write_profile(self, bootstrap: str) -> bool:
        """Write the profile. Returns whether it is now this cluster's: a profile that the user made
        is left unchanged."""
        import tomlkit

        profiles, _ = read_profiles()
        if PROFILE in profiles and not _is_made_here(profiles[PROFILE].secrets):
            return False
        document = read_document()
        tables = document.setdefault("profiles", tomlkit.table(is_super_table=True))
        table: Any = tomlkit.table()
        table["bootstrap"] = bootstrap
        table["properties"] = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM.sasl_name,
            "sasl.username": ADMIN,
            **self._tls_keys,
        }
        table["secrets"] = {"sasl.password": self._password_command}
        tables[PROFILE] = table
        write_document(document)
        return True

    @property
    def _tls_keys(self) -> dict[str, str]:
        return {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self._path("ca.pem"),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._path("client.pem"),
        }

    @property
    def _password_command(self) -> str:
        return f"command:cat {shlex.quote(self._path('admin-password'))}"

    def _is_ours(self, sources: Mapping[str, str]) -> bool:
        return sources.get("sasl.password") == self._password_command

    def _password(self, name: str) -> str:
        path = self._path(name)
        try:
            with open(path, encoding="ascii") as file:
                return file.read().strip()
        except FileNotFoundError:
            password = secrets.token_urlsafe(_PASSWORD_BYTES)
            write_private(path, password.encode() + b"\n")
            return password
        except (OSError, ValueError) as e:
            why = e.strerror if isinstance(e, OSError) else "it is not ASCII"
            raise CommandError(f"{path} cannot be read: {why}.") from None

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)


def _is_made_here(sources: Mapping[str, str]) -> bool:
    """Whether `pk up --secure` wrote a profile, for this cluster or another: such a profile is
    replaced by the next one."""
    words = sources.get("sasl.password", "").removeprefix("command:")
    try:
        command = shlex.split(words)
    except ValueError:
        return False
    return (
        len(command) == 2
        and command[0] == "cat"
        and command[1].endswith(os.path.join(os.sep, FOLDER, "admin-password"))
    )


def _properties(values: Mapping[str, str], written: Any) -> bytes:
    lines = (f"{key}={written(value)}\n" for key, value in values.items())
    return ("# Written by `pk up --secure` at each start.\n" + "".join(lines)).encode()


def _escaped(value: str) -> str:
    """Escape non-ASCII characters, since Java reads a properties file as Latin-1."""
    parts = value.replace("\\", "\\\\").encode("utf-16-be")
    units = (parts[i] << 8 | parts[i + 1] for i in range(0, len(parts), 2))
    return "".join(chr(unit) if unit < 0x7F else f"\\u{unit:04x}" for unit in units)
