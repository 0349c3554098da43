"""SCRAM against the examples of its RFCs, and what neither side lets pass."""

from base64 import b64decode, b64encode

import pytest
from each import for_each

from pk.core.auth.sasl import AuthenticationFailed, SaslError
from pk.core.auth.scram import (
    ITERATIONS_MIN,
    CredentialParameters,
    Mechanism,
    ScramClient,
    ScramCredential,
    ScramServer,
    TokenLogin,
    unknown_user_credential,
    usual_parameters,
)

SHA256 = Mechanism.SCRAM_SHA_256
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
SECRET = b"s" * 32


def server(
    users: dict[str, ScramCredential], mechanism: Mechanism = SHA256, nonce: str = SERVER_NONCE
) -> ScramServer:
    shape = usual_parameters(users.values())
    return ScramServer(
        mechanism,
        users.get,
        lambda user: unknown_user_credential(mechanism, user, SECRET, shape),
        nonce,
        {"id": TokenLogin("alice", 7000, pencil(mechanism))}.get,
    )


def pencil(mechanism: Mechanism = SHA256) -> ScramCredential:
    return ScramCredential.of_password(mechanism, "pencil", SALT, 4096)


def test_the_example_of_rfc_7677() -> None:
    client = ScramClient(SHA256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    ours = server({"user": pencil()})
    assert client.step(b"") == CLIENT_FIRST
    assert ours.step(CLIENT_FIRST) == SERVER_FIRST
    assert client.step(SERVER_FIRST) == CLIENT_FINAL
    assert (ours.step(CLIENT_FINAL), ours.user) == (SERVER_FINAL, "user")
    assert (client.step(SERVER_FINAL), client.complete) == (b"", True)


@pytest.mark.parametrize("mechanism", list(Mechanism))
@pytest.mark.parametrize("user", ["alice", "a=b,c", "=2C", "ü"])
def test_both_sides_agree(mechanism: Mechanism, user: str) -> None:
    ours = server({user: pencil(mechanism)}, mechanism)
    client = ScramClient(mechanism, user, "pencil", "abc")
    token = client.step(b"")
    while not client.complete:
        token = client.step(ours.step(token))
    assert ours.user == user


def answers(users: dict[str, ScramCredential], user: str) -> tuple[bytes, str]:
    """The server's first and last messages to a client with a wrong password."""
    ours = server(users)
    client = ScramClient(SHA256, user, "wrong", "abc")
    first = ours.step(client.step(b""))
    with pytest.raises(SaslError) as refused:
        ours.step(client.step(first))
    assert ours.user is None and not isinstance(refused.value, AuthenticationFailed)
    return first, str(refused.value)


def test_a_first_contact_cannot_tell_who_exists() -> None:
    of_java = ScramCredential.of_password(SHA256, "x", b"1p0xk4sn8d2ljq7vq6z3k1h9ab", 8192)
    for known in (pencil(), of_java):
        there, last = answers({"user": known}, "user")
        nobody, other_last = answers({"user": known}, "nobody")
        assert last == other_last
        salt, strange = (b64decode(t.split(b",s=")[1].split(b",")[0]) for t in (there, nobody))
        assert len(salt) == len(strange) and salt != strange
        assert salt.isalnum() == strange.isalnum()
        assert there.split(b",i=")[1] == nobody.split(b",i=")[1]
        assert nobody == answers({"user": known}, "nobody")[0], "a second try sees the same salt"
        assert nobody != answers({"user": known}, "someone")[0]


def test_no_password_fits_a_stranger() -> None:
    shape = CredentialParameters(ITERATIONS_MIN, 24, False)
    strange = unknown_user_credential(SHA256, "nobody", SECRET, shape)
    ours = server({})
    first = ours.step(b"n,,n=nobody,r=abc")
    nonce = first.split(b",")[0][2:].decode()
    text = f"n=nobody,r=abc,{first.decode()},c=biws,r={nonce}".encode()
    # Even the proof that the stored key itself would pass is refused.
    signature = SHA256.hmac(strange.stored_key, text)
    proof = b64encode(signature).decode()
    with pytest.raises(SaslError, match="Invalid client credentials"):
        ours.step(f"c=biws,r={nonce},p={proof}".encode())


@for_each(
    ("first", "final", "why"),
    [
        (b"y,,n=user,r=abc", b"", "first message format"),
        (b"p=tls-unique,,n=user,r=abc", b"", "first message format"),
        (b"n,,n=,r=abc", b"", "first message format"),
        (b"n,,n=us=er,r=abc", b"", "Invalid username"),
        (b"n,,n=user,r=", b"", "first message format"),
        (b"\xff", b"", "not UTF-8"),
        (b"", b"", "first message format"),
        (b"n,a=other,n=user,r=abc", b"", "authorization id"),
        (b"n,,n=user,r=abc", b"c=biws,r=other,p=AAAA", "Invalid client nonce"),
        (b"n,,n=user,r=abc", b"c=eSws,r=abcNONCE,p=AAAA", "another channel"),
        (b"n,,n=user,r=abc", b"c=biws,r=abcNONCE,p=AAAA", "wrong length"),
        (b"n,,n=user,r=abc", b"c=biws,r=abcNONCE,p=A", "wrong base64"),
        (b"n,,n=user,r=abc", b"c=biws,r=abcNONCE", "final message format"),
    ],
)
def test_a_server_takes_nothing_else(first: bytes, final: bytes, why: str) -> None:
    ours = server({"user": pencil()}, nonce="NONCE")
    with pytest.raises(SaslError, match=why):
        ours.step(first)
        ours.step(final)
    assert ours.user is None


def test_the_nonce_of_an_old_librdkafka_is_taken() -> None:
    """Before 2.6.1 it repeats its own part, and Kafka lets it."""
    credential = pencil()
    ours = server({"user": credential}, nonce="NONCE")
    first = ours.step(b"n,,n=user,r=abc")
    without_proof = "c=biws,r=abcabcNONCE"
    salted = SHA256.salted_password("pencil", SALT, 4096)
    key = SHA256.hmac(salted, b"Client Key")
    text = f"n=user,r=abc,{first.decode()},{without_proof}".encode()
    signature = SHA256.hmac(SHA256.hash(key), text)
    proof = b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    assert ours.step(f"{without_proof},p={proof}".encode()).startswith(b"v=")
    assert ours.user == "user"


@pytest.mark.parametrize(
    ("first", "final", "why"),
    [
        (b"r=abc,s=AAAA,i=4096", b"", "server nonce"),
        (b"r=xyzNONCE,s=AAAA,i=4096", b"", "server nonce"),
        (b"r=abcN,s=AAAA,i=4095", b"", "less than the minimum"),
        (b"r=abcN,s=AAAA,i=999999999", b"", "asks for 999999999"),
        (b"r=abcN,s=AAAA", b"", "first message format"),
        (b"r=abcN,s=AAAA,i=4096", b"e=unknown-user", "refused the login: unknown-user"),
        (b"r=abcN,s=AAAA,i=4096", b"v=AAAA", "does not know the password"),
        (b"r=abcN,s=AAAA,i=4096", b"", "final message format"),
    ],
)
def test_a_client_trusts_no_server_that_does_not_know_the_password(
    first: bytes, final: bytes, why: str
) -> None:
    client = ScramClient(SHA256, "user", "pencil", "abc")
    client.step(b"")
    with pytest.raises(SaslError, match=why):
        client.step(first)
        client.step(final)
    assert not client.complete


def test_a_credential_shows_nothing_of_itself() -> None:
    assert repr(pencil().stored_key) not in repr(pencil()) and "4096" not in repr(pencil())
