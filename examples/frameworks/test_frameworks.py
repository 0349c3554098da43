"""Each example is started, talked to and stopped. One broker serves all (pytest.ini)."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from pk.client.blocking import open_producer
from pk.testing import Broker, KafkaError

HERE = Path(__file__).parent


def ask(url: str, body: object = None) -> dict[str, int]:
    """The answer of a server; with a body it is a POST."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as answer:
        return json.load(answer)


def until(check: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not check():
        assert time.monotonic() < end
        time.sleep(0.02)  # another process: no event to wait for


@pytest.fixture
def orders(kafka: Broker) -> int:
    """The number of records in the topic `orders`, which is created here."""
    try:
        kafka.create_topic("orders")
    except KafkaError:  # the other server's test made it
        return len(kafka.records("orders"))
    return 0


def check_shop(kafka: Broker, url: str, before: int, item: str) -> None:
    assert ask(f"{url}/orders", {"item": item, "count": 2}) == {"partition": 0, "offset": before}
    assert ask(f"{url}/orders", {"item": item, "count": 1})["offset"] == before + 1
    until(lambda: ask(f"{url}/sold").get(item) == 3)
    record = kafka.records("orders")[before]
    assert record.key == item.encode() and json.loads(record.value or b"")["count"] == 2


def test_fastapi(kafka, start, line, orders):
    server = start("-m", "uvicorn", "--port", "0", "fastapi_orders:app")
    check_shop(kafka, line(server, r"running on (http://\S+)"), orders, "tea")


def test_django(kafka, start, line, orders):
    server = start("django_orders.py", "0")
    check_shop(kafka, line(server, r"^(http://\S+)"), orders, "coffee")


def test_a_worker(kafka, start, line):
    from worker import delay, resize, send_mail

    kafka.create_topic("jobs", 2)
    worker = start("worker.py", "2")
    line(worker, "ready")
    with open_producer(kafka.url) as producer:
        delay(producer, send_mail, to="alice@example.com").result()
    assert line(worker, "mail to (.*)") == "alice@example.com"
    with open_producer(kafka.url) as producer:
        delay(producer, resize, picture="cat.txt")
    assert line(worker, r"resize failed, attempt (5)") == "5"
    kafka.produce("jobs", "nonsense")
    assert "nonsense" in line(worker, "no such job.*")


def test_a_notebook(kafka, tmp_path, monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", kafka.url)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    kafka.create_topic("notebook-orders")
    notebook = nbformat.read(HERE / "orders.ipynb", as_version=4)
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    results = [
        output["data"]["text/plain"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output["output_type"] == "execute_result"
    ]
    assert results == ["2", "{'coffee': 1, 'tea': 5}"]
    assert [record.value for record in kafka.records("notebook-orders")] == [b"3", b"1", b"2"]
    assert kafka.requests("LeaveGroup")
