"""What people call the layers that a config's value comes from."""

SOURCE_WORDS = {
    "dynamic_broker": "this broker",
    "dynamic_default_broker": "all brokers",
    "static_broker": "its file",
    "dynamic_broker_logger": "logger",
}
"""Layer → words; other layers are called by Kafka's names."""


def source_word(source: str) -> str:
    """What people call a layer."""
    return SOURCE_WORDS.get(source, source)
