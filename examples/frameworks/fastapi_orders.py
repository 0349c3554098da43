"""FastAPI: a request produces, a task consumes in the background.

KAFKA_BOOTSTRAP_SERVERS=localhost:9092 uvicorn fastapi_orders:app
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI, Request
from pydantic import BaseModel

from pk.client.aio import Consumer, TypedConsumer, TypedProducer, open_consumer, open_producer

SERVERS = os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092")
READING = {"group.id": "fastapi-stock", "auto.offset.reset": "earliest"}


class Order(BaseModel):
    """The body of a request, and the value of a record."""

    item: str
    count: int


def to_bytes(order: Order) -> bytes:
    return order.model_dump_json().encode()


async def count_sold(consumer: Consumer, sold: Counter[str]) -> None:
    async for record in TypedConsumer(consumer, key=bytes.decode, value=json.loads):
        order = Order.model_validate(record.value)
        sold[order.item] += order.count


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with open_producer(SERVERS) as producer, open_consumer(SERVERS, READING) as consumer:
        app.state.orders = TypedProducer(producer, key=str.encode, value=to_bytes)
        app.state.sold = Counter[str]()
        consumer.subscribe(["orders"])
        counting = asyncio.create_task(count_sold(consumer, app.state.sold))
        try:
            yield
        finally:  # the producer then flushes, and the consumer commits and leaves its group
            counting.cancel()
            with suppress(asyncio.CancelledError):
                await counting


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=201)
async def order(order: Order, request: Request) -> dict[str, int]:
    """Answers when the record is acknowledged."""
    delivery = await request.app.state.orders.send("orders", order, key=order.item)
    metadata = await delivery
    return {"partition": metadata.partition, "offset": metadata.offset}


@app.get("/sold")
async def sold(request: Request) -> dict[str, int]:
    return dict(request.app.state.sold)
