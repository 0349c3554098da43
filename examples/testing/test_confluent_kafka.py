"""confluent-kafka: a retry that the test asks for, and a transaction that is seen whole."""

from confluent_kafka import Consumer, Producer


def test_a_moved_leader_goes_unnoticed(kafka, kafka_topic):
    kafka.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    errors = []
    producer = Producer({"bootstrap.servers": kafka.url})
    producer.produce(kafka_topic, "1 book", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None]
    assert len(kafka.requests("Produce")) == 3


def test_an_aborted_transaction_is_not_read(kafka, kafka_topic):
    producer = Producer({"bootstrap.servers": kafka.url, "transactional.id": "shop"})
    producer.init_transactions(60)
    for value, keep in (("wrong", False), ("right", True)):
        producer.begin_transaction()
        producer.produce(kafka_topic, value)
        producer.commit_transaction(60) if keep else producer.abort_transaction(60)
    consumer = Consumer(
        {"bootstrap.servers": kafka.url, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([kafka_topic])
    message = consumer.poll(60)
    assert message is not None and message.value() == b"right"
    consumer.close()
