"""Configuration: every key of brokers, topics, groups and client metrics, and typed views of them.

The tables are text, one file for each subject (`broker_keys.py`, `topic_keys.py`, ...); `keys.py`
reads them, `tables.py` has all of them by name, and `views.py` parses the values of a
configuration.
"""

from pk.core.config.keys import (
    ConfigError,
    Key,
    Scope,
    Type,
    Value,
    parse_properties,
    value_text,
    without_secrets,
)
from pk.core.config.listeners import Listener
from pk.core.config.tables import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    DYNAMIC_ONLY_KEYS,
    GROUP_KEYS,
    GROUP_SYNONYMS,
    TOPIC_KEYS,
    TOPIC_SYNONYMS,
    any_broker_key,
    base_name,
    broker_key,
    key_of,
    unsupported_keys,
)
from pk.core.config.unsupported import TOPIC_KEYS_NOT_ENFORCED
from pk.core.config.views import RACK_AWARE_SELECTOR, BrokerConfig, TopicConfig

__all__ = [
    "BROKER_KEYS",
    "CLIENT_METRICS_KEYS",
    "DYNAMIC_ONLY_KEYS",
    "GROUP_KEYS",
    "GROUP_SYNONYMS",
    "RACK_AWARE_SELECTOR",
    "TOPIC_KEYS",
    "TOPIC_KEYS_NOT_ENFORCED",
    "TOPIC_SYNONYMS",
    "BrokerConfig",
    "ConfigError",
    "Key",
    "Listener",
    "Scope",
    "TopicConfig",
    "Type",
    "Value",
    "any_broker_key",
    "base_name",
    "broker_key",
    "key_of",
    "parse_properties",
    "unsupported_keys",
    "value_text",
    "without_secrets",
]
