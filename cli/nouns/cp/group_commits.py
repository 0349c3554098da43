"""The progress of `pk cp --exactly-once`: offsets of a group, committed in the transactions that
write the copies.

A copy that starts takes over the transactional id and fences earlier copies. This aborts a
transaction that an earlier copy left open, so the group's offsets are then exactly those of the
records that read_committed consumers see. The plan is made before that, and does not wait for the
end of such a transaction, which may last until its timeout.
"""

from collections.abc import Mapping

from pk.cli.exits import Refused
from pk.cli.nouns.cp.resumed_spans import report_deleted, resumed_spans
from pk.cli.phrases import count
from pk.cli.records.range_reader import Span
from pk.cli.runtime.context import Context
from pk.cli.runtime.poll import poll_until
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client.admin import Admin
from pk.net.client.answers import Answers
from pk.net.client.errors import RequestTimedOut
from pk.net.client.producer import Producer
from pk.net.client.results import GroupMetadata, OffsetAndMetadata

_STABLE_S = 30.0
"""How long the markers of an earlier copy's transaction may take."""

_PAUSE_S = 0.1


class GroupCommits:
    """The offsets of a group without members."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.found = False
        """Whether the group had offsets to continue from."""

        self._committed: dict[TopicPartition, int] = {}

    @property
    def transactional_id(self) -> str:
        """The transactional id if none is given, so that copies with the same group fence each
        other."""
        return f"pk-cp-{self.group}"

    async def check_memberless(self, admin: Admin) -> None:
        """Raise Refused if the group has members, since these commit its offsets."""
        described = (await admin.describe_groups([self.group])).ok.get(self.group)
        if described is not None and described.members:
            raise Refused(
                f"Group {self.group} has {count(len(described.members), 'member')}; a copy needs a "
                "group of its own."
            )

    async def resumed(
        self,
        context: Context,
        admin: Admin,
        spans: Mapping[TopicPartition, Span],
        starts: Mapping[TopicPartition, int],
        *,
        taken_over: bool,
    ) -> dict[TopicPartition, Span]:
        """The `spans` from the group's offsets on. Records before `starts` that were deleted since
        then are a failure, which is reported only once the offsets are final, or in a dry run.

        The offsets are final if the transactional id is `taken_over`. Raises KafkaError,
        ClientError.
        """
        self._committed = await self._offsets(admin, stable=taken_over)
        self.found = not self._committed.keys().isdisjoint(spans)
        if taken_over or context.change.dry_run:
            report_deleted(context, spans, starts, self._committed)
        return resumed_spans(spans, starts, self._committed)

    async def _offsets(self, admin: Admin, *, stable: bool) -> dict[TopicPartition, int]:
        """The group's committed offsets; with `stable`, only once no open transaction can change
        them."""
        answers: Answers[TopicPartition, OffsetAndMetadata | None] = Answers()

        async def read() -> bool:
            nonlocal answers
            answers = await admin.list_group_offsets(self.group, require_stable=stable)
            return not any(map(_is_unstable, answers.errors.values()))

        if not await poll_until(read, every_s=_PAUSE_S, within_s=_STABLE_S):
            raise RequestTimedOut(
                f"group {self.group} has offsets of an unfinished transaction after "
                f"{_STABLE_S:.0f} s"
            )
        for error in answers.errors.values():
            raise error
        return {tp: commit.offset for tp, commit in answers.ok.items() if commit is not None}

    async def send(self, producer: Producer, positions: Mapping[TopicPartition, int]) -> None:
        """Commit `positions` in the producer's open transaction. Raises KafkaError, ClientError."""
        changed = {tp: o for tp, o in positions.items() if self._committed.get(tp) != o}
        offsets = {tp: OffsetAndMetadata(offset) for tp, offset in changed.items()}
        await producer.send_offsets(offsets, GroupMetadata(self.group))
        self._committed |= changed


async def take_over(producer: Producer) -> None:
    """Become the only producer of the transactional id. A transaction that an earlier producer left
    open is aborted."""
    async with producer.transaction():
        pass


def _is_unstable(answer: object) -> bool:
    return isinstance(answer, KafkaError) and answer.code == ErrorCode.UNSTABLE_OFFSET_COMMIT
