"""A broker as its clients know it."""

from msgspec import Struct


class Node(Struct, frozen=True):
    """A broker with its address and rack."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    fenced: bool = False

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def label(self) -> str:
        """`broker 2 at host:9092`, or only the address if the broker's id is not known yet."""
        return f"broker {self.node_id} at {self.address}" if self.node_id >= 0 else self.address
