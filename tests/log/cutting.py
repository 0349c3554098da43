"""A disk that loses power in the middle of an operation."""

from collections.abc import Callable
from random import Random
from typing import TypeVar

from effort import STRIDE

from pk.core.log.disk import MemoryDisk

Reported = TypeVar("Reported")
"""The type of a history's notes of its durable data."""


class PowerCut(Exception):
    """The disk took this operation and no more."""


class CuttingDisk(MemoryDisk):
    """A disk that loses power after a number of operations that change something."""

    left: int | None = None

    def check(self, operation: str, path: str) -> None:  # type: ignore[override]
        self.tick()
        super().check(operation, path)  # type: ignore[arg-type]

    def put(self, node: object, data: object, position: int) -> None:  # type: ignore[override]
        self.tick()
        super().put(node, data, position)  # type: ignore[arg-type]

    def tick(self) -> None:
        if self.left is not None:
            if self.left == 0:
                raise PowerCut
            self.left -= 1


def cut_everywhere(
    seed: int,
    reported: Callable[[], Reported],
    run: Callable[[CuttingDisk, int, Reported], None],
    check: Callable[[CuttingDisk, Reported], None],
) -> tuple[int, CuttingDisk, Reported]:
    """Run the history of a seed repeatedly. Each time the power fails later, by one operation or
    `STRIDE` operations, and the state of the disk is checked.

    Returns the number of operations, or a few more, and the disk and the notes of the run that
    completed.
    """
    at = seed % STRIDE
    while True:
        disk, so_far = CuttingDisk(), reported()
        disk.make("/d")
        disk.sync_dir("")
        disk.left = at
        try:
            run(disk, seed, so_far)
        except PowerCut:
            disk.left = None
            random = Random(seed * 1000 + at)
            disk.crash(
                random.choice([0, 1 << 20, random.randrange(300)]),
                names=random.choice(["lost", "kept"]),
                zeroed=random.random() < 0.3,
            )
            check(disk, so_far)
            at += STRIDE
            continue
        disk.left = None
        return at, disk, so_far
