"""A broker for each test of a `unittest` class."""

import unittest
from collections.abc import Mapping
from typing import ClassVar

from pk.testing.broker_thread import Broker
from pk.testing.imports import preload


class KafkaTestCase(unittest.TestCase):
    """A test case whose tests find a new broker in `self.kafka`."""

    kafka_config: ClassVar[Mapping[str, str]] = {}
    """Kafka's broker keys."""

    @classmethod
    def setUpClass(cls) -> None:
        """Import what the first test would wait for."""
        super().setUpClass()
        preload()

    def setUp(self) -> None:
        """Start the broker."""
        super().setUp()
        self.kafka = Broker(self.kafka_config).start()
        self.addCleanup(self.kafka.stop)
