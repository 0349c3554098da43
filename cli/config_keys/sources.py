"""Names, for people, of the layers that set the value of a config."""

SOURCE_WORDS = {
    "dynamic_broker": "this broker",
    "dynamic_default_broker": "all brokers",
    "static_broker": "static",
    "dynamic_broker_logger": "logger",
}
"""Layer → name; other layers have Kafka's names."""


def source_word(source: str) -> str:
    """A layer's name for people."""
    return SOURCE_WORDS.get(source, source)
