"""Words of Kafka's and ours that options take and completion offers. Nothing is imported here."""

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
"""How results may look, besides templates."""

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
"""Kafka's words for the states of groups."""

GROUP_TYPES = (
    "Classic",
    "Consumer",
    "Share",
    "Streams",
)
"""Kafka's words for the kinds of groups."""

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
"""What `pk log dump --show` knows."""
