"""Errors: the exit code of each kind, and one sentence with the next step."""

import io

from each import for_each

from pk.cli.exits import CommandError, Exit, Refused, Unusable
from pk.cli.options.option_values import Values
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import error_name, exit_code, exit_of_rows, leaf, sentence
from pk.cli.terminal.streams import Streams
from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.types import EncodeError
from pk.net.client.errors import (
    BufferExhausted,
    ConfigError,
    ConnectFailed,
    ControllerSilent,
    Disconnected,
    NoBrokers,
    RequestTimedOut,
    Straggler,
    Unanswered,
    UnknownPartition,
)
from pk.net.client.results import Node

UNTRUSTED = NoBrokers(
    [ConnectFailed(at, "its certificate has expired", by_config=True) for at in ("h:1", "h:2")]
)
UNREACHABLE = NoBrokers(
    [ConnectFailed("h:1", "connection refused"), ConnectFailed("h:2", "no such host")]
)


@for_each(
    ("error", "code", "said"),
    [
        (CommandError("It failed."), 1, "It failed."),
        (Unusable("Wrong."), 2, "Wrong."),
        (Refused("No."), 5, "No."),
        (ConfigError("acks: must be 0"), 2, "acks: must be 0."),
        (UNREACHABLE, 3, "h:2: no such host"),
        (ConnectFailed("h:1", "refused"), 3, "-b HOST:PORT"),
        (UNTRUSTED, 3, "No broker answers (h:1 and h:2: its certificate has expired)."),
        (Disconnected("h:1 closed"), 3, "connection was lost"),
        (RequestTimedOut("Metadata"), 124, "waits longer"),
        (
            Straggler(2, "h:1", 3000),
            124,
            "Broker 2 at h:1 did not answer within 3 s, but others did",
        ),
        (
            Unanswered([Node(2, "h", 1)], 15000),
            124,
            "Broker 2 at h:1 did not answer within 15 s; `pk b",
        ),
        (Unanswered([Node(-1, "h", 1)], 500), 124, "h:1 did not answer within 0.5 s; give another"),
        (
            Unanswered([Node(2, "h", 1), Node(3, "h", 2), Node(-1, "h", 3)], 500),
            124,
            "Brokers 2 at h:1, 3 at h:2 and h:3 did not answer",
        ),
        (BufferExhausted("full"), 124, "full."),
        (EncodeError("name is too long"), 2, "This does not fit in a request: name is too long."),
        (KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED), 4, "TOPIC_AUTHORIZATION_FAILED"),
        (KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "bad password"), 4, "bad password"),
        (
            KafkaError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                (
                    "Request Request(processor=2, session=a.B@4c5, envelope=None) needs ALTER "
                    "permission"
                ),
            ),
            4,
            "CLUSTER_AUTHORIZATION_FAILED: it needs ALTER permission; `pk why denied USER",
        ),
        (
            KafkaError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                "InitProducerId; enable.idempotence=false needs no producer id",
            ),
            4,
            "the user needs WRITE on the topic (`pk acls add --allow USER --producer",
        ),
        (
            ControllerSilent([], 9, changes=True),
            124,
            "may still take effect (-X default.api.timeout",
        ),
        (ControllerSilent([Node(2, "h", 1)], 3000), 124, "asked through broker 2 at h:1, but"),
        (KafkaError(ErrorCode.REQUEST_TIMED_OUT), 124, "did not finish in time"),
        (KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), 1, "`pk topics list`"),
        (UnknownPartition("t", 3, 2), 1, "Topic t has no partition 3; it has 2, from 0 to 1."),
        (KafkaError(ErrorCode.NON_EMPTY_GROUP), 1, "-m` lists them"),
        (
            KafkaError(ErrorCode.INVALID_CONFIG, "Invalid value x for retention.ms: not a number."),
            1,
            "retention.ms: not a number; `pk help configs retention.ms` shows the valid values.",
        ),
        (KafkaError(ErrorCode.INVALID_CONFIG, "Too many."), 1, "Too many."),
        (KafkaError(12345), 1, "ERROR_12345"),
        (KeyboardInterrupt(), 130, "Interrupted."),
        (FileNotFoundError(2, "No such file or directory", "x.csv"), 1, "x.csv: No such file"),
        (
            ZeroDivisionError("division by zero"),
            1,
            "bug in pk (ZeroDivisionError: division by zero)",
        ),
    ],
)
def test_code_and_sentence(error: BaseException, code: int, said: str) -> None:
    assert exit_code(error) == code
    text = sentence(error)
    assert said in text
    assert "\n" not in text and text.endswith((".", "?"))


def test_the_name_of_an_error_for_programs() -> None:
    assert error_name(KafkaError(ErrorCode.INVALID_CONFIG, "said")) == "INVALID_CONFIG"
    assert error_name(ConnectFailed("h:1", "refused")) == "ConnectFailed"


def test_rows_that_failed_alike_give_their_code_else_1() -> None:
    denied = KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert exit_of_rows([]) == Exit.OK
    assert exit_of_rows([denied, denied]) == Exit.NOT_AUTHORISED
    assert exit_of_rows([denied, KafkaError(ErrorCode.INVALID_CONFIG)]) == Exit.FAILED


def test_the_error_that_says_most_speaks_for_a_group() -> None:
    said = Unusable("Wrong.")
    group = BaseExceptionGroup("g", [ValueError("x"), ExceptionGroup("h", [KeyError("y"), said])])
    assert leaf(group) is said
    interrupt = KeyboardInterrupt()
    assert leaf(BaseExceptionGroup("g", [said, interrupt])) is interrupt


def test_a_broker_that_is_silent_is_told_once_however_much_only_it_knows() -> None:
    err = io.StringIO()
    context = Context(Values(), (), Streams(out=io.BytesIO(), err=err))
    for partition in range(3):
        context.failed(Straggler(2, "h:2", 3000), f"orders/{partition}")
        context.failed(Unanswered([Node(1, "h", 1)], 15000), f"orders/{partition}")
    context.failed(Straggler(3, "h:3", 3000), "orders/3")
    assert [line.split(" did")[0] for line in err.getvalue().splitlines()] == [
        "Broker 2 at h:2",
        "Broker 1 at h:1",
        "Broker 3 at h:3",
    ]
    assert context.exit == Exit.TIMED_OUT
