"""Django: a request produces, a thread consumes in the background.

    KAFKA_BOOTSTRAP_SERVERS=localhost:9092 python django_orders.py 8000

A server that forks workers (gunicorn) imports `application` instead: call `kafka()` in a hook that
runs in each worker, for example gunicorn's `post_worker_init`.
"""

import atexit
import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any
from wsgiref.simple_server import make_server

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path

from pk.client.blocking import Producer, open_consumer, open_producer

SERVERS = os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092")
READING = {"group.id": "django-stock", "auto.offset.reset": "earliest"}

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["localhost", "127.0.0.1"])

sold = Counter[str]()


@contextmanager
def counting() -> Iterator[None]:
    """Counts orders in a thread, while the block lasts."""
    stop = threading.Event()

    def count() -> None:
        with open_consumer(SERVERS, READING) as consumer:
            consumer.subscribe(["orders"])
            while not stop.is_set():
                for record in consumer.poll(timeout_ms=200):
                    order = json.loads(record.value or b"{}")
                    sold[order["item"]] += order["count"]

    # Python waits for a thread that is not a daemon before it calls what `atexit` has.
    thread = threading.Thread(target=count, name="orders", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()  # the consumer commits and leaves its group


@cache
def kafka() -> Producer:
    """The producer of this process, which also begins to count. Ends with the process."""
    with ExitStack() as stack:
        producer = stack.enter_context(open_producer(SERVERS))
        stack.enter_context(counting())
        atexit.register(stack.pop_all().close)
    return producer


def orders(request: HttpRequest) -> HttpResponse:
    order = json.loads(request.body)
    delivery = kafka().send("orders", json.dumps(order).encode(), key=order["item"].encode())
    metadata = delivery.result(timeout_ms=10_000)
    return JsonResponse({"partition": metadata.partition, "offset": metadata.offset}, status=201)


urlpatterns = [path("orders", orders), path("sold", lambda _: JsonResponse(dict(sold)))]
application = get_wsgi_application()


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    kafka()
    serve: Any = application
    with make_server("127.0.0.1", int(sys.argv[1]), serve) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
