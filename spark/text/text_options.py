"""The options for text files: which files are read, and the format of CSV."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from pk.spark.errors import OptionError

if TYPE_CHECKING:
    from pk.spark.text.csv_reader import Dialect

PACKED: Final = frozenset((".gz", ".bz2", ".zst", ".lz4", ".snappy"))
"""The suffixes of files that Spark decompresses."""

_LISTING: Final = ("pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter")
"""Options of Spark's readers that select the files."""

_CSV: Final = ("delimiter", "header", "encoding", "nullvalue")
_SYNONYMS: Final = {"sep": "delimiter", "charset": "encoding"}
_AS_IT_IS: Final = {
    "csv": {"mode": "failfast", "multiline": "true"},
    "json": {"mode": "failfast", "multiline": "false", "encoding": "utf-8"},
}
"""Format → options of Spark's readers with values that are fixed here."""


def text_options(kind: str, given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split the options of a text format into those that select files, and those of CSV. Raises
    OptionError."""
    known = (*_LISTING, *(_CSV if kind == "csv" else ()))
    listing: dict[str, str] = {}
    own: dict[str, str] = {}
    for name, value in given.items():
        key = _SYNONYMS.get(name.lower(), name.lower())
        if key in known:
            (listing if key in _LISTING else own)[key] = value
        elif _AS_IT_IS.get(kind, {}).get(key) != value.lower():
            shown = ", ".join(known)
            raise OptionError(f"{kind} has no option {name}={value}; the options are {shown}")
    if kind == "csv":
        dialect_of("", own)
        has_header(own)
    return listing, own


def has_header(own: Mapping[str, str]) -> bool:
    """Whether the first row names the columns. Raises OptionError."""
    said = own.get("header", "true").lower()
    if said not in ("true", "false"):
        raise OptionError(f"header must be true or false, not {said!r}")
    return said == "true"


def dialect_of(file: str, own: Mapping[str, str]) -> "Dialect":
    """The format of a CSV file, from the options and the suffix of its name. Raises OptionError."""
    from pk.spark.text.csv_reader import Dialect

    path = PurePosixPath(file)
    if path.suffix in PACKED:
        path = path.with_suffix("")
    delimiter = own.get("delimiter") or ("\t" if path.suffix.lower() == ".tsv" else ",")
    delimiter = "\t" if delimiter in ("\\t", "tab") else delimiter
    found = Dialect(delimiter, own.get("encoding", "utf-8"), own.get("nullvalue"))
    try:
        found.check()
    except ValueError as e:
        raise OptionError(str(e)) from None
    return found
