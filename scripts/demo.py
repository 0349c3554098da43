"""Shows the main use of pk, as a person would type it: prints every command, runs it, and shows its
output.

The broker, its data and the parquet files live in a temporary directory that is removed at the end.
"""

import csv
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parents[1]
PK = str(Path(sys.executable).with_name("pk"))
AIRPORTS = ROOT / "scripts" / "data" / "airports.csv"
GROUP = "demo"
SHOWN = 5
START_TIMEOUT_S = 60

BOLD, DIM, PLAIN = ("\033[1m", "\033[2m", "\033[0m") if sys.stdout.isatty() else ("", "", "")


def step(text: str) -> None:
    """Print the title of the next step."""
    print(f"\n{BOLD}{text}{PLAIN}", flush=True)


def show(*words: str) -> None:
    """Show a command line."""
    print(f"{DIM}$ {shlex.join(('pk', *words))}{PLAIN}", flush=True)


def pk(*words: str, shown: int | None = None, stdin: TextIO | None = None) -> str:
    """Run a command of pk, and print its output, at most `shown` lines. If it fails, end the
    demo."""
    show(*words)
    done = subprocess.run(
        [PK, *words], check=False, text=True, encoding="utf-8", stdout=subprocess.PIPE, stdin=stdin
    )
    lines = done.stdout.splitlines()
    for line in lines[:shown]:
        print(line)
    if shown is not None and len(lines) > shown:
        print(f"{DIM}... and {len(lines) - shown:,} more{PLAIN}")
    if done.returncode:
        sys.exit(f"pk {words[0]} ended with {done.returncode}")
    return done.stdout


def records(path: Path, key: str | None) -> Iterator[dict[str, str | None]]:
    """Return the records of the file, each a key and a value."""
    with path.open(encoding="utf-8", newline="") as file:
        if path.suffix == ".csv":
            rows = csv.DictReader(file)
            if key is not None and key not in (rows.fieldnames or ()):
                sys.exit(
                    f"{path.name} has no column {key!r}; it has {', '.join(rows.fieldnames or ())}"
                )
            for row in rows:
                yield {"key": row[key or next(iter(row))], "value": json.dumps(row)}
        elif path.suffix in (".jsonl", ".ndjson"):
            for line in filter(str.strip, file):
                value = json.loads(line)
                found = value.get(key or next(iter(value))) if isinstance(value, dict) else None
                yield {"key": None if found is None else str(found), "value": line.strip()}
        else:
            for line in file:
                yield {"key": None, "value": line.rstrip("\n")}


def start_broker(data: Path) -> tuple[subprocess.Popen[str], str]:
    """Start `pk up` in the background, and return its address once it is ready."""
    words = ("up", "--port", "0", "--data", str(data))
    show(*words)
    broker = subprocess.Popen([PK, *words], stdout=subprocess.PIPE, text=True, encoding="utf-8")
    assert broker.stdout is not None
    line = broker.stdout.readline()
    if not line:
        sys.exit("the broker did not start")
    print(line.rstrip())
    return broker, line.split()[-1]


def show_parquet(directory: Path) -> None:
    """Print the parquet's row count and first rows."""
    from pyarrow import parquet

    table = parquet.read_table(directory)
    print(f"{table.num_rows:,} rows: {', '.join(table.column_names)}")
    rows = table.sort_by([("partition", "ascending"), ("offset", "ascending")])
    for row in rows.slice(0, SHOWN).to_pylist():
        value = row["value"]
        text = value.decode() if isinstance(value, bytes) else str(value)
        print(f"  {row['partition']}@{row['offset']}  {row['key']!s:12.12}  {text:.80}")


def run(source: Path, key: str | None, home: Path) -> None:
    """Run the demo in the directory `home`."""
    topic = re.sub(r"[^a-zA-Z0-9._-]", "-", source.stem)[:200]
    step("1. A broker of our own")
    broker, address = start_broker(home / "data")
    # The files for undo are in the temporary directory too, and are deleted with it.
    os.environ |= {"PK_BOOTSTRAP_SERVER": address, "XDG_STATE_HOME": str(home / "state")}
    try:
        step("2. A topic, and the file in it, with keys")
        pk("topics", "create", topic, "-p", "3")
        lines = home / "records.jsonl"
        with lines.open("w", encoding="utf-8") as file:
            count = sum(file.write(json.dumps(r) + "\n") > 0 for r in records(source, key))
        print(f"{DIM}# {count:,} records of {source.name}, as JSON lines{PLAIN}")
        with lines.open(encoding="utf-8") as file:
            pk("produce", topic, "-f", "jsonl", stdin=file)
        pk("topics", "offsets", topic)

        step("3. A consumer reads it in a group")
        read = ("consume", topic, "-g", GROUP, "--from-beginning", "-f", "%p@%o %k %v\\n", "-n")
        pk(*read, str(count * 3 // 5), shown=SHOWN)
        pk("groups", "describe", GROUP)

        step("4. Back to the start, and again")
        pk("groups", "reset-offsets", GROUP, "--topic", topic, "--to", "start", "-y")
        again = pk(*read, str(count), shown=SHOWN).count("\n")
        print(f"{DIM}# {again:,} records read again{PLAIN}")

        step("5. To parquet, by Spark")
        pk(
            "spark-export",
            topic,
            "--to",
            str(home / "parquet"),
            "--value",
            "string",
            "--key",
            "string",
        )
        show_parquet(home / "parquet")
    finally:
        step("6. The broker drains and ends; all it wrote is removed")
        broker.send_signal(signal.SIGINT)
        broker.wait(START_TIMEOUT_S)


def main() -> None:
    """Run the demo on a given file, or on the airports."""
    words = sys.argv[1:]
    if len(words) > 2 or any(word.startswith("-") for word in words):
        sys.exit("usage: scripts/demo [FILE [KEY]]")
    source = Path(words[0]) if words else AIRPORTS
    if not source.is_file():
        sys.exit(f"no such file: {source}")
    try:
        if not list(records(source, words[1] if len(words) > 1 else None)):
            sys.exit(f"{source.name} has no records")
    except UnicodeDecodeError:
        sys.exit(f"{source} is not UTF-8 text")
    except ValueError as e:
        sys.exit(f"{source} cannot be read: {e}")
    key = words[1] if len(words) == 2 else (None if words else "iata")
    with tempfile.TemporaryDirectory(prefix="pk-demo-") as home:
        run(source, key, Path(home))


if __name__ == "__main__":
    main()
