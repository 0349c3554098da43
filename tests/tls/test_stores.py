"""Key and trust stores: PEM, PKCS12 and JKS, also as Java's own keytool makes them."""

from __future__ import annotations

import contextlib
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
from certificates import authority
from msgspec.structs import replace

from pk.net.tls.contexts import TlsError, client_context, server_context
from pk.net.tls.jks import MAGIC, StoreError
from pk.net.tls.settings import TlsSettings
from pk.net.tls.stores import read_store

CA = authority()
SERVER = CA.sign("CN=server", "localhost", "127.0.0.1")


def handshake(
    server: ssl.SSLContext, client: ssl.SSLContext, host: str = "localhost"
) -> str | None:
    """Let two contexts talk; the version they agree on. Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname=host)
    for _ in range(5):
        for side in (theirs, ours):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return theirs.version()


@pytest.fixture
def trusting(tmp_path: Path) -> ssl.SSLContext:
    path = str(CA.write_trust(tmp_path / "ca.pem"))
    return client_context(TlsSettings(truststore_location=path, truststore_type="PEM"))


def keytool(*words: str) -> None:
    program = shutil.which("keytool")
    if program is None:
        pytest.skip("keytool is not installed")
    subprocess.run([program, *words], check=True, capture_output=True, timeout=120)


def java_store(path: Path, kind: str, key_password: str = "store-hush") -> Path:
    keytool(
        *("-genkeypair", "-alias", "k", "-keyalg", "EC", "-dname", "CN=java,O=example"),
        *("-ext", "san=dns:localhost", "-keystore", str(path), "-storetype", kind),
        *("-storepass", "store-hush", "-keypass", key_password),
    )
    return path


def java_trust(path: Path, kind: str, certificate: str) -> Path:
    pem = path.with_suffix(".pem")
    pem.write_text(certificate)
    keytool(
        *("-importcert", "-noprompt", "-alias", "ca", "-file", str(pem)),
        *("-keystore", str(path), "-storetype", kind, "-storepass", "store-hush"),
    )
    return path


def test_pem_in_a_file_and_in_the_key_itself(tmp_path: Path, trusting: ssl.SSLContext) -> None:
    path = SERVER.write(tmp_path / "server.pem")
    in_file = TlsSettings(keystore_location=str(path), keystore_type="PEM")
    inline = TlsSettings(
        keystore_key=SERVER.key_pem(), keystore_certificate_chain=SERVER.pem, keystore_type="PEM"
    )
    for settings in (in_file, inline):
        assert handshake(server_context(settings), trusting) == "TLSv1.3"


def test_a_pem_key_with_a_password(tmp_path: Path, trusting: ssl.SSLContext) -> None:
    path = SERVER.write(tmp_path / "server.pem", "hush")
    settings = TlsSettings(keystore_location=str(path), keystore_type="PEM", key_password="hush")
    assert handshake(server_context(settings), trusting)
    for password, said in (("wrong", "is ssl.key.password right"), (None, "is missing")):
        with pytest.raises(TlsError, match=said):
            server_context(replace(settings, key_password=password))


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_pkcs12_under_either_name(tmp_path: Path, kind: str, trusting: ssl.SSLContext) -> None:
    path = SERVER.write_pkcs12(tmp_path / "server.p12", "hush")
    settings = TlsSettings(
        keystore_location=str(path), keystore_type=kind, keystore_password="hush"
    )
    assert handshake(server_context(settings), trusting)
    with pytest.raises(TlsError, match="password is wrong") as refused:
        server_context(replace(settings, keystore_password="huhu"))
    assert "huhu" not in str(refused.value)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_stores_of_java_s_keytool(tmp_path: Path, kind: str) -> None:
    path = java_store(tmp_path / "key", kind)
    settings = TlsSettings(
        keystore_location=str(path), keystore_type=kind, keystore_password="store-hush"
    )
    own = read_store(str(path), kind, "store-hush").chain[0]
    trust = java_trust(tmp_path / "trust", kind, own)
    client = TlsSettings(
        truststore_location=str(trust), truststore_type=kind, truststore_password="store-hush"
    )
    assert handshake(server_context(settings), client_context(client)) == "TLSv1.3"
    if kind == "JKS":
        assert path.read_bytes().startswith(MAGIC)
        other = java_store(tmp_path / "other", kind, "key-hush")
        twice = replace(settings, keystore_location=str(other), key_password="key-hush")
        server_context(twice)
        with pytest.raises(TlsError, match="password of its key is wrong"):
            server_context(replace(twice, key_password=None))
    with pytest.raises(TlsError, match="password is wrong"):
        server_context(replace(settings, keystore_password="wrong-hush"))


@pytest.mark.parametrize(
    ("data", "kind", "said"),
    [
        (b"", "JKS", "password is wrong, or it is not a PKCS12 file"),
        (b"nothing", "PKCS12", "password is wrong, or it is not a PKCS12 file"),
        (b"nothing", "PEM", "no private key"),
        (b"\xff\xfe", "PEM", "is not PEM"),
        (b"-----BEGIN CERTIFICATE-----", "JKS", "set its type"),
        (b"x", "BCFKS", "PEM, PKCS12 and JKS, not BCFKS"),
        (MAGIC, "JKS", "truncated"),
        (MAGIC + b"\0\0\0\x09", "JKS", "version 9"),
        (MAGIC + b"\0\0\0\2\0\0\0\1" + bytes(20), "JKS", "password is wrong"),
    ],
)
def test_what_is_no_store(tmp_path: Path, data: bytes, kind: str, said: str) -> None:
    path = tmp_path / "store"
    path.write_bytes(data)
    settings = TlsSettings(
        keystore_location=str(path), keystore_type=kind, keystore_password="hush"
    )
    with pytest.raises(TlsError, match=said) as refused:
        server_context(settings)
    assert "hush" not in str(refused.value)


def test_a_damaged_jks_never_takes_long_or_raises_anything_else(tmp_path: Path) -> None:
    whole = java_store(tmp_path / "key", "JKS").read_bytes()
    for cut in range(0, len(whole), 7):
        for data in (whole[:cut], whole[:cut] + b"\x7f\xff\xff\xff" + whole[cut + 4 :]):
            (tmp_path / "cut").write_bytes(data)
            for password in ("store-hush", None):
                try:
                    read_store(str(tmp_path / "cut"), "JKS", password)
                except StoreError:
                    continue


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    key = str(SERVER.write(tmp_path / "server.pem"))
    other = CA.sign("CN=other")
    keyed = TlsSettings(keystore_location=key, keystore_type="PEM")
    mixed = replace(
        keyed,
        keystore_location=None,
        keystore_key=other.key_pem(),
        keystore_certificate_chain=SERVER.pem,
    )
    for settings, said in (
        (TlsSettings(), "ssl.keystore.location"),
        (replace(keyed, keystore_location=str(tmp_path / "none")), "No such file"),
        (replace(keyed, client_auth="required"), "needs ssl.truststore.location"),
        (replace(keyed, truststore_location=key + "x"), "No such file"),
        (mixed, "does not belong to the certificate"),
        (replace(keyed, enabled_protocols=("TLSv1.1",)), "TLSv1.2, TLSv1.3 or both"),
        (replace(keyed, cipher_suites=("NONE",)), "no suite that OpenSSL supports"),
        (
            replace(keyed, cipher_suites=("TLS_AES_128_GCM_SHA256",)),
            "all suites of TLS 1.3 or none",
        ),
    ):
        with pytest.raises(TlsError, match=said):
            server_context(settings)


def test_protocols_and_suites(tmp_path: Path, trusting: ssl.SSLContext) -> None:
    keyed = TlsSettings(
        keystore_location=str(SERVER.write(tmp_path / "server.pem")), keystore_type="PEM"
    )
    only_old = server_context(replace(keyed, enabled_protocols=("TLSv1.2",)))
    assert handshake(only_old, trusting) == "TLSv1.2"
    suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    named = server_context(replace(keyed, cipher_suites=(suite,)))
    assert handshake(named, trusting) == "TLSv1.2", "no suite of TLS 1.3 is named"
    new = replace(keyed, enabled_protocols=("TLSv1.3",))
    with pytest.raises(TlsError, match="no suite for the ssl.enabled.protocols"):
        server_context(replace(new, cipher_suites=(suite,)))


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_128_CBC_SHA256", "DHE-RSA-AES128-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384", "ECDHE-ECDSA-AES256-SHA384"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_suites_have_java_s_names(suite: str, name: str, tmp_path: Path) -> None:
    keyed = TlsSettings(
        keystore_location=str(SERVER.write(tmp_path / "server.pem")), keystore_type="PEM"
    )
    context = server_context(replace(keyed, cipher_suites=(suite,)))
    assert name in [cipher["name"] for cipher in context.get_ciphers()]


def test_settings_show_no_secret() -> None:
    settings = TlsSettings(
        key_password="hush",
        keystore_password="hush",
        keystore_key="hush",
        truststore_password="hush",
    )
    assert "hush" not in repr(settings)


def test_host_names_are_checked_unless_the_check_is_off(tmp_path: Path) -> None:
    keyed = TlsSettings(
        keystore_location=str(SERVER.write(tmp_path / "server.pem")), keystore_type="PEM"
    )
    trust = TlsSettings(
        truststore_location=str(CA.write_trust(tmp_path / "ca.pem")), truststore_type="PEM"
    )
    server = server_context(keyed)
    with pytest.raises(ssl.SSLCertVerificationError, match="not valid for 'elsewhere'"):
        handshake(server, client_context(trust), "elsewhere")
    loose = replace(trust, endpoint_identification_algorithm="")
    assert handshake(server, client_context(loose), "elsewhere")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server, client_context(TlsSettings()), "localhost")
    with pytest.raises(TlsError, match="must be https"):
        client_context(replace(trust, endpoint_identification_algorithm="LDAPS"))
