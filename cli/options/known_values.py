"""Option values, of Kafka and of pk, that completion offers. Imports nothing."""

FORMATS = (
    "table",
    "wide",
    "json",
    "jsonl",
    "yaml",
    "csv",
    "name",
    "cbor",
    "schema",
)
"""Output formats, except templates."""

GROUP_STATES = (
    "Stable",
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Dead",
)
"""Kafka's states of groups."""

GROUP_TYPES = (
    "Classic",
    "Consumer",
    "Share",
    "Streams",
)
"""Kafka's types of groups."""

TRANSACTION_STATES = (
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Empty",
    "Dead",
    "PrepareEpochFence",
)
"""Kafka's states of transactions."""

SHOWN = (
    "segments",
    "batches",
    "records",
    "index",
    "timeindex",
    "txnindex",
    "snapshot",
    "epochs",
    "checkpoint",
    "metadata",
    "all",
)
"""The values of `pk log dump --show`."""
