"""The broker without its sockets: vocabulary, wire protocol, records, state machines, log, runtime
and APIs."""

__version__ = "0.5.0"
