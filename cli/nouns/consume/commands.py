"""The commands of `pk consume`, with their options."""

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.consume.options import Consume, ends
from pk.cli.options.option_sets import Connection

CONSUME = Noun("consume")


CONSUME.command(
    help="Read records.",
    worker="consume:consume",
    options=Consume,
    takes=(Connection,),
    guards_itself=True,
    examples=(
        "pk consume orders -o -10..end",
        "pk consume orders -o '@yesterday 14:00..@-1h' --where 'value.amount > 100' -f jsonl",
        "pk consume orders --tail 20 -f '%p %o %d %k %v\\n'",
        "pk consume orders -e -k user-1 --key-partition -f '%L\\t%v\\n'",
        "pk consume pk://orders/0/1 -f jsonl",
        "pk consume orders -g workers --share -n 10",
        "pk console-consumer --topic orders --from-beginning --property print.key=true",
    ),
    notes=(
        "Records of __consumer_offsets, __transaction_state and __share_group_state are decoded; "
        "without -f, each is shown as a line of JSON with key and value.\nPositions: `pk help "
        "positions`. Formats: `pk help formats`.\nA partition without a leader is read once it "
        "has one. A range that ends skips such a partition, and the command fails.\nThe members of "
        "a share group take records from the same partitions, like workers from a queue. Each "
        "record that is shown is accepted, unless --release or --reject is given. A new share "
        "group begins with the records written from then on: `pk configs alter group GROUP -c "
        "share.auto.offset.reset=earliest` makes it begin with the first. Without -g it is the "
        "group console-share-consumer."
    ),
    screen="streams",
    shows_waits=True,
    from_use=True,
    instead_of_use=("include", "topics"),
    repeatable=ends,
)
