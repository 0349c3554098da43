"""The formats of records, and that reading `jsonl` output back gives the same bytes."""

import json
import struct
import time
from typing import Any

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st

from pk.cli.exits import Unusable
from pk.cli.records.filter import AbsentFields, record_filter
from pk.cli.records.internal_topics import decoded, pairs
from pk.cli.records.percent_format import compile_reader, token_writer
from pk.cli.records.readers import BadLine, NewRecord, reading
from pk.cli.records.source import Source
from pk.cli.records.writers import apache_writer, record_dict, writer
from pk.cli.terminal.text import width_of
from pk.core.record.batch import Record
from pk.core.wire.codec import encode
from pk.core.wire.messages import (
    offsets_topic,
    offsets_topic_share,
    offsets_topic_streams,
    share_topic,
    transaction_topic,
)

SOURCE = Source("orders", 3, 0, 7)
RECORDS = [
    Record(5, 1767225600000, b"k", b"v", (("h", b"1"), ("h", None))),
    Record(6, -1, None, None, ()),
    Record(9, 0, b"\xff", b"", (("b", b"\xfe"),)),
]


def shown(form: str) -> bytes:
    made = writer(form)
    return (
        made.begin()
        + made.batch(SOURCE, RECORDS[:2])
        + made.batch(SOURCE, RECORDS[2:])
        + made.end()
    )


def test_values_are_what_apache_prints() -> None:
    assert shown("value") == b"v\nnull\n\n"


def test_jsonl() -> None:
    assert [json.loads(line) for line in shown("jsonl").splitlines()] == [
        {
            "topic": "orders",
            "partition": 3,
            "offset": 5,
            "timestamp": 1767225600000,
            "timestamp_type": "create_time",
            "key": "k",
            "value": "v",
            "headers": [["h", "1"], ["h", None]],
        },
        {
            "topic": "orders",
            "partition": 3,
            "offset": 6,
            "timestamp": -1,
            "timestamp_type": "create_time",
            "key": None,
            "value": None,
            "headers": [],
        },
        {
            "topic": "orders",
            "partition": 3,
            "offset": 9,
            "timestamp": 0,
            "timestamp_type": "create_time",
            "key_b64": "/w==",
            "value": "",
            "headers": [["b", {"b64": "/g=="}]],
        },
    ]


def test_json_is_one_array_also_of_nothing() -> None:
    assert json.loads(shown("json")) == [json.loads(line) for line in shown("jsonl").splitlines()]
    empty = writer("json")
    assert json.loads(empty.begin() + empty.batch(SOURCE, []) + empty.end()) == []


def test_other_formats() -> None:
    assert shown("name") == b"orders-3@5\norders-3@6\norders-3@9\n"
    assert (
        shown("csv").splitlines()[0]
        == b"topic,partition,offset,timestamp,timestamp_type,key,key_b64,value,value_b64,headers"
    )
    assert shown(r"{offset}:{key}\n") == b"5:k\n6:-\n9:-\n"
    assert shown("{offset}\udcff\\x00") == b"5\xff\x006\xff\x009\xff\x00"
    assert shown("table").splitlines()[0].split() == [
        b"TOPIC",
        b"PARTITION",
        b"OFFSET",
        b"TIME",
        b"KEY",
        b"VALUE",
    ]
    assert b"0xff" in shown("wide")


@for_each(
    ("form", "expected"),
    [
        (r"%t/%p@%o %k=%v\n", b"orders/3@5 k=v\norders/3@6 =\norders/3@9 \xff=\n"),
        ("%K,%V,%S,%H,%i;", b"1,1,1,2,1;-1,-1,-1,0,2;1,0,0,1,3;"),
        ("%T %e|", b"1767225600000 7|-1 7|0 7|"),
        ("%k{hex}%%%{%}|", b"6b%{}|%{}|ff%{}|"),
        ("%v{base64};", b"dg==;;;"),
        ("%h;", b"h=1,h=;;b=\xfe;"),
        ("%h{<%k:%v{hex}>}|", b"<h:31><h:>||<b:fe>|"),
        ("%o{big32}", b"\0\0\0\5\0\0\0\6\0\0\0\x09"),
        ("%o{hex8},", b"05,06,09,"),
        ("%R", b"\0\0\0\1\xff\xff\xff\xff\0\0\0\0"),
        (r"\x41%p\t", b"A3\tA3\tA3\t"),
        (r"\xfe\x80%p", b"\xfe\x803" * 3),
        ("\udcff%p%%\udcfe", b"\xff3%\xfe" * 3),
    ],
)
def test_tokens(form: str, expected: bytes) -> None:
    assert token_writer(form)(SOURCE, RECORDS) == expected


@for_each(
    ("form", "expected"),
    [
        ("%x %y %a", b"4711 3 28"),
        ("%a{compression} %a{compression;number}", b"zstd 4"),
        ("%a{timestamp-type}%a{transactional-bit}%a{control-bit}", b"110"),
        ("%x{hex32}", b"00001267"),
        ("%[ %| %]", b"2 40 41"),
        ("%]{big16}%[{bool}", b"\0\x29true"),
        ("%v{unpack[>hI]}", b"-2 7"),
        ("%v{unpack[>h <H . s]}", b"-2 0 \x00 \x07"),
        ("%v{unpack[hs$]}", b"-2 \x00\x00\x00\x07"),
        ("%v{unpack[h$]}", b"(4 bytes are left)"),
        ("%v{unpack[qq]}", b"(too short for q)"),
    ],
)
def test_tokens_of_a_batch_and_packed_values(form: str, expected: bytes) -> None:
    source = SOURCE._replace(
        attributes=0b11100,
        producer_id=4711,
        producer_epoch=3,
        log_start=2,
        last_stable=40,
        high_watermark=41,
    )
    record = Record(5, 0, None, struct.pack(">hI", -2, 7), ())
    assert token_writer(form)(source, [record]) == expected


def test_what_is_not_known_of_a_record_is_not_made_up() -> None:
    for form in ("%x", "%y", "%a", "%a{compression}", "%[", "%|", "%]"):
        with pytest.raises(Unusable, match="unknown"):
            token_writer(form)(SOURCE, RECORDS)


@pytest.mark.parametrize(
    ("topic", "module"),
    [
        ("__consumer_offsets", offsets_topic),
        ("__consumer_offsets", offsets_topic_share),
        ("__consumer_offsets", offsets_topic_streams),
        ("__transaction_state", transaction_topic),
        ("__share_group_state", share_topic),
    ],
)
def test_every_type_of_record_of_an_internal_topic_is_decoded(topic: str, module: Any) -> None:
    keys = [key for name, key in vars(module).items() if name.endswith("Key") and name != "Key"]
    assert keys
    for key in keys:
        value = getattr(module, f"{key.__name__.removesuffix('Key')}Value")
        version = value.VERSIONS[1]
        record = RECORDS[0]._replace(
            key=struct.pack(">h", key.RECORD_TYPE) + encode(key(), 0),
            value=struct.pack(">h", version) + encode(value(), version),
        )
        shown = json.loads(pairs(decoded(topic, [record])))
        assert (shown["key"]["type"][0].islower(), shown["value"]["version"]) == (True, version), (
            key
        )


def test_sixteen_bytes_are_a_uuid_only_where_one_stands() -> None:
    """A member's subscription may also be 16 bytes long."""
    member = offsets_topic.MemberMetadata(subscription=b"\7" * 16)
    message = offsets_topic.GroupMetadataValue(protocol_type="connect", members=[member])
    commit = offsets_topic.OffsetCommitValue(topic_id=b"\7" * 16)
    keys = (offsets_topic.GroupMetadataKey(), offsets_topic.OffsetCommitKey())
    group, offset = (
        json.loads(pairs(decoded("__consumer_offsets", [record])))["value"]
        for key, value in zip(keys, (message, commit), strict=True)
        for version in value.VERSIONS[1:]
        for record in [
            RECORDS[0]._replace(
                key=struct.pack(">h", key.RECORD_TYPE) + encode(key, 0),
                value=struct.pack(">h", version) + encode(value, version),
            )
        ]
    )
    assert group["members"][0]["subscription"] == {"hex": "07" * 16}
    assert offset["topic_id"] == "BwcHBwcHBwcHBwcHBwcHBw"


def test_times_are_iso_in_the_local_zone_or_as_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        made = token_writer("%d|%d{strftime[%F %H:%M]};")(SOURCE, RECORDS[:2])
        assert made == b"2026-01-01T05:30:00.000+05:30|2026-01-01 05:30;|;"
        assert b"  2026-01-01T05:30:00.000+05:30  " in writer("table").batch(SOURCE, RECORDS[:1])
    finally:
        monkeypatch.undo()
        time.tzset()


def test_wide_characters_keep_a_table_of_records_on_its_lines_and_in_its_columns() -> None:
    rows = [RECORDS[0]._replace(key=key.encode(), value=b"v" * 40) for key in ("日本語日本語", "k")]
    lines = writer("table", terminal=True, width=80).batch(SOURCE, rows).decode().splitlines()
    assert {width_of(line) for line in lines[1:]} == {80}
    assert len({width_of(line[: line.lower().index("v")]) for line in lines}) == 1


def test_times_beyond_the_calendar_are_shown_as_numbers() -> None:
    odd = [RECORDS[0]._replace(timestamp=ms) for ms in (1_795_253_464_328_000, 2**63 - 1)]
    for form in ("%d{strftime[%Y]};", "%d;", "{time};"):
        made = writer(form).batch(SOURCE, odd)
        assert made == b"1795253464328000;9223372036854775807;"
    assert b"1795253464328000" in writer("table").batch(SOURCE, odd)


@for_each(
    "form", ["%q", "%k{rot13}", "%h{%q}", "%k{hex", "%o{hex}", "%a{x}", "%k{unpack[x]}", "%D", "%A"]
)
def test_tokens_that_do_not_exist(form: str) -> None:
    with pytest.raises(Unusable, match="-f:"):
        token_writer(form)


@pytest.mark.parametrize(
    ("form", "line", "expected"),
    [
        ("%k{re[[0-9]+]}%v", b"17seven", {"key": b"17", "value": b"seven"}),
        (r"%k\xff\x0a%v\xfe", b"a\xff\nb\xfe", {"key": b"a", "value": b"b"}),
        ("%k{re[\udcff]}%v", b"\xffb", {"key": b"\xff", "value": b"b"}),
        ("%k %v{json}", b'a {"n": 1}', {"key": b"a", "value": b'{"n": 1}'}),
        ("%k{hex}:%v{base64}", b"00ff:eHg=", {"key": b"\0\xff", "value": b"xx"}),
    ],
)
def test_tokens_that_read(form: str, line: bytes, expected: dict[str, bytes]) -> None:
    assert compile_reader(form).parse(line) == expected


@pytest.mark.parametrize(
    ("form", "line"), [("%v{json}", b"{"), ("%k{re[[0-9]+]}:%v", b"x:1"), ("%v{hex}", b"0g")]
)
def test_lines_that_do_not_fit_their_tokens(form: str, line: bytes) -> None:
    with pytest.raises(ValueError):
        compile_reader(form).parse(line)


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("%K{big32}%k", "-f jsonl takes any bytes"),
        ("%v{rot13}", "{re[…]}"),
        ("%v{re[(a]}", "%v: "),
        ("%v{re[(a)]}", "write (?:…) instead of (…)"),
        ("%x", "the tokens are %k"),
        ("%o %v", "the broker assigns offsets"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(form: str, said: str) -> None:
    with pytest.raises(Unusable) as refused:
        compile_reader(form)
    assert said in str(refused.value)


def test_apache_s_formatter() -> None:
    every = [
        (f"print.{n}", "true")
        for n in ("timestamp", "key", "offset", "partition", "headers", "epoch", "delivery")
    ]
    made = apache_writer([*every, ("key.separator", "|"), ("null.literal", "NIL")])
    assert made.batch(SOURCE, RECORDS) == (
        b"CreateTime:1767225600000|Partition:3|Offset:5|Delivery:NOT_PRESENT|Epoch:7|h:1,h:NIL|k|v\nNO_TIMESTAMP|Partition:3|Offset:6|Delivery:NOT_PRESENT|Epoch:7|NO_HEADERS|NIL|NIL\nCreateTime:0|Partition:3|Offset:9|Delivery:NOT_PRESENT|Epoch:7|b:\xfe|\xff|\n"
    )
    with pytest.raises(Unusable, match=r"did you mean print\.key"):
        apache_writer([("print.keys", "true")])


def test_apache_s_deserializers() -> None:
    made = apache_writer(
        [
            ("print.key", "true"),
            ("key.deserializer", "x.LongDeserializer"),
            ("value.deserializer", "IntegerDeserializer"),
        ]
    )
    good = Record(0, 0, struct.pack(">q", -2), struct.pack(">i", 7))
    assert made.batch(SOURCE, [good]) == b"-2\t7\n"
    with pytest.raises(ValueError, match="not a Long"):
        made.batch(SOURCE, [RECORDS[0]])


names = st.text(max_size=5)
blobs = st.one_of(
    st.none(),
    st.binary(max_size=12),
    st.text(max_size=12).map(lambda t: t.encode("utf-8", "surrogatepass")),
)
records = st.builds(
    Record,
    st.integers(0, 2**62),
    st.integers(-1, 2**62),
    blobs,
    blobs,
    st.lists(st.tuples(names, blobs), max_size=4).map(tuple),
)


@given(records)
def test_jsonl_reads_back_bit_for_bit(record: Record) -> None:
    line = writer("jsonl").batch(SOURCE, [record])
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert json.loads(line) == record_dict(SOURCE, record)
    found = reading("jsonl", ()).read(line.rstrip(b"\n"))
    assert found == NewRecord(
        record.key, record.value, record.headers, record.timestamp, 3, "orders"
    )


@for_each(
    ("properties", "line", "expected"),
    [
        ({}, b"a\tb", NewRecord(None, b"a\tb")),
        ({"parse.key": "true"}, b"a\tb\tc", NewRecord(b"a", b"b\tc")),
        ({"parse.key": "true", "key.separator": ":"}, b"a:b", NewRecord(b"a", b"b")),
        ({"parse.key": "true", "ignore.error": "true"}, b"ab", NewRecord(None, b"ab")),
        ({"parse.headers": "true"}, b"h:1,h:\tv", NewRecord(None, b"v", (("h", b"1"), ("h", b"")))),
        (
            {"parse.headers": "true", "parse.key": "true"},
            b"h:1\tk\tv",
            NewRecord(b"k", b"v", (("h", b"1"),)),
        ),
        ({"parse.key": "true", "null.marker": "N"}, b"N\tN", NewRecord(None, None)),
        ({"parse.headers": "true", "null.marker": "N"}, b"N\tv", NewRecord(None, b"v")),
        (
            {"parse.headers": "true", "null.marker": "N"},
            b"h:N\tv",
            NewRecord(None, b"v", (("h", None),)),
        ),
    ],
)
def test_apache_s_reader(properties: dict[str, str], line: bytes, expected: NewRecord) -> None:
    assert reading(None, properties.items()).read(line) == expected


@for_each(
    ("form", "line", "expected"),
    [
        (r"%k\t%v\n", b"a\tb", NewRecord(b"a", b"b")),
        ("%k{hex}:%v{base64}", b"ff:dg==", NewRecord(b"\xff", b"v")),
        ("%p %T %k %v", b"3 5 a b c", NewRecord(b"a", b"b c", (), 5, 3)),
        ("%t,%h;%v", b"x,a=1,b=2;v", NewRecord(None, b"v", (("a", b"1"), ("b", b"2")), topic="x")),
        ("jsonl", b'{"value": {"a": 1}}', NewRecord(None, b'{"a":1}')),
        ("jsonl", b' {"value": "a", "timestamp": -1} \r', NewRecord(None, b"a", (), -1)),
        ("jsonl", b'{"value": {"a": 1}, "timestamp": -7}', NewRecord(None, b'{"a":1}', (), -7)),
        ("%T %v", b"-1 v", NewRecord(None, b"v", (), -1)),
        ("jsonl", b'{"value": "\\ud800"}', NewRecord(None, b"\xed\xa0\x80")),
        (
            "jsonl",
            b'{"value": "\xc3\xa4", "partition": 2}',
            NewRecord(None, b"\xc3\xa4", (), None, 2),
        ),
        ("jsonl", b'{"key": "", "headers": {"a": "b"}}', NewRecord(b"", None, (("a", b"b"),))),
    ],
)
def test_lines_by_format(form: str, line: bytes, expected: NewRecord) -> None:
    assert reading(form, ()).read(line) == expected


@for_each(
    ("form", "line", "said"),
    [
        ("jsonl", b"{", "not JSON"),
        ("jsonl", b"[]", "an object"),
        ("jsonl", b'{"vlaue": 1}', "did you mean value"),
        ("jsonl", b'{"value": "a", "value_b64": "YQ=="}', "both given"),
        ("jsonl", b'{"key_b64": "!"}', "not base64"),
        ("jsonl", b'{"key": 1} x', "not JSON"),
        ("jsonl", b"\xff", "not JSON"),
        ("jsonl", b'{"topic": 1}', "topic must be a string"),
        ("jsonl", b"[" * 100_000, "nested too deeply"),
        ("jsonl", b'{"headers": [["a"]]}', "a pair"),
        ("jsonl", b'{"timestamp": "x"}', "whole number"),
        ("jsonl", b'{"timestamp": 9223372036854775808}', "timestamp is too large"),
        ("jsonl", b'{"timestamp": -9223372036854775809}', "timestamp is too small"),
        ("jsonl", b'{"topic": "\\ud800"}', "topic is not valid text"),
        ("jsonl", b'{"headers": [["\\ud800", "v"]]}', "name of a header is not valid text"),
        ("%T %v", b"9223372036854775808 v", "timestamp is too large"),
        (r"%k\t%v", b"ab", "does not fit"),
        ("%p %v", b"x y", "whole number"),
        ("%k{hex} %v", b"zz y", "hex"),
    ],
)
def test_lines_that_are_no_records(form: str, line: bytes, said: str) -> None:
    with pytest.raises(BadLine, match=said):
        reading(form, ()).read(line)


@pytest.mark.parametrize(
    ("properties", "line", "said"),
    [
        ({"parse.key": "true", "key.separator": r"\xff"}, b"a b", "it has no key separator"),
        (
            {"parse.headers": "true", "headers.key.separator": r"\xff"},
            b"a\tb",
            "the header 'a' has no",
        ),
        ({"parse.headers": "true"}, b"\xff:a\tb", "the name of a header is not UTF-8"),
    ],
)
def test_lines_without_a_separator_that_is_no_text(
    properties: dict[str, str], line: bytes, said: str
) -> None:
    with pytest.raises(BadLine, match=said):
        reading(None, properties.items()).read(line)


@pytest.mark.parametrize("form", ["jsnl", "%k%k", "%K", "%v{rot13}"])
def test_input_formats_that_do_not_exist(form: str) -> None:
    with pytest.raises(Unusable, match="-f"):
        reading(form, ())


def test_a_wide_row_goes_on_below_where_a_terminal_would_break_a_cell() -> None:
    shown = writer("wide", terminal=True, width=60)
    lines = (shown.begin() + shown.batch(SOURCE, RECORDS) + shown.end()).decode().splitlines()
    heads = lines[:2]
    assert heads[0].startswith("TOPIC") and heads[1].startswith("    ")
    assert " ".join(heads).split()[-3:] == ["EPOCH", "HEADERS", "VALUE"]
    assert all(len(head) <= 60 for head in heads)


def test_a_field_that_no_record_has_is_named_with_what_records_have() -> None:
    def said(where: str, *values: bytes) -> str | None:
        absent = AbsentFields()
        test = record_filter(None, (), where, absent)
        assert test is not None
        for offset, value in enumerate(values):
            record = Record(offset, 0, None, value, (("trace", b"1"),))
            assert not test(Source("t", 0), record)
        assert absent.sentence(1) is None
        return absent.sentence(0)

    orders = (b'{"amount": 1, "user": {"name": "a"}}', b'{"total": 2}', b"no JSON")
    assert (
        said("value.amuont > 3", *orders)
        == "--where: no record has the field value.amuont; did you mean value.amount?"
    )
    assert said("value.user.nmae = b", *orders) == (
        "--where: no record has the field value.user.nmae; did you mean value.user.name?"
    )
    assert said("headers.tarce = 2", *orders) == (
        "--where: no record has the field headers.tarce; did you mean headers.trace?"
    )
    assert said("value.x = 1", b"no JSON") == "--where: no record has the field value.x."
    assert said("value.total > 3 and value.amount > 3", *orders) is None
    assert said("value.amuont > 3") is None, "no record was read"
    assert said("offset > 10", *orders) is None
