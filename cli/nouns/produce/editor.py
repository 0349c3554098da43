"""`pk produce` at a terminal: an editor for records.

prompt_toolkit owns the terminal, in a thread of its own, while the user types a record; the
producer runs in trio's loop. One task sends the entered texts in order. The editor returns when the
record is acknowledged. If that takes longer than a moment, the editor does not wait, and the result
is printed later above the line being typed. Nothing typed is lost: each text is added to the
history immediately, and a text that failed returns to the editor.

The editor keeps the terminal between two texts, so no key press is lost. Ctrl-C is a key there (it
empties the line, or ends the command). At the end, while the command waits for the last
acknowledgements, Ctrl-C is a signal and ends the wait. A signal from another process during typing
ends the editor.
"""

import os
import re
import textwrap
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import trio

from pk.cli.exits import CommandError, Exit, Refused
from pk.cli.nouns.produce.editor_text import Typed, read
from pk.cli.nouns.produce.plan import Pace, Plan, producer_config, topic_exists
from pk.cli.phrases import count
from pk.cli.records.readers import NewRecord
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import sentence
from pk.cli.runtime.paths import make_user_dir
from pk.cli.terminal.app_thread import AppThread
from pk.cli.terminal.signals import Interrupts, listen_for_interrupts
from pk.core.errors import KafkaError
from pk.net.client.delivery import Delivery, RecordMetadata
from pk.net.client.errors import ClientError
from pk.net.client.producer import Producer, open_producer

if TYPE_CHECKING:
    from pk.cli.nouns.produce.options import Produce

_NEXT_RECORD_AFTER_S: Final = 0.5
"""How long the editor waits for an acknowledgement before it accepts the next record."""

_LATE_S: Final = 2.0
_QUEUED: Final = 100_000
_HISTORY_BYTES: Final = 1 << 20
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


async def edit(context: Context, options: "Produce", plan: Plan) -> int:
    """Run the editor. Returns the exit code."""
    missing = plan.topic is not None and not await topic_exists(
        context, plan.topic, create=options.create
    )
    if missing and not context.change.yes:
        answer = await context.ask(
            f"Topic {plan.topic} does not exist. Create it with the broker's defaults? [y/N] "
        )
        if answer.strip().lower() not in ("y", "yes"):
            raise Refused("Nothing was written.")
    with listen_for_interrupts() as interrupts:
        async with (
            open_producer(
                context.settings.bootstrap, producer_config(context, options, linger_ms="0")
            ) as producer,
            trio.open_nursery() as nursery,
        ):
            editor = Editor(context, options, plan, producer)
            nursery.start_soon(editor.send_all)
            nursery.start_soon(editor.follow_all)
            try:
                with editor.screen.held():
                    if await interrupts.or_until(editor.run):
                        editor.interrupted = True
                await _wait_for_rest(context, editor, interrupts)
            except trio.Cancelled:  # Ctrl-C in the shell
                context.say(_say_written(context, editor) or "Interrupted.")
                raise
            nursery.cancel_scope.cancel()
            producer.close()
    return _conclude(context, editor)


async def _wait_for_rest(context: Context, editor: "Editor", interrupts: Interrupts) -> None:
    if not editor.pending:
        return
    context.say(
        f"Waiting for the acknowledgement of {count(editor.pending, 'record')}; Ctrl-C stops "
        "waiting."
    )
    if await interrupts.or_until(editor.wait_for_none):
        context.say()  # on the line after the ^C that the terminal shows


def _say_written(context: Context, editor: "Editor") -> str | None:
    """Print how many records were written. Returns a sentence about the others."""
    context.say(f"{count(editor.written, 'record')} written.")
    if editor.pending:
        one = editor.pending == 1
        return (
            f"{count(editor.pending, 'record')} {'was' if one else 'were'} not acknowledged;"
            f" the broker may still have written {'it' if one else 'them'}."
            f" {'Its text is' if one else 'Their texts are'} in the history (↑)."
        )
    if editor.failed:
        return f"{count(editor.failed, 'record')} could not be written."
    return None


def _conclude(context: Context, editor: "Editor") -> int:
    wrong = _say_written(context, editor)
    if wrong is not None:
        raise CommandError(wrong)
    return Exit.INTERRUPTED if editor.interrupted else Exit.OK


class Editor:
    """The editor's state: the text being typed, the records being sent, and their results."""

    def __init__(
        self, context: Context, options: "Produce", plan: Plan, producer: Producer
    ) -> None:
        self.written = 0
        self.failed = 0
        self.pending = 0
        self.interrupted = False
        self._context = context
        self._plan = plan
        self._producer = producer
        self._wanted, self._to_send = trio.open_memory_channel[tuple[str, NewRecord]](_QUEUED)
        self._sent, self._to_follow = trio.open_memory_channel[tuple[str, Delivery, float]](_QUEUED)
        self._settled = trio.Event()
        self._waiting_since = 0.0
        self._kept = ""
        self._left = options.num
        self._pace = Pace(options.rate) if options.rate else None
        self._in_step = options.sync
        self.screen = Screen(context, plan, self._status)

    def _status(self) -> str:
        """The text of the bottom bar about records being sent; called in the editor's thread."""
        if not self.pending:
            return ""
        waited = time.monotonic() - self._waiting_since
        text = f"sending {self.pending}"
        return f"{text} for {waited:.0f} s: is the broker up?" if waited > _LATE_S else text

    async def run(self) -> None:
        """Read records until the end of the input."""
        while True:
            kept, self._kept = self._kept, ""
            text = await self.screen.ask(kept)
            if text is None:
                self.interrupted = self.screen.interrupted
                return
            if not self.pending:
                self._waiting_since = time.monotonic()
            records = read(self._plan, text).records
            if not records:
                self._kept = text.text
            for record in records[: self._left]:
                self.pending += 1
                await self._wanted.send((text.text, record))
            if self._left is not None:
                self._left -= min(self._left, len(records))
                if not self._left:
                    return
            with trio.move_on_after(_NEXT_RECORD_AFTER_S):
                await self.wait_for_none()

    async def wait_for_none(self) -> None:
        """Wait until every record has been acknowledged or has failed."""
        while self.pending:
            await self._settled.wait()

    async def send_all(self) -> None:
        """Send the entered records in order."""
        async for text, record in self._to_send:
            if self._pace is not None:
                await self._pace.due(1)
            started = time.perf_counter()
            try:
                delivery = await self._producer.send(
                    record.topic or "",
                    record.value,
                    key=record.key,
                    headers=record.headers,
                    partition=record.partition,
                    timestamp_ms=record.timestamp,
                )
            except (KafkaError, ClientError) as e:
                self._lost(text, e)
                continue
            await self._sent.send((text, delivery, started))
            if self._in_step:
                with suppress(KafkaError, ClientError):  # follow_all reports it
                    await delivery.wait()

    async def follow_all(self) -> None:
        """Print the result of each sent record, in order."""
        async for text, delivery, started in self._to_follow:
            try:
                metadata = await delivery.wait()
            except (KafkaError, ClientError) as e:
                self._lost(text, e)
            else:
                self._acknowledged(metadata, started)

    def _acknowledged(self, metadata: RecordMetadata, started: float) -> None:
        self.written += 1
        took_ms = (time.perf_counter() - started) * 1000
        offset = metadata.offset if metadata.offset >= 0 else "?"
        about = "" if self._plan.topic else f"{metadata.topic} "
        self.screen.say(f"{about}p{metadata.partition}@{offset}  {took_ms:.1f} ms", good=True)
        self._count_settled()

    def _lost(self, text: str, error: Exception) -> None:
        self.failed += 1
        self.screen.say(f"Not written: {sentence(error)}", good=False)
        self.screen.put_back(text)
        self._count_settled()

    def _count_settled(self) -> None:
        self.pending -= 1
        self._settled.set()
        self._settled = trio.Event()


class Screen:
    """The terminal: asks for a text in a thread, and can print above it at the same time."""

    def __init__(self, context: Context, plan: Plan, status: Callable[[], str]) -> None:
        from prompt_toolkit.input import create_input
        from prompt_toolkit.output import create_output

        self.interrupted = False
        self._context = context
        self._plan = plan
        self._status = status
        self._input = create_input()
        self._output = create_output(stdout=context.streams.err)
        self._color = context.streams.err_color
        self._session: Any = None
        self._typed = Typed("")
        self._insisted = False
        self._pasted = False
        self._thread = AppThread()
        self._to_put_back = ""

    # The methods below are called in trio's loop.

    @contextmanager
    def held(self) -> Generator[None]:
        """Keep the terminal in raw mode between two texts, so that keys pressed meanwhile go to the
        next text."""
        with self._input.raw_mode():
            yield

    async def ask(self, text: str) -> Typed | None:
        """Read a text for records; None at the end of the input. If this is cancelled, it restores
        the terminal."""
        return await self._thread.run(lambda: self._prompt(text))

    def say(self, text: str, *, good: bool) -> None:
        """Print a line, above the text being typed if there is one."""
        from prompt_toolkit.formatted_text import FormattedText
        from prompt_toolkit.shortcuts import print_formatted_text

        style = ("ansigreen" if good else "ansired") if self._color else ""
        width = max(20, self._output.get_size().columns - 1)
        shown = textwrap.fill(text, width, initial_indent="  ", subsequent_indent="  ")

        def write() -> None:
            print_formatted_text(FormattedText([(style, shown)]), output=self._output)

        def above(_: object) -> None:
            from prompt_toolkit.application import run_in_terminal

            run_in_terminal(write)

        if not self._thread.call(above):
            write()

    def put_back(self, text: str) -> None:
        """Return a text that failed to the editor, unless the user is typing another. If no editor
        is open, or one is just opening, the text goes to the next editor."""
        self._to_put_back = text
        self._thread.call(lambda _: self._take_back())

    # The methods below are called in the editor's thread.

    def _take_back(self) -> None:
        text, buffer = self._to_put_back, self._session.default_buffer
        if not text or self._session.app.is_done:
            return
        self._to_put_back = ""
        if not buffer.text:
            buffer.text = text
            buffer.cursor_position = len(text)

    def _prompt(self, text: str) -> Typed | None:
        if self._session is None:
            self._session = self._open()
            self._thread.app = self._session.app
        self._insisted = self._pasted = False
        try:
            found = self._session.prompt(default=text, handle_sigint=False, pre_run=self._begin)
        except EOFError:
            return None
        except KeyboardInterrupt:
            self.interrupted = True
            return None
        return Typed(found, self._pasted, self._insisted)

    def _begin(self) -> None:
        self._thread.begin()
        self._take_back()

    def _now(self) -> Typed:
        return Typed(self._session.default_buffer.text, self._pasted, self._insisted)

    def _open(self) -> Any:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.layout.processors import (
            HighlightMatchingBracketProcessor,
            TabsProcessor,
        )
        from prompt_toolkit.styles import Style

        name = self._plan.topic or "record"
        plain = Style.from_dict({"bottom-toolbar": "noreverse", "fault": ""})
        lit = Style.from_dict(
            {"bottom-toolbar": "noreverse ansibrightblack", "fault": "bg:ansired"}
        )
        session: PromptSession[str] = PromptSession(
            message=[("bold" if self._color else "", f"{_short(name)}> ")],
            multiline=True,
            prompt_continuation=lambda width, line, wrapped: " " * (width - 2) + "| ",
            history=_history(self._plan.topic),
            key_bindings=self._keys(),
            bottom_toolbar=self._toolbar,
            refresh_interval=0.5,
            lexer=_fault_lexer(lambda: read(self._plan, self._now()).position),
            input_processors=[
                TabsProcessor(tabstop=4, char1=">", char2=" "),
                *([HighlightMatchingBracketProcessor()] if self._color else []),
            ],
            style=lit if self._color else plain,
            include_default_pygments_style=False,
            enable_suspend=True,
            tempfile_suffix=".json" if self._plan.reads_json else ".txt",
            input=self._input,
            output=self._output,
        )
        session.default_buffer.on_text_changed += self._changed
        return session

    def _changed(self, buffer: Any) -> None:
        self._insisted = False
        if "\n" not in buffer.text:
            self._pasted = False

    def _toolbar(self) -> str:
        found = read(self._plan, self._now())
        parts = [part for part in (self._status(), found.note) if part]
        if not parts:
            keys = "Enter sends · Alt-Enter new line · ↑ earlier · Ctrl-D ends"
            shape = self._plan.reading.shape
            parts.append(keys if shape == "value" else f"{shape} · {keys}")
        width = self._output.get_size().columns
        return " · ".join(parts)[: max(1, width - 1)]

    def _keys(self) -> Any:
        from prompt_toolkit.key_binding import KeyBindings

        keys = KeyBindings()

        @keys.add("enter")
        def _(event: Any) -> None:
            buffer = event.current_buffer
            found = read(self._plan, self._now())
            if found.records:
                buffer.validate_and_handle()
            elif found.more:
                buffer.newline(copy_margin=True)
            else:
                self._insisted = True
                if found.position is not None:
                    buffer.cursor_position = min(found.position, len(buffer.text))

        @keys.add("escape", "enter")
        def _(event: Any) -> None:
            self._pasted = False
            event.current_buffer.newline(copy_margin=False)

        @keys.add("tab")
        def _(event: Any) -> None:
            event.current_buffer.insert_text("\t")

        @keys.add("<bracketed-paste>")
        def _(event: Any) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            event.current_buffer.insert_text(text.removesuffix("\n"))
            self._pasted = "\n" in event.current_buffer.text

        @keys.add("c-x", "c-e")
        def _(event: Any) -> None:
            event.current_buffer.open_in_editor(validate_and_handle=False)

        @keys.add("c-c")
        def _(event: Any) -> None:
            if event.current_buffer.text:
                event.current_buffer.reset()
            else:
                event.app.exit(exception=KeyboardInterrupt)

        return keys


def _short(name: str) -> str:
    return name if len(name) <= 30 else f"{name[:29]}…"


def _fault_lexer(position: Callable[[], int | None]) -> Any:
    """A lexer that highlights the character at which the mistake is."""
    from prompt_toolkit.lexers import Lexer

    class FaultLexer(Lexer):
        def lex_document(self, document: Any) -> Callable[[int], Any]:
            at = position()
            row, column = (-1, -1) if at is None else document.translate_index_to_position(at)

            def line(number: int) -> Any:
                text = document.lines[number] if number < len(document.lines) else ""
                if number != row or column >= len(text):
                    return [("", text)]
                return [
                    ("", text[:column]),
                    ("class:fault", text[column]),
                    ("", text[column + 1 :]),
                ]

            return line

        def invalidation_hash(self) -> object:
            return position()

    return FaultLexer()


def _history(topic: str | None) -> Any:
    """The history of the texts for a topic, in a file that only the user can read. The file is
    truncated when it has become large."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    if topic is None or _TOPIC.fullmatch(topic) is None:
        return InMemoryHistory()
    try:
        directory = os.path.join(make_user_dir("state"), "produced")
        os.makedirs(directory, mode=0o700, exist_ok=True)
        path = os.path.join(directory, f"{topic}.history")
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        if os.path.getsize(path) > _HISTORY_BYTES:
            _cut(path)
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)


def _cut(path: str) -> None:
    """Keep the later half of a history. Each entry begins with an empty line and a time after
    `#`."""
    with open(path, "r+b") as file:
        data = file.read()
        start = data.find(b"\n# ", len(data) // 2)
        file.seek(0)
        file.write(data[start:] if start >= 0 else b"")
        file.truncate()
