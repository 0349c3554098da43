"""Interprets the text in the record editor: as records, as incomplete, or as a mistake at a
position. Pure."""

import re
from typing import NamedTuple

from pk.cli.nouns.produce.plan import Plan
from pk.cli.records.json_text import BadDocument, Documents, fault
from pk.cli.records.readers import BadLine, NewRecord


class Reading(NamedTuple):
    """The effect of Enter on a text: send `records` or, if there are none, show `note` or, with
    `more`, start a new line.

    `position` is the position of the mistake, in characters, if there is one.
    """

    records: tuple[NewRecord, ...] = ()
    note: str = ""
    more: bool = False
    position: int | None = None


class Typed(NamedTuple):
    """A text in the editor. `pasted` means that its line ends come from a paste, so each line may
    be a record.

    `insisted` means that Enter was already pressed once on the same text, which was empty or looked
    like JSON but is not.
    """

    text: str
    pasted: bool = False
    insisted: bool = False


def read(plan: Plan, typed: Typed) -> Reading:
    """The effect of Enter on `typed`."""
    text = typed.text
    if not text and not plan.reads_json:
        if not typed.insisted:
            return Reading()
        what = "a null value" if plan.tombstone else "an empty value"
        return _records(plan, [text], f"Enter again writes {what}")
    if plan.reads_json:
        return _json(plan, typed)
    looks = plan.reading.plain and _MEANT_AS_JSON.match(text) is not None
    found = fault(text) if looks else None
    if found is not None and found.unfinished and not text.endswith("\n"):
        return Reading(note="Enter continues: the JSON is not finished", more=True)
    if typed.pasted and "\n" in text and not (looks and found is None):
        several = _documents(text) if looks else None
        if found is None or several is not None or typed.insisted:
            return _records(plan, several or text.split("\n"))
        return Reading(note=str(found), position=found.position)
    if found is None:
        return _records(plan, [text.removesuffix("\n")])
    if not typed.insisted:
        return Reading(note=str(found), position=found.position)
    return _records(plan, [text.removesuffix("\n")], f"Enter again sends it as text: {found}")


_MEANT_AS_JSON = re.compile(r'\s*(?:\{|\[\s*(?:["{\[\]\d-]|true|false|null|$))')
"""The beginnings of texts that are probably meant as JSON documents; `[WARN] disk` is not."""


def _json(plan: Plan, typed: Typed) -> Reading:
    text = typed.text
    if not text.strip():
        return Reading()
    found = fault(text)
    if found is None:
        return _records(plan, [text])
    if found.unfinished:
        return Reading(note="Enter continues: the JSON is not finished", more=True)
    if typed.pasted and "\n" in text:
        several = _documents(text)
        if several is not None:
            return _records(plan, several)
    return Reading(note=str(found), position=found.position)


def _documents(text: str) -> list[str] | None:
    """The JSON documents of a pasted text; None if the text contains anything else."""
    documents = Documents()
    try:
        found = documents.feed(text.encode(errors="surrogateescape").split(b"\n"))
        documents.end()
    except BadDocument:
        return None
    return [document.decode() for document in found]


def _records(plan: Plan, texts: list[str], note: str = "") -> Reading:
    records: list[NewRecord] = []
    start = 0
    for text in texts:
        try:
            records.append(plan.record(text.encode(errors="surrogateescape")))
        except BadLine as e:
            return Reading(note=str(e), position=start or None)
        start += len(text) + 1
    if len(records) > 1:
        note = f"Enter writes {len(records)} records"
    return Reading(tuple(records), note)
