"""The request of `pk consume`: its options, checked against each other."""

from typing import TYPE_CHECKING, NamedTuple

from pk.cli.exits import Unusable
from pk.cli.positions.grammar import END, START, Anchor, Positions, everywhere
from pk.cli.positions.resolve import positions_option
from pk.cli.records.permalinks import SCHEME
from pk.cli.records.range_reader import silence_limit

if TYPE_CHECKING:
    from pk.cli.nouns.consume.options import Consume


class Request(NamedTuple):
    """The request, as the command line states it."""

    options: "Consume"
    topics: tuple[str, ...]
    positions: Positions
    joins: bool
    """Whether the command reads as a member of the group."""

    reset: str
    """auto.offset.reset in a group; None if the command joins none."""

    @property
    def timeout_ms(self) -> int | None:
        """How long to wait for a record; None means forever."""
        return silence_limit(self.options.timeout_ms)


def request_of(options: "Consume") -> Request:
    """Check the options for conflicts, and make the request. Raises Unusable."""
    topics = tuple(dict.fromkeys((*options.topic, *options.topics)))
    if any(word.startswith(SCHEME) for word in topics):
        raise Unusable("Give either permalinks or topics: a link names its topic.")
    if bool(topics) == (options.include is not None):
        raise Unusable("Name topics, or give a regular expression with --include.")
    if options.offset is not None and options.from_beginning:
        raise Unusable("-o and --from-beginning cannot be combined.")
    if options.tail is not None and (
        options.offset is not None or options.from_beginning or options.group
    ):
        raise Unusable(
            "--tail sets where to read; -o, --from-beginning and -g cannot be combined with it."
        )
    if options.follow and (options.tail is None or options.exit):
        raise Unusable("--follow needs --tail, and cannot be combined with -e.")
    if options.key_partition and options.key is None:
        raise Unusable("--key-partition needs a key: -k KEY.")
    positions = positions_option(options.offset, "-o") if options.offset is not None else None
    lends = positions is not None and positions.uses(Anchor.COMMITTED)
    joins = options.group is not None and not lends
    if joins:
        if positions is not None and positions not in (everywhere(START), everywhere(END)):
            raise Unusable(
                "A group continues from its commits: with -g, -o is start or end, for partitions "
                "without a commit, and -e stops at the end. `pk groups reset-offsets` moves "
                "commits; -o committed..end reads from them without joining."
            )
        if options.partitions or options.key_partition:
            raise Unusable("A group assigns the partitions; -p cannot be combined with -g.")
        if options.merge:
            raise Unusable("--merge cannot be combined with -g.")
    if positions is None:
        begin = START if options.from_beginning or options.exit or options.tail else END
        positions = everywhere(begin, END if options.exit or options.tail else None)
    elif options.exit:
        positions = positions.ended()
    reset = "earliest" if positions.ranges[0].begin == START else "latest"
    if options.merge and not positions.bounded:
        raise Unusable("--merge needs a range that ends, such as -o @-1h..end.")
    return Request(options, topics, positions, joins, reset)
