"""The commands of `pk share-consume`, with their options."""

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.share_consume.options import ShareConsume
from pk.cli.options.option_sets import Connection

SHARE_CONSUME = Noun("share-consume")


SHARE_CONSUME.command(
    help="Read records as a member of a share group, and acknowledge each.",
    worker="share_consume:share_consume",
    options=ShareConsume,
    takes=(Connection,),
    examples=(
        "pk share-consume orders -g workers --timeout-ms 1000",
        "pk share-consume orders -g workers --timeout-ms 1000 -f '%p %o %v\\n'",
        "pk share-consume orders -g workers --release --timeout-ms 1000",
    ),
    notes=(
        "The members of a share group take records from the same partitions, like workers from a "
        "queue. Each record that is shown is accepted, unless --release or --reject says "
        "otherwise; the group delivers a released record again, as often as "
        "group.share.delivery.count.limit allows. A new group begins with the records written "
        "from then on: `pk configs alter group GROUP -c share.auto.offset.reset=earliest` has it "
        "begin with the first."
    ),
    screen="streams",
)
