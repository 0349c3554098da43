"""Workers that take jobs from a topic, as Celery's do from a queue.

    KAFKA_BOOTSTRAP_SERVERS=localhost:9092 python worker.py [THREADS]

    from worker import delay, send_mail
    delay(producer, send_mail, to="alice@example.com")

The workers are a share group: any number of processes and threads take jobs from the same
partitions. A job that raises is tried again, up to `group.share.delivery.count.limit` times (5). A
job whose worker dies is given to another one when its lock ends (30 s).
"""

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable

from pk.client import (
    AcknowledgeType,
    ConfigChange,
    ConfigResource,
    ResourceType,
    ShareRecord,
)
from pk.client.blocking import Delivery, Producer, open_admin, open_share_consumer

SERVERS = os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092")
TOPIC = GROUP = "jobs"

Job = Callable[..., None]
JOBS: dict[str, Job] = {}

log = logging.getLogger("worker")


def job(function: Job) -> Job:
    """Declares a function as a job."""
    JOBS[function.__name__] = function
    return function


def delay(producer: Producer, function: Job, **arguments: object) -> Delivery:
    """Has a worker call `function`."""
    order = {"job": function.__name__, "arguments": arguments}
    return producer.send(TOPIC, json.dumps(order).encode())


@job
def send_mail(to: str) -> None:
    log.info("mail to %s", to)


@job
def resize(picture: str) -> None:
    if not picture.endswith(".png"):
        raise ValueError(f"not a picture: {picture}")
    log.info("resized %s", picture)


def run(record: ShareRecord) -> AcknowledgeType:
    """Does a job; what becomes of its record."""
    try:
        order = json.loads(record.value or b"")
        function = JOBS[order["job"]]
    except (ValueError, KeyError, TypeError):
        log.error("no such job: %r", record.value)
        return AcknowledgeType.REJECT
    try:
        function(**order["arguments"])
    except Exception:
        log.exception("%s failed, attempt %d", order["job"], record.delivery_count)
        return AcknowledgeType.RELEASE
    return AcknowledgeType.ACCEPT


def work(stop: threading.Event) -> None:
    """Takes one job after the other until `stop` is set."""
    config = {"group.id": GROUP, "share.acknowledgement.mode": "explicit", "max.poll.records": 1}
    with open_share_consumer(SERVERS, config) as consumer:
        consumer.subscribe([TOPIC])
        while not stop.is_set():
            for record in consumer.poll(timeout_ms=200):
                consumer.acknowledge(record, run(record))
                consumer.commit()


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    with open_admin(SERVERS) as admin:  # a new group begins at the first job, not at the next
        group = ConfigResource(ResourceType.GROUP, GROUP)
        earliest = ConfigChange("share.auto.offset.reset", "earliest")
        admin.alter_configs({group: [earliest]}).value(group)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    threads = [threading.Thread(target=work, args=(stop,)) for _ in range(count)]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    for thread in threads:  # each finishes the job that it has begun
        thread.join()


if __name__ == "__main__":
    main()
