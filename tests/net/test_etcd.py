"""The effects of leases and of faults of etcd's servers on the metadata store on etcd.

The store's other promises are tested in tests/meta/test_store.py, with the other stores.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from clients.wires import Wires
from etcd_server import EtcdServers, skip_without_etcd
from etcd_stores import SHORT_MS, EtcdStores
from store_events import Losses, allocated, large, until

from pk.cli.up.certificates import Authority
from pk.core.broker.offload import inline
from pk.core.config import BrokerConfig
from pk.core.meta.events import (
    Endpoint,
    TopicCreated,
)
from pk.core.meta.image import MetadataImage
from pk.core.meta.store import Fenced, Leader, StoreFailed, StoreFull
from pk.net import etcd as module
from pk.net.etcd import EtcdStore
from pk.net.etcd_client import EtcdClient
from pk.net.etcd_leader import EtcdLeader, LeaderKey
from pk.net.etcd_tls import tls_of

TEST_S = 240.0


@pytest.fixture
def stores(etcd: EtcdServers) -> EtcdStores:
    return EtcdStores(etcd)


@pytest.fixture
def own_server() -> Iterator[EtcdServers]:
    """A server that the test may stop."""
    skip_without_etcd()
    with EtcdServers() as server:
        yield server


@pytest.fixture
def three_servers() -> Iterator[EtcdServers]:
    skip_without_etcd()
    with EtcdServers(3) as servers:
        yield servers


@pytest.fixture
def wires() -> Iterator[Wires]:
    between = Wires()
    yield between
    between.close()


def run(main: Callable[[], Awaitable[None]], *stores: EtcdStores) -> None:
    async def inside() -> None:
        with inline(), trio.fail_after(TEST_S):
            async with trio.open_nursery() as nursery:
                for each in stores:
                    each.nursery = nursery
                await main()
                nursery.cancel_scope.cancel()

    trio.run(inside)


# --- the election


def test_a_lease_that_ended_is_reported_and_another_is_elected(stores: EtcdStores) -> None:
    async def main() -> None:
        first, second = stores.make(1), stores.make(2)
        losses = Losses(first)
        epoch = await first.campaign(1)
        await first.append(epoch, 0, [allocated(1)])
        async with trio.open_nursery() as nursery:
            elected: list[int] = []

            async def campaign() -> None:
                elected.append(await second.campaign(2))

            nursery.start_soon(campaign)
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert not elected and not losses.reported
            await stores.expire(first)
            assert await losses.wait() == epoch
            with pytest.raises(Fenced):
                await first.append(epoch, 1, [allocated(2)])
        assert elected == [epoch + 1]
        await second.append(epoch + 1, 1, [allocated(3)])
        # The first one may stand again; it waits, since the second is the controller.
        with trio.move_on_after(0.3):
            raise AssertionError(await first.campaign(1))
        await second.close()
        assert await first.campaign(1) == epoch + 2
        assert (await first.load()).producer_id_next == 3
        await first.close()

    run(main, stores)


def test_a_controller_whose_port_is_closed_is_deposed_though_its_lease_lasts(
    stores: EtcdStores,
) -> None:
    async def main() -> None:
        first, second, third = (stores.make(number) for number in (1, 2, 3))
        losses = Losses(first)
        epoch = await first.campaign(1)
        await first.append(epoch, 0, [allocated(1)])
        there = Endpoint("CONTROLLER", "127.0.0.1", 9001, 0)
        async with trio.open_nursery() as nursery:
            elected: list[int] = []

            async def campaign(store: EtcdStore) -> None:
                await store.campaign(store.controller_id)
                elected.append(store.controller_id)

            for store in (second, third):
                nursery.start_soon(campaign, store)
            await trio.testing.wait_all_tasks_blocked(0.05)
            second.depose(1, there._replace(port=9002))
            third.depose(2, there)
            with trio.move_on_after(0.3):
                await losses.wait()
            assert not elected, "it listens elsewhere, and another one may be gone"
            third.depose(1, there)
            second.depose(1, there)
            assert await losses.wait() == epoch
            await until(lambda: _counts(elected, 1))
            with pytest.raises(Fenced):
                await first.append(epoch, 1, [allocated(2)])
            [winner] = elected
            by_id = {2: second, 3: third}
            await by_id[winner].append(epoch + 1, 1, [allocated(3)])
            await by_id.pop(winner).close()
        assert set(elected) == {2, 3}, "one at a time"
        [last] = by_id.values()
        assert (await last.load()).producer_id_next == 3
        for store in (first, last):
            await store.close()

    run(main, stores)


async def _counts(won: list[int], count: int) -> bool:
    return len(won) == count


def test_a_process_that_is_started_again_need_not_wait_for_its_own_lease(
    stores: EtcdStores,
) -> None:
    async def main() -> None:
        before, after = stores.make(1), stores.make(1)
        epoch = await before.campaign(1)
        assert await after.campaign(1) == epoch + 1
        with pytest.raises(Fenced):
            await before.append(epoch, 0, [allocated(1)])
        await after.close()
        await before.close()

    run(main, stores)


def test_a_controller_that_comes_and_goes_between_two_looks_keeps_nobody_waiting(
    stores: EtcdStores,
) -> None:
    """The locator finds no leader, twice; in between the candidate found one."""

    async def main() -> None:
        first, second = stores.make(1), stores.make(2)
        second.locator.follow()
        second.locator.stop()  # from here on this test is what looks
        second._leader_read(LeaderKey(1))
        await first.campaign(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(second.campaign, 2)
            await trio.testing.wait_all_tasks_blocked(0.05)
            await first.close()
            second._leader_read(LeaderKey(1))
        await second.close()

    run(main, stores)


def test_who_cannot_take_over_lets_the_others_try(stores: EtcdStores) -> None:
    """Elected, and unable to append a word: it does not stay in everybody's way."""

    async def main() -> None:
        first, second = stores.make(1), stores.make(2)
        epochs = [await first.campaign(1)]
        async with trio.open_nursery() as nursery:

            async def campaign(store: EtcdStore) -> None:
                epochs.append(await store.campaign(store.controller_id))

            nursery.start_soon(campaign, second)
            await trio.testing.wait_all_tasks_blocked(0.05)
            nursery.start_soon(campaign, first)
            await until(lambda: _counts(epochs, 2))
            assert await first.leader() == Leader(2, 2)
            await second.append(2, 0, [allocated(1)])
            await second.close()
        assert epochs == [1, 2, 3]
        assert await first.leader() == Leader(1, 3)
        await first.append(3, 1, [allocated(2)])
        # A controller that did append is elected again at once.
        assert await first.campaign(1) == 4
        await first.close()

    run(main, stores)


def test_brokers_find_the_controller_and_hear_of_the_next(stores: EtcdStores) -> None:
    async def main() -> None:
        first, second, third = (stores.make(number) for number in (1, 2, 3))
        locators = [store.locator for store in (first, second, third)]
        for locator in locators:
            assert await locator.find() is None

        async def found(controller_id: int) -> None:
            expected = controller_id, Endpoint("CONTROLLER", "127.0.0.1", 9000 + controller_id, 0)

            async def all_say() -> bool:
                return all([await one.find() == expected for one in locators[-1:]])

            await until(all_say)

        await first.campaign(1)
        await found(1)
        await first.close()
        await second.campaign(2)
        await found(2)
        await stores.ask("/v3/kv/compaction", {"revision": "2"})  # what a watch begins at may go
        await second.close()
        await third.campaign(3)
        await found(3)
        await third.close()

    run(main, stores)


def test_who_takes_the_leaders_key_ends_the_leadership(stores: EtcdStores) -> None:
    """An operator deletes the key, or writes another value: that is enough."""

    async def main() -> None:
        store = stores.make(1)
        losses = Losses(store)
        epoch = await store.campaign(1)
        await store.append(epoch, 0, [allocated(1)])
        await stores.write("leader", b"somebody else")
        assert await losses.wait() == epoch
        with pytest.raises(Fenced):
            await store.append(epoch, 1, [allocated(1)])
        with pytest.raises(StoreFailed, match="damaged"):
            await store.campaign(1)
        await stores.delete("leader")
        epoch = await store.campaign(1)
        await stores.delete("leader")
        with pytest.raises(Fenced):
            await store.append(epoch, 1, [allocated(1)])
        await store.close()

    run(main, stores)


# --- servers that fail


class Appending:
    """A controller that appends continuously. Each acknowledged event is in the log once; an event
    without an answer may be there."""

    def __init__(self, store: EtcdStore) -> None:
        self.store = store
        self.acknowledged: list[int] = []
        self.broken = 0
        self.epochs: list[int] = []
        self._done = False

    async def run(self) -> None:
        number = 0
        while not self._done:
            try:
                self.epochs.append(await self.store.campaign(1))
                end = (await self.store.load()).offset
                while not self._done:
                    number += 1
                    event = TopicCreated(f"t{number}", number.to_bytes(16, "big"))
                    await self.store.append(self.epochs[-1], end, [event])
                    end += 1
                    self.acknowledged.append(number)
            except (Fenced, StoreFailed):
                self.broken += 1

    async def more(self, count: int) -> None:
        goal = len(self.acknowledged) + count

        async def reached() -> bool:
            return len(self.acknowledged) >= goal

        await until(reached)

    async def check(self, other: EtcdStore) -> None:
        """Stop, and check the log with another store."""
        self._done = True
        await self.more(1) if not self.acknowledged else None
        await self.store.close()
        await other.campaign(2)
        found = [int(name[1:]) for name in (await other.load()).topics]
        await other.close()
        assert found == sorted(set(found)) and set(self.acknowledged) <= set(found)
        assert len(found) - len(self.acknowledged) <= self.broken + 1


def test_a_server_that_restarts_loses_and_doubles_nothing(own_server: EtcdServers) -> None:
    stores = EtcdStores(own_server, session_ms=SHORT_MS)

    async def main() -> None:
        appending = Appending(stores.make(1))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(appending.run)
            for end in (own_server.kill, own_server.stop, own_server.kill):
                await appending.more(50)
                await trio.to_thread.run_sync(end)
                await trio.to_thread.run_sync(own_server.start)
            await appending.more(50)
            nursery.cancel_scope.cancel()
        await appending.check(stores.make(2))

    run(main, stores)


@pytest.mark.thorough
@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_one_server_of_three_may_fail_and_the_controller_goes_on(
    three_servers: EtcdServers, fault: str
) -> None:
    """Each server in turn, even the leader: the same controller continues in the same epoch."""
    stores = EtcdStores(three_servers, session_ms=30_000)

    async def main() -> None:
        appending = Appending(stores.make(1))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(appending.run)
            for _ in range(3):
                await appending.more(20)
                leader = await trio.to_thread.run_sync(lambda: three_servers.leader)
                if fault == "kill":
                    await trio.to_thread.run_sync(leader.kill)
                    await appending.more(20)
                    await trio.to_thread.run_sync(leader.start)
                else:
                    leader.pause()
                    await appending.more(20)
                    leader.resume()
                    await trio.to_thread.run_sync(leader.wait_until_ready)
            nursery.cancel_scope.cancel()
        assert appending.epochs == [1] and not appending.broken
        await appending.check(stores.make(2))

    run(main, stores)


def test_a_leadership_is_given_up_before_the_lease_can_be_over(own_server: EtcdServers) -> None:
    """A server that falls silent."""
    session_ms = 6000
    stores = EtcdStores(own_server, session_ms=session_ms)

    async def main() -> None:
        store = stores.make(1)
        losses = Losses(store)
        epoch = await store.campaign(1)
        own_server.members[0].pause()
        with trio.fail_after(session_ms / 1000 + 0.1):
            assert await losses.wait() == epoch
        with pytest.raises(Fenced):
            await store.append(epoch, 0, [allocated(1)])
        own_server.members[0].resume()
        again = await store.campaign(1)
        assert again > epoch
        await store.append(again, 0, [allocated(2)])
        await store.close()

    run(main, stores)


def test_a_process_that_stood_still_gives_up_what_it_had(stores: EtcdStores) -> None:
    stores.session_ms = 1000  # etcd makes two seconds of it

    async def main() -> None:
        first, second = stores.make(1), stores.make(2)
        losses = Losses(first)
        epoch = await first.campaign(1)
        time.sleep(2.5)  # noqa: ASYNC251 - as after SIGSTOP: nothing runs
        assert await losses.wait() == epoch
        with pytest.raises(Fenced):
            await first.append(epoch, 0, [allocated(1)])
        assert await second.campaign(2) == epoch + 1
        await second.close()
        assert await first.campaign(1) == epoch + 2
        await first.append(epoch + 2, 0, [allocated(2)])
        await first.close()

    run(main, stores)


def test_a_controller_that_is_cut_off_is_replaced_and_fenced_when_it_is_back(
    etcd: EtcdServers, wires: Wires
) -> None:
    """The network drops packets: nothing breaks, nothing answers."""
    far, near = EtcdStores(etcd, session_ms=SHORT_MS), EtcdStores(etcd, session_ms=SHORT_MS)
    near.path = far.path
    port = wires.wire_from(1, 2, etcd.members[0].port)

    async def main() -> None:
        first = far.make(1, EtcdClient(f"127.0.0.1:{port}", try_s=0.5))
        second = near.make(2)
        losses = Losses(first)
        epoch = await first.campaign(1)
        await first.append(epoch, 0, [allocated(1)])
        wires.cut_off(1, [2])
        # Requests in flight when the network breaks may arrive when it is restored.
        async with trio.open_nursery() as nursery:

            async def append() -> None:
                with pytest.raises(StoreFailed):
                    await first.append(epoch, 1, [allocated(99)])

            nursery.start_soon(append)
            assert await losses.wait() == epoch
            new = await second.campaign(2)
            await second.append(new, 1, [allocated(2)])
            wires.heal()
        await second.append(new, 2, [allocated(3)])
        image = await second.load()
        assert (image.offset, image.producer_id_next) == (3, 3)
        await second.close()
        assert await first.campaign(1) == new + 1
        await first.close()

    run(main, far, near)


def test_a_server_that_is_slow_is_waited_for(own_server: EtcdServers) -> None:
    """Slower than one try may take: the append happens once, in the same epoch."""
    stores = EtcdStores(own_server, session_ms=30_000)
    member = own_server.members[0]

    async def main() -> None:
        store = stores.make(1, try_s=0.1)
        epoch = await store.campaign(1)
        async with trio.open_nursery() as nursery:
            member.pause()
            nursery.start_soon(store.append, epoch, 0, [allocated(1)])
            await trio.sleep(0.5)
            member.resume()
        await store.append(epoch, 1, [allocated(2)])
        image = await store.load()
        assert (image.offset, image.producer_id_next) == (2, 2)
        await store.close()

    run(main, stores)


def test_an_append_whose_answer_does_not_come_is_of_unknown_fate(
    own_server: EtcdServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WRITE_S", 0.5)
    stores = EtcdStores(own_server)

    async def main() -> None:
        store = stores.make(1)
        epoch = await store.campaign(1)
        await store.append(epoch, 0, [allocated(1)])
        own_server.members[0].pause()
        with pytest.raises(StoreFailed):
            await store.append(epoch, 1, [allocated(2)])
        with pytest.raises(Fenced):
            await store.append(epoch, 1, [allocated(3)])
        own_server.members[0].resume()
        again = await store.campaign(1)
        image = await store.load()
        assert image.offset in (1, 2) and image.producer_id_next == image.offset
        await store.append(again, image.offset, [allocated(9)])
        await store.close()

    run(main, stores)


def test_an_append_that_is_cancelled_gives_the_leadership_up(own_server: EtcdServers) -> None:
    stores = EtcdStores(own_server)

    async def main() -> None:
        store = stores.make(1)
        epoch = await store.campaign(1)
        own_server.members[0].pause()
        with trio.move_on_after(0.05) as scope:
            await store.append(epoch, 0, [allocated(1)])
        own_server.members[0].resume()
        assert scope.cancelled_caught
        with pytest.raises(Fenced):
            await store.append(epoch, 0, [allocated(2)])
        again = await store.campaign(1)
        image = await store.load()
        assert image.offset in (0, 1)
        await store.append(again, image.offset, [allocated(3)])
        assert (await store.load()).producer_id_next == 3
        await store.close()

    run(main, stores)


def test_what_a_first_try_may_have_done_is_not_called_undone_when_the_second_is_refused(
    stores: EtcdStores,
) -> None:
    """A server takes the append and dies before it answers; before the next one is asked, somebody
    else is elected. The append happened: Fenced would promise that it did not."""

    async def main() -> None:
        assert stores.nursery is not None
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        swallow = False

        async def relay(near: trio.SocketStream) -> None:
            far = await trio.open_tcp_stream("127.0.0.1", stores.servers.members[0].port)
            async with near, far, trio.open_nursery() as nursery:

                async def back() -> None:
                    async for data in far:
                        if not swallow or b'"succeeded":true' not in data:
                            await near.send_all(data)
                            continue
                        await stores.write("leader", b"somebody else")
                        nursery.cancel_scope.cancel()
                        return

                nursery.start_soon(back)
                async for data in near:
                    await far.send_all(data)
                nursery.cancel_scope.cancel()

        async def serve() -> None:
            await trio.serve_listeners(relay, listeners)

        stores.nursery.start_soon(serve)
        port = listeners[0].socket.getsockname()[1]
        store = stores.make(1, EtcdClient(f"127.0.0.1:{port},{stores.servers.address}"))
        epoch = await store.campaign(1)
        swallow = True
        with pytest.raises(StoreFailed, match="may have taken effect"):
            await store.append(epoch, 0, [allocated(1)])
        assert (await store.load()).offset == 1
        await store.close()

    run(main, stores)


def test_while_etcd_is_out_of_reach_the_last_controller_is_named_at_once(
    own_server: EtcdServers,
) -> None:
    """A broker that loses etcd but not the controller continues, because its heartbeats do not
    wait."""
    stores = EtcdStores(own_server)

    async def main() -> None:
        first, second = stores.make(1), stores.make(2)
        await first.campaign(1)

        async def found() -> bool:
            return await second.locator.find() is not None

        await until(found)
        own_server.kill()
        with trio.fail_after(45):  # each of them would wait for a second and more
            for _ in range(50):
                assert await second.locator.find() is not None
                await trio.sleep(0.01)
        own_server.start()
        await first.close()
        await second.close()

    run(main, stores)


def test_a_server_that_comes_late_is_waited_for(own_server: EtcdServers) -> None:
    own_server.stop()
    stores = EtcdStores(own_server)

    async def main() -> None:
        store = stores.make(1, connect_timeout_ms=60_000)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.campaign, 1)
            await trio.sleep(0.1)
            await trio.to_thread.run_sync(own_server.start)
        assert await store.leader() == Leader(1, 1)
        await store.close()

    run(main, stores)


# --- room, history, size


@pytest.mark.thorough
def test_an_append_for_which_etcd_has_no_room_is_refused_whole_and_the_leadership_stays() -> None:
    skip_without_etcd()
    with EtcdServers(1, f"--quota-backend-bytes={8 << 20}") as server:
        stores = EtcdStores(server)

        async def main() -> None:
            store = stores.make(1)
            losses = Losses(store)
            epoch = await store.campaign(1)
            await store.append(epoch, 0, [allocated(1)])
            for number in range(40):
                await stores.write(f"other/{number}", bytes(1 << 20))
            with pytest.raises(StoreFull, match="alarm disarm"):
                await store.append(epoch, 1, [allocated(2)])
            with pytest.raises(StoreFull):
                await store.append(epoch, 1, large(1, 20_000))
            image = await store.load()
            assert image.offset == 1 and not losses.reported
            # Make room as an operator would.
            for name in await stores.keys("other"):
                await stores.delete(name)
            revision = (await stores.ask("/v3/kv/range", {"key": "YQ=="}))["header"]["revision"]
            body = {"revision": revision, "physical": True}
            await stores.ask("/v3/kv/compaction", body)
            await stores.ask("/v3/maintenance/defragment", {})
            member = (await stores.ask("/v3/maintenance/alarm", {}))["alarms"][0]["memberID"]
            alarm = {"action": "DEACTIVATE", "alarm": "NOSPACE", "memberID": member}
            await stores.ask("/v3/maintenance/alarm", alarm)
            await store.append(epoch, 1, [allocated(3)])
            assert (await store.load()).producer_id_next == 3
            await store.close()

        run(main, stores)


def test_what_is_compacted_while_it_is_loaded_is_loaded_again(
    stores: EtcdStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE_KEYS", 2)

    async def main() -> None:
        store = stores.make(1)
        epoch = await store.campaign(1)
        for number in range(10):
            await store.append(epoch, number, [allocated(number + 1)])
        image = await store.load()
        ask, asked = store._ask, 0

        async def compacting(body: dict[str, str]) -> Any:
            nonlocal asked
            asked += 1
            answer = await ask(body)
            if asked == 2:  # the first page of the log was read
                await store.save_snapshot(epoch, image)
                await store.trim(epoch)
                now = (await ask({"key": "YQ=="})).revision
                await stores.ask("/v3/kv/compaction", {"revision": str(now), "physical": True})
            return answer

        monkeypatch.setattr(store, "_ask", compacting)
        assert await store.load() == image
        assert asked > 2 and await stores.keys("log") == []
        await store.close()

    run(main, stores)


@pytest.fixture
def small_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of 10 kB, so that little is much."""
    monkeypatch.setattr(module, "VALUE_BYTES_MAX", 10_000)


class Dies(Exception):
    """Stands for the end of the process."""


def dying(store: EtcdStore, writes: int) -> None:
    """End the store's process after this many more writes."""
    write, left = store._write, [writes]

    async def counted(*args: Any) -> Any:
        if left[0] == 0:
            raise Dies
        left[0] -= 1
        return await write(*args)

    store._write = counted  # type: ignore[method-assign]


@pytest.mark.usefixtures("small_values")
@pytest.mark.parametrize("writes", range(5))
def test_a_snapshot_that_was_not_finished_never_counts(stores: EtcdStores, writes: int) -> None:
    """Four pieces, the pointer."""

    async def main() -> None:
        store = stores.make(1)
        epoch = await store.campaign(1)
        image = MetadataImage()
        for turn in range(2):
            events = large(turn)
            await store.append(epoch, image.offset, events)
            image = image.apply(events)
            if turn == 0:
                await store.save_snapshot(epoch, image)
        dying(store, writes)
        with pytest.raises(Dies):
            await store.save_snapshot(epoch, image)
        await store.close()
        following = stores.make(2)
        epoch = await following.campaign(2)
        assert await following.load() == image
        assert await _folders(stores, "snapshots") == (2 if writes else 1)
        await following.save_snapshot(epoch, image)
        await following.trim(epoch)
        assert await following.load() == image
        assert await _folders(stores, "snapshots") == 1
        assert await stores.keys("parts") == await stores.keys("log") == []
        await following.append(epoch, image.offset, [allocated(1)])
        assert await following.load() == image.apply([allocated(1)])
        await following.close()

    run(main, stores)


async def _folders(stores: EtcdStores, name: str) -> int:
    return len({key.split("/")[1] for key in await stores.keys(f"{name}/")})


@pytest.mark.usefixtures("small_values")
@pytest.mark.parametrize("writes", range(3))
def test_a_large_append_that_was_not_finished_did_not_happen(
    stores: EtcdStores, writes: int
) -> None:
    """Two pieces, the value that makes them count."""

    async def main() -> None:
        store = stores.make(1)
        epoch = await store.campaign(1)
        await store.append(epoch, 0, [allocated(1)])
        dying(store, writes)
        with pytest.raises(Dies):
            await store.append(epoch, 1, large(1))
        await store.close()
        following = stores.make(2)
        epoch = await following.campaign(2)
        image = await following.load()
        assert image == MetadataImage().apply([allocated(1)])
        await following.append(epoch, 1, large(2))
        image = image.apply(large(2))
        assert await following.load() == image
        await following.save_snapshot(epoch, image)
        await following.trim(epoch)
        assert await stores.keys("parts") == []
        assert await following.load() == image
        await following.close()

    run(main, stores)


@pytest.mark.thorough
def test_no_value_comes_near_what_etcd_takes(stores: EtcdStores) -> None:
    async def main() -> None:
        store = stores.make(1)
        epoch = await store.campaign(1)
        end = 0
        for count in [20_000, 1, 20_000, 1]:
            events = large(end, count) if count > 1 else [allocated(end)]
            await store.append(epoch, end, events)
            end += len(events)
        await store.save_snapshot(epoch, await store.load())
        kvs = (await stores.ask("/v3/kv/range", stores._range("")))["kvs"]
        sizes = [len(base64.b64decode(kv.get("value", ""))) for kv in kvs]
        assert max(sizes) == 512 << 10
        await store.trim(epoch)
        assert await store.load()
        await store.close()

    run(main, stores)


def test_a_damaged_value_is_a_failure_and_not_a_crash(stores: EtcdStores) -> None:
    async def main() -> None:
        store = stores.make(1)
        epoch = await store.campaign(1)
        await store.append(epoch, 0, [allocated(1)])
        await stores.write(f"log/{0:020d}", b"odd")
        with pytest.raises(StoreFailed, match="damaged"):
            await store.load()
        await stores.delete(f"log/{0:020d}")
        await store.append(epoch, 1, [allocated(2)])
        with pytest.raises(StoreFailed, match="events 0 to 1 are missing"):
            await store.load()
        await store.close()

    run(main, stores)


# --- who may


@pytest.mark.thorough
def test_users_log_in_and_connections_are_encrypted(tmp_path: Path) -> None:
    """Certificates both ways; a user with a password and a role for the path alone; and a server
    that forgets who logged in."""
    skip_without_etcd()
    authority = Authority.in_directory(str(tmp_path))
    for name in ("server", "node"):
        authority.give(str(tmp_path / f"{name}.pem"), name)
    server = EtcdServers(1, *(f"--{key}-file={tmp_path}/server.pem" for key in ("cert", "key")))
    member = server.members[0]
    url = f"https://127.0.0.1:{member.port}"
    member.words += [
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--trusted-ca-file={tmp_path}/ca.pem",
        "--client-cert-auth",
    ]
    trusts = {
        "node.id": "1",
        "log.dirs": "/x",
        "pk.etcd.ssl.truststore.location": f"{tmp_path}/ca.pem",
    }
    known = trusts | {"pk.etcd.ssl.keystore.location": f"{tmp_path}/node.pem"}

    def client(keys: dict[str, str], user: str | None = None, password: str = "") -> EtcdClient:
        tls = tls_of(BrokerConfig.parse(keys))
        return EtcdClient(f"127.0.0.1:{member.port}", tls=tls, user=user, password=password)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            operator = client(known)
            for path, body in AUTH:
                await operator.call(f"/v3/auth/{path}", body, within_s=60)
            with pytest.raises(StoreFailed, match="CommonName"):  # etcd's gateway takes no both
                await client(known, "pk", "secret").call("/v3/kv/range", EPOCH, within_s=60)
            with pytest.raises(StoreFailed, match="did not answer"):
                await client(trusts, "pk", "secret").call("/v3/kv/range", EPOCH, within_s=1)
            await operator.close()
            await trio.to_thread.run_sync(member.kill)
            del member.words[-2:]  # from now on without certificates of clients
            member.launch()
            endpoint = Endpoint("CONTROLLER", "127.0.0.1", 9001, 0)
            own = client(trusts, "pk", "secret")
            store = EtcdStore(own, EtcdLeader(own, "/pk", nursery), 1, endpoint, nursery)
            epoch = await store.campaign(1)
            await store.append(epoch, 0, [allocated(1)])
            await trio.to_thread.run_sync(member.kill)
            member.launch()  # its tokens were in its memory
            await store.append(epoch, 1, [allocated(2)])
            await store.save_snapshot(epoch, await store.load())
            await store.trim(epoch)
            assert (await store.load()).producer_id_next == 2
            await store.close()
            for refused, says in (
                (client(trusts), "pk.etcd.user"),
                (client(trusts, "pk", "wrong"), "authentication failed"),
                (client(trusts, "other", "secret"), "permission denied"),
                (client({k: v for k, v in trusts.items() if "etcd" not in k}), "did not answer"),
            ):
                with pytest.raises(StoreFailed, match=says):
                    await refused.call("/v3/kv/range", EPOCH, within_s=2)
                await refused.close()
            nursery.cancel_scope.cancel()

    member.launch()
    try:
        run(main)
    finally:
        server.close()


EPOCH = {"key": "L3BrL2Vwb2No"}

PATH = {"key": "L3BrLw==", "range_end": "L3BrMA=="}
"""The range from /pk/ up to /pk0."""

AUTH: list[tuple[str, dict[str, Any]]] = [
    ("user/add", {"name": "root", "password": "root"}),
    ("role/add", {"name": "root"}),
    ("user/grant", {"user": "root", "role": "root"}),
    ("user/add", {"name": "other", "password": "secret"}),
    ("user/add", {"name": "pk", "password": "secret"}),
    ("role/add", {"name": "pk"}),
    ("role/grant", {"name": "pk", "perm": {"permType": "READWRITE", **PATH}}),
    ("user/grant", {"user": "pk", "role": "pk"}),
    ("enable", {}),
]
