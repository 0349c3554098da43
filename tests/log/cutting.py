"""A disk that loses power in the middle of what is done to it."""

from pk.core.log.disk import MemoryDisk


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
