"""The assignor `sticky`: Apache's answers, and the invariants of its assignments."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from each import for_each
from group.streams.sticky_cases import ChangingGroup, printed, spec

from pk.core.group.streams.sticky import assign

GOLDEN = Path(__file__).parents[2] / "golden" / "sticky_assignments.json"


@for_each("case", json.loads(GOLDEN.read_text()), ids=lambda _: "")
def test_apaches_answers(case: dict[str, Any]) -> None:
    assert printed(assign(spec(case["case"]))) == case["expected"]


@for_each("seed", range(60))
def test_every_task_is_active_once_and_never_twice_in_a_process(seed: int) -> None:
    group = ChangingGroup(seed)
    for _ in range(6):
        asked = spec(group.case())
        given = assign(asked)
        active = [(s, p) for tasks in given.values() for s, ps in tasks.active.items() for p in ps]
        every = [(s, p) for s, each in asked.subtopologies.items() for p in range(each.tasks)]
        assert sorted(active) == sorted(every)
        in_process: Counter[tuple[str, str, int]] = Counter()
        standbys: Counter[tuple[str, int]] = Counter()
        for member_id, tasks in given.items():
            process = asked.members[member_id].process_id
            for kind in (tasks.active, tasks.standby):
                in_process.update((process, s, p) for s, ps in kind.items() for p in ps)
            standbys.update((s, p) for s, ps in tasks.standby.items() for p in ps)
        assert set(in_process.values()) <= {1}
        processes = {each.process_id for each in asked.members.values()}
        wanted = min(asked.standby_replicas, len(processes) - 1)
        assert standbys == {
            (s, p): wanted for s, p in every if asked.subtopologies[s].is_stateful and wanted
        }
        group.assigned(printed(given))


@for_each("seed", range(40))
def test_nothing_moves_when_nothing_changes(seed: int) -> None:
    case = ChangingGroup(seed).case()
    first = printed(assign(spec(case)))
    for member_id, tasks in first.items():
        case["members"][member_id] |= tasks
    again = printed(assign(spec(case)))
    assert {m: t["active"] for m, t in again.items()} == {m: t["active"] for m, t in first.items()}
