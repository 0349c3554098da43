"""Cases for the server-side assignors: random groups, and what becomes of them as they change."""

from __future__ import annotations

import random
from typing import Any

from pk.core.group.assignor import Assignment, GroupSpec, MemberSpec, ServerAssignor
from pk.core.group.consumer.ranges import ServerRangeAssignor
from pk.core.group.consumer.uniform import UniformAssignor
from pk.core.values import TopicIdPartition, uuid_from_text, uuid_text

Case = dict[str, Any]
"""`assignor`, `alike`, `topics` (id → partitions), `members` (id → topics, target, rack,
instance)."""

ASSIGNORS: dict[str, ServerAssignor] = {
    "uniform": UniformAssignor(),
    "range": ServerRangeAssignor(),
}


def spec(case: Case) -> GroupSpec:
    """The group of a case."""
    return GroupSpec(
        {
            member_id: MemberSpec(
                frozenset(uuid_from_text(t) for t in said["topics"]),
                {uuid_from_text(t): frozenset(ps) for t, ps in said["target"].items()},
                said["instance"],
                said["rack"],
            )
            for member_id, said in case["members"].items()
        },
        {uuid_from_text(t): count for t, count in case["topics"].items()},
        {
            TopicIdPartition(uuid_from_text(t), p): frozenset(of)
            for t, all_racks in case.get("racks", {}).items()
            for p, of in enumerate(all_racks)
        },
    )


def printed(assigned: dict[str, Assignment]) -> dict[str, dict[str, list[int]]]:
    """An assignment in the form of a case's answer, without empty lists."""
    return {
        member_id: {uuid_text(t): sorted(ps) for t, ps in given.items() if ps}
        for member_id, given in assigned.items()
        if given
    }


class ChangingGroup:
    """A group over several assignments: members come, go and change their mind, topics grow."""

    def __init__(self, seed: int, *, racks: bool = False) -> None:
        self.chance = random.Random(seed)
        chance = self.chance
        self.assignor = chance.choice(list(ASSIGNORS))
        self.alike = chance.random() < 0.5
        self.topics: dict[str, int] = {}
        for _ in range(chance.randint(1, 5)):
            self.topics[uuid_text(chance.randbytes(16))] = chance.choice((1, 2, 3, 6, 12, 40))
        self.rack_names = ["a", "b", "c"] if racks else []
        self.common = self._choose()
        self.members: dict[str, dict[str, Any]] = {}
        for _ in range(chance.randint(1, 8)):
            self._come()

    def _choose(self) -> list[str]:
        chosen = [t for t in self.topics if self.chance.random() < 0.7] or list(self.topics)
        return sorted(chosen, key=uuid_from_text)  # where Java's buckets collide, the first counts

    def _come(self) -> None:
        chance = self.chance
        member_id = uuid_text(chance.randbytes(16))
        self.members[member_id] = {
            "topics": self.common if self.alike else self._choose(),
            "target": {},
            "instance": f"i{chance.randint(0, 99)}-{member_id[:4]}"
            if chance.random() < 0.3
            else None,
            "rack": chance.choice([*self.rack_names, None]) if self.rack_names else None,
        }

    def case(self) -> Case:
        """The group as it is now."""
        racks = {
            t: [
                sorted(self.chance.sample(self.rack_names, self.chance.randint(1, 2)))
                for _ in range(count)
            ]
            for t, count in self.topics.items()
            if self.rack_names
        }
        topics = [m["topics"] for m in self.members.values()]
        return {
            "assignor": self.assignor,
            "alike": all(t == topics[0] for t in topics),
            "topics": dict(self.topics),
            "members": {m: dict(said) for m, said in self.members.items()},
            "racks": racks,
        }

    def assigned(self, answer: dict[str, dict[str, list[int]]]) -> None:
        """Take the answer as the target, then change the group a little."""
        for member_id, said in self.members.items():
            said["target"] = answer.get(member_id, {})
        chance = self.chance
        for _ in range(chance.randint(0, 2)):
            if len(self.members) > 1:
                del self.members[chance.choice(sorted(self.members))]
        for _ in range(chance.randint(0, 3)):
            self._come()
        if chance.random() < 0.4:
            grown = chance.choice(sorted(self.topics))
            self.topics[grown] += chance.randint(1, 5)
        if chance.random() < 0.3:
            self.common = self._choose()
            for said in self.members.values():
                said["topics"] = self.common if self.alike else self._choose()
