"""A broker for each test of a `unittest` class."""

import unittest
from collections.abc import Mapping
from typing import ClassVar

from pk.testing.broker_thread import Broker
from pk.testing.imports import preload


class KafkaTestCase(unittest.TestCase):
    """A test case whose tests find a new broker in `self.kafka`."""

    kafka_config: ClassVar[Mapping[str, str]] = {}
    """Kafka's broker keys for the tests' brokers."""

    @classmethod
    def setUpClass(cls) -> None:
        """Import the modules that the first test would otherwise wait for."""
        super().setUpClass()
        preload()

    def setUp(self) -> None:
        """Start the test's broker."""
        super().setUp()
        self.kafka = Broker(self.kafka_config).start()
        self.addCleanup(self.kafka.stop)
