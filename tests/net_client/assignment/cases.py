"""Cases for the assignors: random groups, and what a group becomes when it rebalances again and
again."""

from __future__ import annotations

import base64
import random
from collections.abc import Mapping
from typing import Any

from pk.core.group.consumer_protocol import Subscription
from pk.core.values import TopicPartition
from pk.net.client.assignment.assignors import ASSIGNORS

Case = dict[str, Any]
"""`assignor`, `topics` (name → the racks of each partition), `members` (id → its subscription)."""


def run(case: Case) -> dict[str, list[list[Any]]]:
    """The assignment that pk's assignor computes for a case."""
    partitions = {topic: len(racks) for topic, racks in case["topics"].items()}
    racks = {
        TopicPartition(topic, index): frozenset(of)
        for topic, all_racks in case["topics"].items()
        for index, of in enumerate(all_racks)
    }
    subscriptions = {m: subscription(said) for m, said in case["members"].items()}
    assigned = ASSIGNORS[case["assignor"]].assign(partitions, subscriptions, racks)
    return {m: [list(p) for p in given] for m, given in assigned.items()}


def subscription(said: Mapping[str, Any]) -> Subscription:
    """A member's subscription in the form that assignors take."""
    return Subscription(
        tuple(said["topics"]),
        None if said["user_data"] is None else base64.b64decode(said["user_data"]),
        tuple(TopicPartition(*p) for p in said["owned"]),
        said["generation"],
        said["rack"],
        said["instance"],
    )


class Group:
    """A group over several rebalances: members come and go, topics grow, claims are sometimes old
    or doubled."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        chance = self.chance
        self.assignor = chance.choice(list(ASSIGNORS))
        self.racks = ["a", "b", "c"][: chance.choice((0, 0, 2, 3))]
        self.alike = chance.random() < 0.5
        self.topics: dict[str, list[list[str]]] = {}
        for i in range(chance.randint(1, 5)):
            self.topics[f"topic-{i}" if chance.random() < 0.5 else f"t{i * 7}"] = self._partitions(
                chance.choice((0, 1, 3, 3, 6, 12))
            )
        self.members: dict[str, dict[str, Any]] = {}
        self.generation = 0
        for _ in range(chance.randint(1, 7)):
            self._come()

    def _partitions(self, count: int) -> list[list[str]]:
        return [
            self.chance.sample(self.racks, self.chance.randint(1, len(self.racks)))
            if self.racks
            else []
            for _ in range(count)
        ]

    def _come(self) -> None:
        chance = self.chance
        wanted = [*self.topics, "missing"] if chance.random() < 0.1 else list(self.topics)
        if not self.alike:
            wanted = chance.sample(
                wanted, chance.randint(0 if chance.random() < 0.1 else 1, len(wanted))
            )
        member_id = f"consumer-{chance.randint(0, 99)}-{chance.getrandbits(64):x}"
        self.members[member_id] = {
            "topics": wanted,
            "user_data": None,
            "owned": [],
            "generation": -1,
            "rack": chance.choice(self.racks) if self.racks and chance.random() < 0.8 else None,
            "instance": f"i{chance.randint(0, 10**6)}" if chance.random() < 0.2 else None,
        }

    def case(self) -> Case:
        """The group as it asks to be assigned now."""
        return {
            "assignor": self.assignor,
            "topics": {t: list(p) for t, p in self.topics.items()},
            "members": {m: dict(said) for m, said in self.members.items()},
        }

    def assigned(self, assignment: Mapping[str, list[list[Any]]]) -> None:
        """The members take what they were given; then something changes."""
        chance = self.chance
        self.generation += 1
        for member, given in assignment.items():
            if chance.random() < 0.1:
                continue  # it missed the rebalance and will claim its old partitions
            self._remember(self.members[member], [list(p) for p in given], self.generation)
        for _ in range(chance.randint(0, 2)):
            self._come()
        if chance.random() < 0.4 and len(self.members) > 1:
            del self.members[chance.choice(list(self.members))]
        if chance.random() < 0.2:
            topic = chance.choice(list(self.topics))
            self.topics[topic] += self._partitions(chance.randint(1, 4))
        if chance.random() < 0.1 and len(self.topics) > 1:
            del self.topics[chance.choice(list(self.topics))]
        if chance.random() < 0.2 and not self.alike:
            member = self.members[chance.choice(list(self.members))]
            member["topics"] = chance.sample(list(self.topics), chance.randint(1, len(self.topics)))
        if chance.random() < 0.1 and len(self.members) > 1:
            one, other = chance.sample(list(self.members), 2)
            self._remember(
                self.members[one],
                list(self.members[other]["owned"]),
                self.members[one]["generation"],
            )

    def _remember(self, said: dict[str, Any], owned: list[list[Any]], generation: int) -> None:
        partitions = [TopicPartition(*p) for p in owned]
        user_data = ASSIGNORS[self.assignor].user_data(partitions, generation)
        said["user_data"] = None if user_data is None else base64.b64encode(user_data).decode()
        said["owned"] = owned
        # A member that speaks an older version of the protocol says its generation only in the user
        # data.
        said["generation"] = generation if self.chance.random() < 0.9 else -1
