"""Measures appends to the metadata log in etcd: `scripts/bench --etcd`.

A controller makes one append at a time, and waits until etcd has confirmed it. The next append
contains the decisions made meanwhile. The rate of appends therefore limits the latency of a
decision, not the number of decisions. Each member syncs every write. All members and the controller
share this machine and its disk.
"""

from __future__ import annotations

import argparse
import sys
import time
from statistics import median

import trio
from etcd_server import EtcdServers, available
from etcd_stores import EtcdStores

from pk.core.meta.events import ClusterCreated, ConfigChanged

MEMBERS = (1, 3)


async def appends_s(servers: EtcdServers, count: int, events: int) -> float:
    """Make `count` appends of `events` events each, one after another. Returns the appends per
    second."""
    stores = EtcdStores(servers)
    async with trio.open_nursery() as nursery:
        stores.nursery = nursery
        store = stores.make(1)
        epoch = await store.campaign(1)
        await store.load()
        await store.append(epoch, 0, [ClusterCreated("bench")])
        started = time.perf_counter()
        for number in range(count):
            changed = [
                ConfigChanged(2, f"t{i}", "retention.ms", f"{number}") for i in range(events)
            ]
            await store.append(epoch, 1 + number * events, changed)
        took_s = time.perf_counter() - started
        await store.close()
        nursery.cancel_scope.cancel()
    return count / took_s


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench --etcd", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds; the median counts")
    parser.add_argument("--appends", type=int, default=500, help="appends in a round")
    parser.add_argument(
        "--dir", help="where etcd keeps its data (default: the temporary directory)"
    )
    options = parser.parse_args()
    reason = available()
    if reason is not None:
        print(reason, file=sys.stderr)
        return 1
    print("etcd members  events an append  appends a second")
    for members in MEMBERS:
        with EtcdServers(members, place=options.dir or "") as servers:
            for events in (1, 100):
                rates = [
                    trio.run(appends_s, servers, options.appends, events)
                    for _ in range(options.rounds)
                ]
                print(f"{members:12}  {events:16}  {median(rates):16.0f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
