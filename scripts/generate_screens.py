"""Draws docs/screens/*.svg: the screens of pk's programs, which run on a cluster of three
brokers."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from io import StringIO
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts" / "path"), str(ROOT / "tests")]

from clients.pk_broker import pk_command, pk_environment
from clients.pk_cluster import PkCluster
from rich.console import Console
from rich.style import Style
from rich.text import Text
from terminal import Terminal

SCREENS = ROOT / "docs" / "screens"
COLUMNS = 100

_RGB = re.compile("[0-9a-f]{6}")
_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_OLD_NAMES = {"brown": "yellow"}
"""pyte's names of colors that rich does not have."""


def main() -> None:
    """Start the cluster, create records, a group that keeps up and a group that lags, and draw each
    screen."""
    SCREENS.mkdir(exist_ok=True)
    with (
        PkCluster(3) as cluster,
        tempfile.TemporaryDirectory(prefix="pk-screens-") as home,
        ExitStack() as stack,
    ):
        environment = pk_environment() | {"PK_BOOTSTRAP_SERVER": cluster.bootstrap}

        def run(*words: str) -> None:
            subprocess.run(
                pk_command(*words), env=environment, check=True, stdout=subprocess.DEVNULL
            )

        def keep_running(*words: str) -> None:
            process = subprocess.Popen(
                pk_command(*words), env=environment, stdout=subprocess.DEVNULL
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)

        for topic, partitions in (("orders", "6"), ("payments", "3"), ("clicks", "3")):
            run("topics", "create", topic, "-p", partitions, "-r", "3")
            run("produce", topic, "--fake", "orders", "-n", "2000", "--seed", "1")
        run("topics", "create", "returns", "-p", "4", "-r", "1")
        run("produce", "returns", "--fake", "orders", "-n", "8000", "--seed", "1")
        run("consume", "orders", "-g", "billing", "--from-beginning", "-n", "2000")
        run("produce", "orders", "--fake", "orders", "-n", "500", "--seed", "2")

        def open_terminal(*words: str, lines: int) -> Terminal:
            return Terminal(
                *words,
                columns=COLUMNS,
                lines=lines,
                home=Path(home),
                PK_BOOTSTRAP_SERVER=cluster.bootstrap,
            )

        def top(screen: Terminal) -> None:
            for topic, rate in (("payments", "400"), ("clicks", "90")):
                keep_running("perf", "produce", "-t", topic, "--rate", rate, "--duration", "10m")
            keep_running("consume", "payments", "-g", "ledger", "--from-beginning")
            screen.wait_for(re.compile(r"payments.* 4\d\d  .*[▁▂▃▄▅▆▇█]{8}"))

        def records(screen: Terminal) -> None:
            screen.wait_for("v records")
            screen.keys("/")
            screen.send("orders")
            screen.keys("enter")
            screen.wait_for(lambda text: "payments" not in text)
            screen.keys("v", "/")
            screen.send("value.status = paid and value.amount > 400")
            screen.keys("enter")
            screen.wait_for(lambda text: "records read" in text and "Reading" not in text)
            screen.keys("down", "down")
            while screen.read(0.5):
                pass

        def isr(screen: Terminal) -> None:
            screen.wait_for("Watching")
            cluster.kill(3)
            screen.wait_for(re.compile("orders .* shrink"))

        def reassign(screen: Terminal) -> None:
            screen.wait_for(re.compile(r"[1-9]\d%"))

        def reset(screen: Terminal) -> None:
            screen.wait_for(re.compile(r"\[y/N\]|\?"))

        def shell(screen: Terminal) -> None:
            screen.wait_for(re.compile(r"\d>"))
            screen.line("groups lag billing")
            screen.wait_for(re.compile("Lag 500"))
            screen.send("topics desc")
            screen.wait_for("describe")

        move = "reassign apply -t returns -r 3 --throttle 40kB/s -y"
        shots: tuple[tuple[str, tuple[str, ...], int, Callable[[Terminal], None]], ...] = (
            (
                "reset-offsets",
                ("groups", "reset-offsets", "billing", "-t", "orders", "--to", "start"),
                14,
                reset,
            ),
            ("shell", ("shell",), 20, shell),
            ("reassign", tuple(move.split()), 8, reassign),
            ("records", ("top", "topics"), 16, records),
            ("top", ("top", "topics"), 14, top),
            ("isr", ("isr", "-w", "orders"), 20, isr),
        )
        for name, words, lines, until in shots:
            screen = open_terminal(*words, lines=lines)
            try:
                until(screen)
                if name not in ("records", "top", "reassign"):  # these programs never stop drawing
                    while screen.read(1.0):
                        pass
                draw(name, f"pk {' '.join(words)}", screen, lines)
            finally:
                screen.close()


def draw(name: str, title: str, screen: Terminal, lines: int) -> None:
    """Write the current screen."""
    console = Console(record=True, width=COLUMNS, file=StringIO())
    for line in range(lines):
        text = Text()
        for column in range(COLUMNS):
            cell = screen.cell(column, line)
            text.append(cell.data, style_of(cell))
        text.rstrip()
        console.print(text, soft_wrap=True)
    svg = _FONT.sub("", console.export_svg(title=title, unique_id=f"pk-{name}"))
    (SCREENS / f"{name}.svg").write_text(svg, encoding="utf-8")


def style_of(cell: object) -> Style:
    """Return a cell's colors and weight in rich's syntax."""
    fg, bg = (_color(getattr(cell, which)) for which in ("fg", "bg"))
    return Style(
        color=fg,
        bgcolor=bg,
        bold=bool(getattr(cell, "bold", False)),
        underline=bool(getattr(cell, "underscore", False)),
        reverse=bool(getattr(cell, "reverse", False)),
    )


def _color(name: str) -> str | None:
    if name == "default":
        return None
    if _RGB.fullmatch(name):
        return f"#{name}"
    name = _OLD_NAMES.get(name, name)
    return f"bright_{name[6:]}" if name.startswith("bright") else name


if __name__ == "__main__":
    main()
