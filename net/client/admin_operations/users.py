"""Admin requests about users: their SCRAM credentials (KIP-554). A password never leaves this
process: only salted values are sent."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import trio

from pk.core.auth.scram import SALT_BYTES, Mechanism
from pk.core.errors import KafkaError
from pk.net.client.admin_operations.base import AdminBase, check, failure
from pk.net.client.answers import Answers
from pk.net.client.connection import Connection


class ScramUser(NamedTuple):
    """The visible part of a user's credential for one mechanism."""

    user: str
    mechanism: Mechanism
    iterations: int


class NewPassword(NamedTuple):
    """A new password of a user for one mechanism."""

    user: str
    mechanism: Mechanism
    password: str
    iterations: int

    def __repr__(self) -> str:
        return f"NewPassword({self.user!r}, {self.mechanism.sasl_name})"


class UserOperations(AdminBase):
    """Operations on users with SCRAM credentials."""

    async def describe_scram_users(
        self, users: Iterable[str] | None = None
    ) -> Answers[str, tuple[ScramUser, ...]]:
        """Return the credentials of users (None: all). Needs brokers from 2.7 on."""
        from pk.core.wire.messages.describe_user_scram_credentials import (
            DescribeUserScramCredentialsRequest,
            UserName,
        )

        names = [UserName(name=n) for n in dict.fromkeys(users or ())]
        if users is not None and not names:
            return Answers()
        # An empty list means all users, like null. If the list is null, Apache Kafka (at least up
        # to 4.3) fails internally and closes the connection without an answer.
        response = await self._any(DescribeUserScramCredentialsRequest(users=names))
        check(response, "DescribeUserScramCredentials")
        return Answers(
            (
                result.user,
                failure(result.error_code, result.error_message)
                or tuple(
                    ScramUser(result.user, Mechanism(info.mechanism), info.iterations)
                    for info in sorted(result.credential_infos, key=lambda info: info.mechanism)
                    if info.mechanism in list(Mechanism)
                ),
            )
            for result in response.results
        )

    async def set_passwords(self, changes: Sequence[NewPassword]) -> Answers[str, None]:
        """Set passwords of new or existing users. A user may occur only once."""
        from pk.core.wire.messages.alter_user_scram_credentials import (
            AlterUserScramCredentialsRequest,
            ScramCredentialUpsertion,
        )

        upsertions: list[ScramCredentialUpsertion] = []
        for one in changes:
            salt = secrets.token_bytes(SALT_BYTES)
            salted = await trio.to_thread.run_sync(
                one.mechanism.salted_password, one.password, salt, one.iterations
            )
            upsertions.append(
                ScramCredentialUpsertion(
                    name=one.user,
                    mechanism=one.mechanism,
                    iterations=one.iterations,
                    salt=salt,
                    salted_password=salted,
                )
            )
        return await self._alter_users(AlterUserScramCredentialsRequest(upsertions=upsertions))

    async def delete_scram_users(
        self, mechanism: Mechanism, users: Iterable[str]
    ) -> Answers[str, None]:
        """Delete the credentials of users for one mechanism."""
        from pk.core.wire.messages.alter_user_scram_credentials import (
            AlterUserScramCredentialsRequest,
            ScramCredentialDeletion,
        )

        deletions = [
            ScramCredentialDeletion(name=name, mechanism=mechanism) for name in dict.fromkeys(users)
        ]
        return await self._alter_users(AlterUserScramCredentialsRequest(deletions=deletions))

    async def _alter_users(self, request: Any) -> Answers[str, None]:
        if not (request.deletions or request.upsertions):
            return Answers()

        async def ask(connection: Connection) -> Any:
            response = await connection.request(request)
            for result in response.results:
                error = failure(result.error_code)
                if isinstance(error, KafkaError) and error.retriable:
                    raise error
            return response

        response = await self._controller(ask)
        return Answers((r.user, failure(r.error_code, r.error_message)) for r in response.results)
