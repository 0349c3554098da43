"""Streams groups that change from round to round, for the assignor `sticky`."""

from __future__ import annotations

import random
from typing import Any

from pk.core.group.streams.sticky import StreamsGroupSpec, StreamsMemberSpec, SubtopologySpec
from pk.core.group.streams.tasks import Tasks

Case = dict[str, Any]


def spec(case: Case) -> StreamsGroupSpec:
    """A case as the assignor takes it."""

    def tasks(kind: dict[str, list[int]]) -> dict[str, frozenset[int]]:
        return {
            subtopology_id: frozenset(partitions) for subtopology_id, partitions in kind.items()
        }

    return StreamsGroupSpec(
        {
            member_id: StreamsMemberSpec(
                each["process"], Tasks(tasks(each["active"]), tasks(each["standby"]))
            )
            for member_id, each in case["members"].items()
        },
        {
            subtopology_id: SubtopologySpec(each["tasks"], each["stateful"])
            for subtopology_id, each in sorted(case["subtopologies"].items())
        },
        case["standbys"],
    )


def printed(given: dict[str, Tasks]) -> Case:
    """An assignment in the form of the JSON file."""

    def listed(kind: Any) -> dict[str, list[int]]:
        return {name: sorted(partitions) for name, partitions in sorted(kind.items())}

    return {
        member_id: {"active": listed(tasks.active), "standby": listed(tasks.standby)}
        for member_id, tasks in given.items()
    }


class ChangingGroup:
    """Members that come and go, with what the last round gave them."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        chance = self._chance
        self.subtopologies = {
            str(n): {"tasks": chance.randint(1, 12), "stateful": chance.random() < 0.6}
            for n in range(chance.randint(1, 12))
        }
        self.standbys = chance.randint(0, 3)
        self._processes = [f"process-{chance.getrandbits(30)}" for _ in range(chance.randint(1, 6))]
        self.members: dict[str, dict[str, Any]] = {}
        for _ in range(chance.randint(1, 8)):
            self._join()

    def _join(self) -> None:
        member_id = f"{self._chance.getrandbits(64):x}-member"
        process = self._chance.choice(self._processes)
        self.members[member_id] = {"process": process, "active": {}, "standby": {}}

    def case(self) -> Case:
        """The group as it is now."""
        return {
            "members": self.members,
            "subtopologies": self.subtopologies,
            "standbys": self.standbys,
        }

    def assigned(self, given: Case) -> None:
        """The group has this assignment; then somebody comes or goes, or a topic grows."""
        for member_id, tasks in given.items():
            self.members[member_id] |= tasks
        what = self._chance.randint(0, 5)
        if what <= 1:
            self._join()
        elif what <= 3 and len(self.members) > 1:
            del self.members[self._chance.choice(sorted(self.members))]
        elif what == 4:
            self._chance.choice(list(self.subtopologies.values()))["tasks"] += 1
