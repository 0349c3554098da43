"""kafka-python: what a consumer commits, and a connection that breaks."""

from kafka import KafkaConsumer, KafkaProducer


def test_every_order_is_committed(kafka, kafka_topic):
    producer = KafkaProducer(bootstrap_servers=kafka.url, client_id="shop")
    for value in (b"1 book", b"2 books"):
        producer.send(kafka_topic, value).get(60)
        kafka.drop_connections(client_id="shop")
    producer.close()
    consumer = KafkaConsumer(
        kafka_topic,
        bootstrap_servers=kafka.url,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    read = [next(consumer).value for _ in range(2)]
    consumer.commit()
    consumer.close()
    assert read == [b"1 book", b"2 books"]
    (commit,) = kafka.requests("OffsetCommit")
    assert commit.message.topics[0].partitions[0].committed_offset == 2
