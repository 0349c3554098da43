"""The errors for keys that OpenSSL does not accept, and for a peer that ends the handshake:
OpenSSL's reason, in words."""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path

import pytest
from certificates import NOW, Certificate, authority, name_of
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa, x25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from pk.net.client.tls import refusal_of
from pk.net.tls.contexts import TlsError, client_context, server_context
from pk.net.tls.settings import TlsSettings

CA = authority()
SERVER = CA.sign("CN=server", "localhost")
SHA_256, SHA_1 = bytes.fromhex("2a864886f70d01010b"), bytes.fromhex("2a864886f70d010105")
DAMAGED = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
RsaKeys = tuple[rsa.RSAPrivateKey, rsa.RSAPrivateKey]


def key_pem(key: rsa.RSAPrivateKey | x25519.X25519PrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def by_rsa(subject: str, key: rsa.RSAPrivateKey, by: rsa.RSAPrivateKey) -> x509.Certificate:
    return (
        x509.CertificateBuilder()
        .subject_name(name_of(subject))
        .issuer_name(name_of("CN=ca"))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOW)
        .sign(by, hashes.SHA256())
    )


def with_sha_1(certificate: x509.Certificate, by: rsa.RSAPrivateKey) -> str:
    """The certificate signed again, with SHA-1: cryptography makes no such certificates."""
    signed = certificate.tbs_certificate_bytes.replace(SHA_256, SHA_1)
    signature = by.sign(signed, padding.PKCS1v15(), hashes.SHA1())
    algorithm = b"\x30\x0d\x06\x09" + SHA_1 + b"\x05\x00"
    bits = b"\x03\x82" + (len(signature) + 1).to_bytes(2, "big") + b"\0" + signature
    content = signed + algorithm + bits
    return ssl.DER_cert_to_PEM_cert(b"\x30\x82" + len(content).to_bytes(2, "big") + content)


@pytest.fixture(scope="module")
def rsa_keys() -> RsaKeys:
    """One that is long enough, and one that is not."""
    return rsa.generate_private_key(65537, 2048), rsa.generate_private_key(65537, 1024)


def refused(tmp_path: Path, *pem: str, password: str | None = None) -> str:
    path = tmp_path / "key.pem"
    path.write_text("".join(pem))
    settings = TlsSettings(keystore_location=str(path), keystore_type="PEM", key_password=password)
    with pytest.raises(TlsError) as error:
        server_context(settings)
    return str(error.value)


def test_a_certificate_or_a_key_that_is_too_weak(tmp_path: Path, rsa_keys: RsaKeys) -> None:
    key, short = rsa_keys
    good = by_rsa("CN=a", key, key).public_bytes(Encoding.PEM).decode()
    own, above = (with_sha_1(by_rsa(name, key, key), key) for name in ("CN=a", "CN=mid"))
    for chain in ([own], [good, above]):
        said = refused(tmp_path, key_pem(key), *chain)
        assert "signed with a digest that is too weak, such as SHA-1" in said
    by_short = by_rsa("CN=mid", short, key).public_bytes(Encoding.PEM).decode()
    said = refused(tmp_path, key_pem(key), good, by_short)
    assert "authority in the key store is too short" in said
    weak = by_rsa("CN=a", short, key).public_bytes(Encoding.PEM).decode()
    said = refused(tmp_path, key_pem(short), weak)
    assert "the private key is too short: RSA needs 2048" in said


def test_a_key_that_is_none_or_another_s(tmp_path: Path, rsa_keys: RsaKeys) -> None:
    other, secret = CA.sign("CN=other"), "hush"
    for key in (other.key_pem(), key_pem(rsa_keys[0])):
        assert "does not belong to the certificate" in refused(tmp_path, key, SERVER.pem)
    agrees = key_pem(x25519.X25519PrivateKey.generate())
    assert "of a type that cannot sign" in refused(tmp_path, agrees, SERVER.pem)
    damaged = DAMAGED.replace("CERTIFICATE", "PRIVATE KEY")
    assert "the private key is damaged" in refused(tmp_path, damaged, SERVER.pem)
    for chain in ([DAMAGED], [SERVER.pem, DAMAGED]):
        said = refused(tmp_path, SERVER.key_pem(), *chain)
        assert said == "a certificate of the key store is damaged"
    hidden = SERVER.key_pem(secret)
    assert "is ssl.key.password right?" in refused(tmp_path, hidden, SERVER.pem, password="x")
    assert "longer than 1024" in refused(tmp_path, hidden, SERVER.pem, password="x" * 1025)


def test_a_trust_store_that_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "trust.pem"
    for text in (DAMAGED, CA.pem + DAMAGED):
        path.write_text(text)
        with pytest.raises(TlsError, match="a certificate of the trust store is damaged"):
            client_context(TlsSettings(truststore_location=str(path), truststore_type="PEM"))


def settings(tmp_path: Path, own: Certificate | None, **more: object) -> TlsSettings:
    trust = CA.write_trust(tmp_path / "ca.pem")
    key = own.write(tmp_path / f"{own.certificate.serial_number}.pem") if own else None
    return TlsSettings(
        truststore_location=str(trust),
        truststore_type="PEM",
        keystore_location=str(key) if key else None,
        keystore_type="PEM",
        **more,  # type: ignore[arg-type]
    )


def ended(server: TlsSettings, client: TlsSettings) -> str:
    """A client's error for a handshake that the server ends."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server_context(server).wrap_bio(to_server, to_client, server_side=True)
    theirs = client_context(client).wrap_bio(to_client, to_server, server_hostname="localhost")
    try:
        for _ in range(4):
            with suppress(ssl.SSLWantReadError):
                theirs.do_handshake()
            with suppress(ssl.SSLError):
                ours.do_handshake()
        theirs.read(1)
    except ssl.SSLError as e:
        return refusal_of(e)
    raise AssertionError("the server took the client")


OLD = {"enabled_protocols": ("TLSv1.2",)}


@pytest.mark.parametrize(
    ("server", "client", "said"),
    [
        ({"client_auth": "required"}, {}, "it asks for a certificate that it trusts"),
        ({"client_auth": "required", **OLD}, {}, "it asks for a certificate"),
        (OLD, {"enabled_protocols": ("TLSv1.3",)}, "no TLS version in common with this client"),
        (
            {"cipher_suites": ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",)},
            {"cipher_suites": ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",)},
            "or has no cipher suite in common with this client (ssl.cipher.suites)",
        ),
    ],
)
def test_a_handshake_that_the_server_ends(
    tmp_path: Path, server: dict[str, object], client: dict[str, object], said: str
) -> None:
    ours, theirs = settings(tmp_path, SERVER, **server), settings(tmp_path, None, **client)
    assert said in ended(ours, theirs)


def test_a_certificate_that_the_server_does_not_take(tmp_path: Path) -> None:
    ours = settings(tmp_path, SERVER, client_auth="required")
    for own, said in (
        (authority("CN=other").sign("CN=alice"), "it does not trust this client's certificate"),
        (CA.sign("CN=alice", days=-1), "has expired or is revoked"),
    ):
        assert said in ended(ours, settings(tmp_path, own))
