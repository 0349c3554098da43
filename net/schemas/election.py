"""Elects the leader of several registries through a Kafka group, like Confluent's registries.

The group's protocol type is `sr`, its only protocol `v0`. Each member sends its address. The member
that Kafka makes the group's leader announces which member leads the registry: the eligible member
with the smallest URL. So registries of pk and of Confluent can run together.
"""

from __future__ import annotations

import json
import logging
from typing import Any, Final, cast

import trio
from msgspec import Struct

from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.wire.messages.heartbeat import HeartbeatRequest
from pk.core.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pk.core.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pk.core.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pk.net.client.cluster import Cluster
from pk.net.client.connection import Connection
from pk.net.client.errors import ClientError

logger = logging.getLogger("pk.schemas")

PROTOCOL_TYPE: Final = "sr"
PROTOCOL: Final = "v0"
SESSION_MS: Final = 10_000
HEARTBEAT_MS: Final = 1_000
REBALANCE_MS: Final = 60_000
_PURPOSE: Final = "group"
_PAUSE_S: Final = 0.2


class Identity(Struct, frozen=True):
    """A registry instance with its address."""

    host: str
    port: int
    scheme: str = "http"
    eligible: bool = True

    @property
    def url(self) -> str:
        """The URL of the registry."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that members of the group exchange."""
        return {
            "version": 1,
            "host": self.host,
            "port": self.port,
            "master_eligibility": self.eligible,
            "scheme": self.scheme,
        }


def identity(data: object) -> Identity | None:
    """Return the registry instance that a member's JSON describes; None if the JSON is invalid."""
    if not isinstance(data, dict):
        return None
    found = cast("dict[str, Any]", data)
    host, port = found.get("host"), found.get("port")
    if not isinstance(host, str) or not isinstance(port, int):
        return None
    eligible = found.get("master_eligibility", found.get("leader_eligibility", True)) is True
    return Identity(host, port, str(found.get("scheme") or "http"), eligible)


def choose(members: dict[str, Identity]) -> tuple[str | None, Identity | None, int]:
    """Return the id of the member that leads, that member, and the group's error: 1 if two members
    have the same URL. `members` is keyed by member id."""
    urls = [each.url for each in members.values()]
    if len(set(urls)) < len(urls):
        return None, None, 1
    able = sorted((each.url, name) for name, each in members.items() if each.eligible)
    return (able[0][1], members[able[0][1]], 0) if able else (None, None, 0)


class Election:
    """The membership of this instance in the election. `leader` is the leader, as far as this
    instance knows."""

    def __init__(self, cluster: Cluster, group_id: str, own: Identity) -> None:
        self.own = own
        self.leader: Identity | None = None
        self._cluster = cluster
        self._group_id = group_id
        self._member_id = ""
        self._generation = -1
        self._changed = trio.Event()
        self._next_heartbeat = 0.0
        self._valid_until = 0.0

    @property
    def leads(self) -> bool:
        """Whether this instance leads. True only while its session in the group cannot have
        expired."""
        return self.leader == self.own and trio.current_time() < self._valid_until

    async def changed(self) -> None:
        """Wait for the next change of the leader."""
        await self._changed.wait()

    def step_down(self) -> None:
        """Give up the leadership and join again, because another instance writes."""
        self._set(None)
        self._generation = -1

    def _set(self, leader: Identity | None) -> None:
        if leader != self.leader:
            self.leader = leader
            event, self._changed = self._changed, trio.Event()
            event.set()

    async def run(self) -> None:
        """Maintain the membership until cancelled."""
        try:
            while True:
                try:
                    await self._join()
                    await self._heartbeat_until_rejoin()
                except KafkaError as e:
                    self._handle_error(e)
                except (ClientError, ProtocolError, ValueError) as e:
                    logger.debug("the election starts again: %s", e)
                    self._cluster.forget_coordinator(self._group_id)
                self._set(None)
                await trio.sleep(_PAUSE_S)
        finally:
            with trio.move_on_after(1, shield=True):
                await self._leave()

    def _handle_error(self, error: KafkaError) -> None:
        self._cluster.forget_coordinator(self._group_id)
        self._generation = -1
        if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self._member_id = ""
        elif not error.retriable and error.code not in (
            ErrorCode.MEMBER_ID_REQUIRED,
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.ILLEGAL_GENERATION,
        ):
            logger.warning("the registry's group %s: %s", self._group_id, error)

    async def _connection(self) -> Connection:
        node = await self._cluster.coordinator(self._group_id)
        return await self._cluster.connection(node, _PURPOSE)

    async def _join(self) -> None:
        connection = await self._connection()
        response = await self._ask_to_join(connection)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
            response = await self._ask_to_join(connection)
        if response.error_code:
            raise KafkaError(response.error_code, f"joining group {self._group_id}")
        self._member_id, self._generation = response.member_id, response.generation_id
        assignments: list[SyncGroupRequestAssignment] = []
        if response.leader == response.member_id:
            assignments = self._assignments(response.members)
        sync = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=assignments,
        )
        asked_at = trio.current_time()
        answer = await connection.request(sync, timeout_ms=REBALANCE_MS + SESSION_MS)
        if answer.error_code:
            raise KafkaError(answer.error_code, f"joining group {self._group_id}")
        self._heartbeat_answered(asked_at)
        assignment: Any = json.loads(bytes(answer.assignment))
        if assignment.get("error"):
            logger.error("two schema registries advertise the same address; neither becomes leader")
        self._set(identity(assignment.get("master_identity")))

    async def _ask_to_join(self, connection: Connection) -> Any:
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(
                    name=PROTOCOL, metadata=json.dumps(self.own.to_json()).encode()
                )
            ],
        )
        return await connection.request(request, timeout_ms=REBALANCE_MS + SESSION_MS)

    def _assignments(self, members: Any) -> list[SyncGroupRequestAssignment]:
        known: dict[str, Identity] = {}
        for each in members:
            try:
                found = identity(json.loads(bytes(each.metadata)))
            except ValueError:
                found = None
            if found is not None:
                known[each.member_id] = found
        name, leader, error = choose(known)
        answer: dict[str, Any] = {"version": 1, "error": error}
        if leader is not None:
            answer |= {"master": name, "master_identity": leader.to_json()}
        data = json.dumps(answer).encode()
        return [
            SyncGroupRequestAssignment(member_id=each.member_id, assignment=data)
            for each in members
        ]

    def _heartbeat_answered(self, asked_at: float) -> None:
        self._next_heartbeat = asked_at + HEARTBEAT_MS / 1000
        self._valid_until = asked_at + SESSION_MS / 1000

    async def _heartbeat_until_rejoin(self) -> None:
        while self._generation >= 0:
            changed = self._changed
            with trio.move_on_at(self._next_heartbeat):
                await changed.wait()
            if trio.current_time() < self._next_heartbeat:
                continue
            asked_at = trio.current_time()
            request = HeartbeatRequest(
                group_id=self._group_id,
                generation_id=self._generation,
                member_id=self._member_id,
            )
            connection = await self._connection()
            response = await connection.request(request, timeout_ms=SESSION_MS)
            if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                return
            if response.error_code:
                raise KafkaError(response.error_code, f"group {self._group_id}")
            self._heartbeat_answered(asked_at)

    async def _leave(self) -> None:
        if not self._member_id:
            return
        try:
            connection = await self._connection()
            request = LeaveGroupRequest(group_id=self._group_id)
            version = connection.version_of(request.API_KEY)
            if version >= 3:
                request.members = [MemberIdentity(member_id=self._member_id)]
            else:
                request.member_id = self._member_id
            await connection.request(request, version=version, timeout_ms=1000)
        except (KafkaError, ClientError, ProtocolError):
            return
