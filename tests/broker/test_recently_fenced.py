"""Metadata still lists brokers that were fenced a moment ago, and no other fenced brokers."""

import trio
import trio.testing
from group.brokers import simulated
from msgspec.structs import replace

from pk.core.broker.requests.recently_fenced import RECENT_S, RecentlyFencedBrokers
from pk.core.meta.image import BrokerImage, Changes, MetadataImage


def image(**fenced: bool) -> MetadataImage:
    """Brokers b1, b2, … and whether each is fenced."""
    broker = BrokerImage(0, 1, bytes(16), (), None, (), (), False, False)
    brokers = {
        int(name[1:]): replace(broker, broker_id=int(name[1:]), fenced=is_fenced)
        for name, is_fenced in fenced.items()
    }
    return replace(MetadataImage(), brokers=brokers)


ALL = Changes(brokers=[1, 2, 3])


@simulated
async def test_a_fenced_broker_is_named_for_a_while() -> None:
    recently_fenced = RecentlyFencedBrokers()
    recently_fenced.image_changed(image(b1=False, b2=False, b3=True), ALL)
    assert not recently_fenced.nodes(), "the third was fenced before, who knows when"
    recently_fenced.image_changed(image(b1=False, b2=True, b3=True), ALL)
    assert recently_fenced.nodes() == {2}
    await trio.sleep(RECENT_S / 2)
    recently_fenced.image_changed(image(b1=False, b2=True, b3=True), Changes())
    assert recently_fenced.nodes() == {2}
    await trio.sleep(RECENT_S / 2)
    assert not recently_fenced.nodes()


@simulated
async def test_one_that_is_back_or_gone_is_not() -> None:
    recently_fenced = RecentlyFencedBrokers()
    recently_fenced.image_changed(image(b1=False, b2=False), ALL)
    recently_fenced.image_changed(image(b1=True, b2=True), ALL)
    assert recently_fenced.nodes() == {1, 2}
    recently_fenced.image_changed(image(b1=False), ALL)
    assert not recently_fenced.nodes()
