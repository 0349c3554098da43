"""The log of a broker process on standard error: lines for people or, with `pk.log.format=json`,
one JSON object for each event.

Levels change while it runs: `pk configs alter broker-logger 1 -c pk.server=DEBUG`.
"""

import json
import logging
import sys
from datetime import UTC, datetime

from pk.cli.terminal.text import escaped_lines
from pk.core.broker.replication import recovery_progress
from pk.core.broker.requests.loggers import level_name
from pk.core.config import BrokerConfig


class InertFormatter(logging.Formatter):
    """Log lines without control characters, since they may contain text that a client sent."""

    def format(self, record: logging.LogRecord) -> str:
        """Part of `logging.Formatter`."""
        return escaped_lines(super().format(record))


class JsonFormatter(logging.Formatter):
    """One JSON object for each event, on one line."""

    def __init__(self, node_id: int) -> None:
        super().__init__()
        self._node_id = node_id

    def format(self, record: logging.LogRecord) -> str:
        """Part of `logging.Formatter`."""
        event: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": level_name(record.levelno),
            "logger": record.name,
            "node": self._node_id,
            "message": record.getMessage(),
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(event)


def log_to_stderr() -> None:
    """Write the broker's warnings, with their time, and the progress of a long recovery to standard
    error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(InertFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    recovery_progress.logger.setLevel(logging.INFO)


def use_log_format(config: BrokerConfig) -> None:
    """Make the handler of `log_to_stderr` write in the format of `pk.log.format`."""
    if config.pk_log_format == "json":
        for handler in logging.getLogger().handlers:
            if isinstance(handler.formatter, InertFormatter):
                handler.setFormatter(JsonFormatter(config.node_id))
