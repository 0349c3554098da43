"""`pk users`: manages SCRAM users in the cluster's metadata.

A user has one password for each mechanism. Brokers refuse a request that changes two mechanisms of
one user, so each mechanism has its own request.
"""

import sys
from collections.abc import Sequence

from pk.cli.cluster.propagation import until_user
from pk.cli.cluster.topics import whole
from pk.cli.exits import CommandError, Unusable
from pk.cli.nouns.users.options import DeleteUsers, SetPassword
from pk.cli.nouns.users.rows import ChangedUserRow, UserRow
from pk.cli.output.rows import listing
from pk.cli.phrases import count, join
from pk.cli.runtime import undo_log
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import error_name, phrase
from pk.cli.runtime.results import show_results
from pk.cli.runtime.secrets import ask_secret
from pk.cli.terminal.stdin import lines_of
from pk.cli.undo.users import remember_added
from pk.core.auth.scram import ITERATIONS_MIN, Mechanism
from pk.core.errors import ErrorCode, KafkaError
from pk.net.client.admin import Admin
from pk.net.client.admin_operations.users import NewPassword, ScramUser
from pk.net.client.answers import Answers


async def list_users(context: Context, pattern: str | None) -> None:
    """Run `pk users list`."""
    wanted = None if pattern is None else whole(pattern, "PATTERN")
    admin = await context.admin()
    rows: list[UserRow] = []
    answers = await admin.describe_scram_users()
    for user in sorted(answers):
        if wanted is not None and not wanted.fullmatch(user):
            continue
        if user in answers.errors:
            context.failed(answers.errors[user], user)
        for one in answers.ok.get(user, ()):
            name = one.mechanism.sasl_name
            rows.append({"user": user, "mechanism": name, "iterations": one.iterations})
    context.show(listing(UserRow, rows))
    if not answers.ok and not answers.errors:
        context.say_empty("No users; `pk users add USER` adds one.")


async def add(context: Context, options: SetPassword) -> None:
    """Run `pk users add`."""
    if not options.user:
        raise Unusable("USER is empty; it must be the name of a user.")
    admin, mechanism = await context.admin(), Mechanism.named(options.mechanism)
    if _of(await _known(admin, options.user), mechanism) is not None:
        raise CommandError(
            f"{options.user} already has a password for {options.mechanism}; `pk users alter` "
            "changes it."
        )
    context.say(
        f"This adds {options.user} with a password for {options.mechanism}. Anyone who knows it "
        "can log in."
    )
    iterations = options.iterations or ITERATIONS_MIN
    await _set_password(context, admin, options, iterations, "added")


async def alter(context: Context, options: SetPassword) -> None:
    """Run `pk users alter`."""
    admin, mechanism = await context.admin(), Mechanism.named(options.mechanism)
    known = _of(await _known(admin, options.user), mechanism)
    if known is None:
        raise CommandError(
            f"{options.user} has no password for {options.mechanism}; `pk users add` adds one."
        )
    context.say(
        f"This replaces the password of {options.user} for {options.mechanism}; new logins need "
        "the new one. This cannot be undone."
    )
    iterations = options.iterations or known.iterations
    await _set_password(context, admin, options, iterations, "altered")


async def _set_password(
    context: Context, admin: Admin, options: SetPassword, iterations: int, done: str
) -> None:
    mechanism = Mechanism.named(options.mechanism)
    if context.change.dry_run:
        context.show(listing(ChangedUserRow, [_row(options, iterations, f"would be {done}")]))
        return
    verb = "Add" if done == "added" else "Alter"
    await context.agree(f"{verb} on {context.settings.cluster_name}?", name=options.user)
    change = NewPassword(options.user, mechanism, _password(options.user), iterations)
    kept = None
    if done == "added":
        kept = await remember_added(context, admin, options.user, mechanism)
    error = (await admin.set_passwords([change])).errors.get(options.user)
    if error is None:
        await until_user(admin, options.user, mechanism, iterations)
    row = _row(options, iterations, done)
    if error is not None:
        context.fail(error)
        row["result"], row["error"] = phrase(error), error_name(error)
        if kept is not None:
            undo_log.forget(kept)
    show_results(context, listing(ChangedUserRow, [row]), [(options.user, error)], "user")
    if error is None and kept is not None:
        context.say(undo_log.how_to_undo(kept))


def _row(options: SetPassword, iterations: int, result: str) -> ChangedUserRow:
    return {
        "user": options.user,
        "mechanism": options.mechanism,
        "iterations": iterations,
        "result": result,
        "error": None,
    }


def _password(user: str) -> str:
    """Read the password, from a prompt or the first line of standard input. Raises Unusable if it
    is empty or not UTF-8."""
    if sys.stdin.isatty():
        password = ask_secret(f"Password of {user}: ")
        if password != ask_secret("Again: "):
            raise Unusable("The two passwords differ; nothing was changed.")
    else:
        line = next(lines_of(sys.stdin.buffer), b"")
        try:
            password = line.rstrip(b"\r\n").decode()
        except UnicodeDecodeError:
            raise Unusable("The password on standard input is not UTF-8 text.") from None
    if not password:
        raise Unusable(
            "The password is empty; type it, or give it as the first line of standard input."
        )
    return password


async def delete(context: Context, options: DeleteUsers) -> None:
    """Run `pk users delete`."""
    admin = await context.admin()
    users = list(dict.fromkeys(options.user))
    todo: dict[Mechanism, list[str]] = {}
    rows: list[ChangedUserRow] = []
    for user in users:
        having = await _known(admin, user)
        if options.mechanism is not None:
            having = [one for one in having if one.mechanism.sasl_name == options.mechanism]
        if not having:
            mechanism = options.mechanism or "SCRAM"
            missing = f"{user!r} has no password for {mechanism}; `pk users list` lists users."
            context.failed(CommandError(missing), user)
        for one in having:
            todo.setdefault(one.mechanism, []).append(user)
    if todo:
        names = list(dict.fromkeys(user for named in todo.values() for user in named))
        number = sum(map(len, todo.values()))
        it = "it" if number == 1 else "them"
        context.say(
            f"This deletes {count(number, 'password')} of {join(names)}. Logging in with {it} then "
            "fails. This cannot be undone."
        )
        if not context.change.dry_run:
            only = names[0] if len(names) == 1 else None
            await context.agree(f"Delete on {context.settings.cluster_name}?", name=only)
    for mechanism, named in sorted(todo.items()):
        rows += await _delete(context, admin, mechanism, named)
    context.show(listing(ChangedUserRow, rows))


async def _delete(
    context: Context, admin: Admin, mechanism: Mechanism, users: Sequence[str]
) -> list[ChangedUserRow]:
    dry_run = context.change.dry_run
    answers = Answers[str, None]() if dry_run else await admin.delete_scram_users(mechanism, users)
    for user in answers.ok:
        await until_user(admin, user, mechanism, None)
    rows: list[ChangedUserRow] = []
    for user in users:
        row: ChangedUserRow = {
            "user": user,
            "mechanism": mechanism.sasl_name,
            "iterations": None,
            "result": "would be deleted" if dry_run else "deleted",
            "error": None,
        }
        error = answers.errors.get(user)
        if error is not None:
            context.fail(error)
            row["result"], row["error"] = phrase(error), error_name(error)
        rows.append(row)
    return rows


async def _known(admin: Admin, user: str) -> list[ScramUser]:
    """The credentials of a user; empty if the user does not exist."""
    answers = await admin.describe_scram_users([user])
    error = answers.errors.get(user)
    if isinstance(error, KafkaError) and error.code == ErrorCode.RESOURCE_NOT_FOUND:
        return []
    return list(answers.value(user))


def _of(having: Sequence[ScramUser], mechanism: Mechanism) -> ScramUser | None:
    return next((one for one in having if one.mechanism == mechanism), None)
