"""The parts of the simulator itself: processes that are frozen, a network that loses and holds
data, a disk that loses data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
import trio
from sim import planted, simulation, swarm
from sim.chronicle import Chronicle
from sim.disk import ProcessDisk, SimDisk
from sim.faults import KINDS
from sim.network import End, Network, Refused
from sim.processes import Process, deterministic, owned_by
from sim.simulation import Options, Result, Simulation, run_seed
from sim.virtual_time import VirtualClock

from pk.core.log.state import LogState


def simulated(main: Callable[[], Awaitable[Any]], seed: int = 1) -> Any:
    with deterministic(seed):
        return trio.run(main, clock=VirtualClock())


def network_of(seed: int = 1) -> Network:
    return Network(Random(seed), Chronicle())


async def echo(end: End) -> None:
    while data := await end.receive():
        end.send(data)


async def connected(
    nursery: trio.Nursery, network: Network, server: Process, client: Process
) -> End:
    nursery.start_soon(network.run)
    network.listen(server, 1, lambda end: nursery.start_soon(echo, end))
    end = await network.dial(client, server.host, 1, trio.current_time() + 10)
    assert end is not None
    return end


def test_equal_seeds_give_equal_orders() -> None:
    def order(seed: int) -> list[tuple[int, int]]:
        out: list[tuple[int, int]] = []

        async def task(i: int) -> None:
            for k in range(3):
                await trio.lowlevel.checkpoint()
                out.append((i, k))

        async def main() -> None:
            async with trio.open_nursery() as nursery:
                for i in range(8):
                    nursery.start_soon(task, i)

        simulated(main, seed)
        return out

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_a_frozen_process_does_nothing_and_its_timers_fire_when_it_goes_on() -> None:
    async def main() -> None:
        process, ticks = Process("p", "p"), []

        async def tick() -> None:
            while True:
                await trio.sleep(1)
                ticks.append(trio.current_time())

        async with trio.open_nursery() as nursery:
            with owned_by(process):
                nursery.start_soon(tick)
            await trio.sleep(2.5)
            assert ticks == [1, 2]
            process.freeze()
            await trio.sleep(10)
            assert ticks == [1, 2]
            process.thaw()
            await trio.sleep(1.2)
            assert ticks == [1, 2, 12.5, 13.5]
            nursery.cancel_scope.cancel()

    simulated(main)


def test_a_frozen_process_can_be_killed() -> None:
    async def main() -> None:
        process, scope, reached = Process("p", "p"), trio.CancelScope(), []

        async def work() -> None:
            with scope:
                await trio.sleep(5)
                reached.append("end")

        async with trio.open_nursery() as nursery:
            with owned_by(process):
                nursery.start_soon(work)
            await trio.sleep(1)
            process.freeze()
            await trio.sleep(10)
            process.kill()
            scope.cancel()
        # Its timer had fired: the cancellation comes at its next checkpoint, as the next thing it
        # does.
        assert reached in ([], ["end"])
        assert trio.current_time() == 11

    simulated(main)


def test_a_connection_keeps_its_order() -> None:
    async def main() -> None:
        network, server, client = network_of(), Process("s", "s"), Process("c", "c")
        network.weather.spike_chance, network.weather.spike_s = 0.5, 1.0
        async with trio.open_nursery() as nursery:
            end = await connected(nursery, network, server, client)
            sent = [str(i).encode() for i in range(50)]
            for data in sent:
                end.send(data)
            assert [await end.receive() for _ in sent] == sent
            nursery.cancel_scope.cancel()

    simulated(main)


def test_a_cut_holds_what_is_under_way_until_it_heals() -> None:
    async def main() -> None:
        network, server, client = network_of(), Process("s", "s"), Process("c", "c")
        async with trio.open_nursery() as nursery:
            end = await connected(nursery, network, server, client)
            network.block("s", "c")  # one way: the answer is held
            end.send(b"x")
            with trio.move_on_after(30) as scope:
                await end.receive()
            assert scope.cancelled_caught
            assert await network.dial(client, "s", 1, trio.current_time() + 5) is None
            network.heal()
            assert await end.receive() == b"x"
            assert await network.dial(client, "s", 1, trio.current_time() + 5) is not None
            nursery.cancel_scope.cancel()

    simulated(main)


def test_a_killed_process_resets_its_connections_and_refuses_new_ones() -> None:
    async def main() -> None:
        network, server, client = network_of(), Process("s", "s"), Process("c", "c")
        async with trio.open_nursery() as nursery:
            end = await connected(nursery, network, server, client)
            server.kill()
            network.process_gone(server, power=False)
            with pytest.raises(trio.BrokenResourceError):
                await end.receive()
            assert trio.current_time() < 3
            with pytest.raises(Refused):
                await network.dial(client, "s", 1, trio.current_time() + 5)
            nursery.cancel_scope.cancel()

    simulated(main)


def test_a_machine_without_power_is_silent_until_it_has_it_again() -> None:
    async def main() -> None:
        network, server, client = network_of(), Process("s", "s"), Process("c", "c")
        async with trio.open_nursery() as nursery:
            end = await connected(nursery, network, server, client)
            server.kill()
            network.process_gone(server, power=True)
            network.without_power.add("s")
            end.send(b"x")
            with trio.move_on_after(60) as scope:
                await end.receive()
            assert scope.cancelled_caught
            assert await network.dial(client, "s", 1, trio.current_time() + 5) is None
            network.without_power.clear()
            network.release()
            with pytest.raises(trio.BrokenResourceError):
                await end.receive()
            nursery.cancel_scope.cancel()

    simulated(main)


def test_a_dead_process_reaches_no_disk_and_gives_no_lock_back_that_is_anothers() -> None:
    disk, first, second = SimDisk(), Process("a", "a"), Process("b", "a")
    disk.make("/d")
    old = ProcessDisk(disk, first)
    lock = old.lock("/d/.lock", "a")
    file = old.open("/d/file")
    file.pwrite(b"abc", 0)
    first.kill()
    disk.process_killed()
    for touch in (
        lambda: file.pwrite(b"x", 0),
        lambda: old.open("/d/file"),
        lambda: old.write("/d/other", b"x"),
        lambda: old.rename("/d/file", "/d/elsewhere"),
    ):
        with pytest.raises(OSError):
            touch()
    new = ProcessDisk(disk, second)
    new.lock("/d/.lock", "b")
    lock.release()
    with pytest.raises(OSError):
        new.lock("/d/.lock", "c")
    assert new.read("/d/file") == b"abc", "the page cache is still there"


def test_what_a_killed_process_did_not_sync_is_lost_when_the_power_goes_later() -> None:
    lost = 0
    for seed in range(20):
        disk, process = SimDisk(), Process("a", "a")
        disk.make("/d")
        view = ProcessDisk(disk, process)
        file = view.open("/d/file")
        file.pwrite(b"synced", 0)
        file.sync()
        view.sync_dir("/d")
        view.sync_dir("")
        file.pwrite(b"unsynced", 6)
        process.kill()
        disk.process_killed()
        disk.power_cut(Random(seed))
        left = disk.read("/d/file")
        assert left.startswith(b"synced")
        lost += left != b"syncedunsynced"
    assert 5 < lost <= 20


@pytest.mark.thorough
@pytest.mark.parametrize("where", ["in the loop", "around the loop"])
def test_after_a_run_that_was_stuck_another_can_begin(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = trio.Event()

    def spin(*_: Any) -> None:
        stuck.set()
        while True:
            pass

    async def main(simulation: Simulation) -> None:
        if where == "in the loop":
            spin()
        monkeypatch.setattr("trio._core._run.TheIOManager.get_events", spin)
        await trio.sleep_forever()

    with monkeypatch.context() as patch:
        patch.setattr(simulation, "CPU_S", 1.0)
        patch.setattr(Simulation, "run", main)
        result = run_seed(1)
    assert stuck.is_set() and result.stuck
    assert result.error.endswith("Stuck: more than 1 s\n")
    monkeypatch.undo()
    assert simulated(echo_of_nothing) is None


def test_a_signal_that_ends_the_process_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ended() -> None:
        raise SystemExit(143)

    async def main(_: Simulation) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ended)

    monkeypatch.setattr(Simulation, "run", main)
    with pytest.raises(SystemExit, match="143"):
        run_seed(1)


def test_every_planted_bug_can_be_called_like_what_it_changes() -> None:
    for plant in planted.PLANTED.values():
        with plant():
            pass
    with (
        pytest.raises(TypeError),
        planted.patched(LogState, load_producers=lambda self: self),
    ):
        pass


def test_the_search_for_a_bug_counts_seeds_that_cannot_show_it_and_does_not_run_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[int] = []

    def run(seed: int, *_: Any) -> Result:
        ran.append(seed)
        return Result(seed, error="found" if len(ran) == 5 else "")

    monkeypatch.setattr(planted, "run_seed", run)
    assert planted.SEEN_BY.keys() <= planted.PLANTED.keys()
    assert frozenset().union(*planted.SEEN_BY.values()) <= {
        *swarm.WORKLOADS,
        swarm.WRECKS,
        swarm.ROT,
        swarm.TIERED,
    }
    drawn = [seed for seed in range(1, 101) if swarm.SHARE_GROUP in swarm.draw(seed, tuple(KINDS))]
    assert planted.find("share-stored-late", range(1, 101), Options()) == (
        drawn[4],
        drawn[4],
        "found",
    )
    assert ran == drawn[:5]
    ran.clear()
    assert planted.find("hw-from-leo", range(1, 101), Options()) == (5, 5, "found")


async def echo_of_nothing() -> None:
    await trio.lowlevel.checkpoint()


@pytest.mark.thorough
def test_wrecks_leave_acks_all_its_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    part = swarm.Swarm(frozenset({swarm.RECORDS, swarm.WRECKS}), frozenset({"drop"}), (20.0,))
    monkeypatch.setattr(swarm, "draw", lambda seed, kinds: part)
    wrecks = 0
    for seed in (6, 7, 8):
        result = run_seed(seed)
        assert not result.failed, result.violation or result.error
        wrecks += result.faults.get("wreck", 0) + result.faults.get("wreck after a stop", 0)
        beyond = [line.text for line in result.chronicle.lines if "beyond its promise" in line.text]
        assert not [text for text in beyond if not text.startswith(("synced", "one"))]
    assert wrecks > 2
