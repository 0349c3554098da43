"""Users' SCRAM credentials: the answers of pk, and of Apache Kafka if it is installed, and the
resulting metadata."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from clients.fixtures import Kafka, fresh_name
from clients.topics import wait_until
from meta.test_against_kafka import Asking

from pk.core.auth.scram import Mechanism, ScramCredential
from pk.core.errors import ErrorCode
from pk.core.meta import scram_users, snapshot
from pk.core.meta.events import Event, StrangersSecretMade
from pk.core.meta.image import MetadataImage
from pk.core.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from pk.core.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

SALT = b"0123456789abcdef"
NONE, REFUSED = (ErrorCode.NONE, None), ErrorCode.UNACCEPTABLE_CREDENTIAL
MISSING = (
    ErrorCode.RESOURCE_NOT_FOUND,
    "Attempt to delete a user credential that does not exist",
)
TWICE = (
    ErrorCode.DUPLICATE_RESOURCE,
    "A user credential cannot be altered twice in the same request",
)
UNKNOWN = (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
NAMELESS = (REFUSED, "Username must not be empty")

Set = tuple[str, int, int]
"""User, mechanism, iterations."""
Deleted = tuple[str, int]
Answers = dict[str, tuple[int, str | None]]


def altering(
    deleted: Sequence[Deleted], changed: Sequence[Set]
) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name=n, mechanism=m) for n, m in deleted],
        upsertions=[
            ScramCredentialUpsertion(
                name=name,
                mechanism=number,
                iterations=iterations,
                salt=SALT,
                salted_password=Mechanism.SCRAM_SHA_256.salted_password("hush", SALT, 1),
            )
            for name, number, iterations in changed
        ],
    )


# @ is a user who has SCRAM-SHA-256 with 4,096 iterations.
CASES: list[tuple[list[Deleted], list[Set], Answers]] = [
    ([], [("new", 2, 16384)], {"new": NONE}),
    ([], [("new", 1, 4096), ("new", 2, 16384)], {"new": TWICE}),
    ([("@", 1)], [], {"@": NONE}),
    ([("@", 1)], [("@", 2, 4096)], {"@": TWICE}),
    ([("@", 1)], [("@", 1, 1)], {"@": TWICE}),
    ([("nobody", 1), ("nobody", 2)], [], {"nobody": MISSING}),
    ([], [("a", 1, 1), ("a", 2, 4096)], {"a": (REFUSED, "Too few iterations")}),
    ([("a", 9)], [("a", 1, 4096)], {"a": UNKNOWN}),
    ([("@", 2)], [], {"@": MISSING}),
    ([("nobody", 1)], [("@", 1, 8192)], {"nobody": MISSING, "@": NONE}),
    ([("nobody", 1)], [("nobody", 1, 8192)], {"nobody": MISSING}),
    ([], [("a", 1, 4095)], {"a": (REFUSED, "Too few iterations")}),
    ([], [("a", 1, 16385)], {"a": (REFUSED, "Too many iterations")}),
    ([], [("a", 1, -1), ("b", 1, 4096)], {"a": (REFUSED, "Too few iterations"), "b": NONE}),
    ([], [("a", 3, 4096)], {"a": UNKNOWN}),
    ([("@", 0)], [], {"@": UNKNOWN}),
    ([], [("", 1, 4096)], {"": NAMELESS}),
    ([("", 1)], [], {"": NAMELESS}),
    ([("", 9)], [], {"": NAMELESS}),
    ([], [("a", 1, 4096), ("a", 1, 8192)], {"a": TWICE}),
    ([("@", 1), ("@", 1)], [], {"@": TWICE}),
    ([("@", 1)], [("@", 1, 4096)], {"@": TWICE}),
    ([], [("a", 9, 4096), ("a", 1, 4096)], {"a": UNKNOWN}),
    ([], [], {}),
]  # fmt: skip


def test_changes_are_answered_as_by_apache(kafka: Kafka) -> None:
    with Asking(kafka) as asking:
        for deleted, changed, expected in CASES:
            prefix = fresh_name("user")

            def named(user: str, prefix: str = prefix) -> str:
                return user and prefix + user

            asking.ask(altering([], [(named("@"), 1, 4096)]))
            request = altering(
                [(named(n), m) for n, m in deleted], [(named(n), m, i) for n, m, i in changed]
            )
            got = {r.user: (r.error_code, r.error_message) for r in asking.ask(request).results}
            assert got == {named(user): said for user, said in expected.items()}, request
            gone = [(named(n), m) for n in ("@", "a", "b", "new") for m in (1, 2)]
            for one in gone:
                asking.ask(altering([one], []))


def test_users_are_described_as_by_apache(kafka: Kafka) -> None:
    one, two = fresh_name("user"), fresh_name("user")
    with Asking(kafka) as asking:
        asking.ask(altering([], [(one, 1, 4096), (two, 2, 5000)]))
        asking.ask(altering([], [(one, 2, 8192)]))

        def described(*users: str) -> dict[str, tuple[int, str | None, list[tuple[int, int]]]]:
            request = DescribeUserScramCredentialsRequest(users=[UserName(name=u) for u in users])
            if not users:
                request.users = None
            answer = asking.ask(request)
            assert (answer.error_code, answer.error_message) == (0, "")
            return {
                r.user: (
                    r.error_code,
                    r.error_message,
                    sorted((c.mechanism, c.iterations) for c in r.credential_infos),
                )
                for r in answer.results
            }

        wait_until(
            "the broker knows the users",
            lambda: len(described(one)[one][2]) == 2 and described(two)[two][0] == 0,
        )
        both = {one: (0, "", [(1, 4096), (2, 8192)]), two: (0, "", [(2, 5000)])}
        assert described(one, two) == both
        assert {u: said for u, said in described().items() if u in both} == both
        assert described("nobody", two, one, one) == {
            "nobody": (
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to describe a user credential that does not exist: nobody",
                [],
            ),
            two: both[two],
            one: (
                ErrorCode.DUPLICATE_RESOURCE,
                (
                    "Cannot describe SCRAM credentials for the same user twice in a single "
                    f"request: {one}"
                ),
                [],
            ),
        }
        for user, number in ((one, 1), (one, 2), (two, 2)):
            asking.ask(altering([(user, number)], []))


def decided(image: MetadataImage, request: AlterUserScramCredentialsRequest) -> list[Event]:
    return scram_users.alter(image, request, b"chance").records


def test_the_metadata_holds_keys_and_no_password() -> None:
    image = MetadataImage()
    image = image.apply(decided(image, altering([], [("a", 1, 4096)])))
    assert image.scram["a", 1] == ScramCredential.of_salted_password(
        Mechanism.SCRAM_SHA_256,
        Mechanism.SCRAM_SHA_256.salted_password("hush", SALT, 1),
        SALT,
        4096,
    )
    assert image.strangers_secret == b"chance"
    later = image.apply(scram_users.alter(image, altering([("a", 1)], []), b"other").records)
    assert (dict(later.scram), later.strangers_secret) == ({}, b"chance"), "salts stay as they were"
    assert snapshot.load(snapshot.dump(image)) == image


def test_a_refused_change_leaves_nothing() -> None:
    assert decided(MetadataImage(), altering([("a", 1)], [("b", 1, 1)])) == []


def test_no_event_shows_what_is_secret() -> None:
    for event in decided(MetadataImage(), altering([], [("a", 1, 4096)])):
        assert "b'" not in repr(event), event
    assert "chance" not in repr(MetadataImage().apply([StrangersSecretMade(b"chance")]))


@pytest.mark.parametrize("count", [1, 1000])
def test_every_user_is_answered_once(count: int) -> None:
    names = [f"u{n}" for n in range(count)]
    decision = scram_users.alter(
        MetadataImage(), altering([(n, 1) for n in names], [(n, 1, 4096) for n in names]), b"x"
    )
    assert [result.user for result in decision.reply.results] == names
