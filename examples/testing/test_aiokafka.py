"""aiokafka: a leader that resigns while records are sent."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


def test_nothing_is_lost_when_the_leader_resigns(kafka, kafka_topic):
    async def main():
        async with AIOKafkaProducer(bootstrap_servers=kafka.url) as producer:
            await producer.send_and_wait(kafka_topic, b"1 book")
            kafka.move_leader(kafka_topic, 0)
            await producer.send_and_wait(kafka_topic, b"2 books")
        async with AIOKafkaConsumer(
            kafka_topic, bootstrap_servers=kafka.url, auto_offset_reset="earliest"
        ) as consumer:
            return [(await consumer.getone()).value for _ in range(2)]

    assert asyncio.run(main()) == [b"1 book", b"2 books"]
