"""Undoes added users: deletes them. Other changes to users cannot be undone, since passwords cannot
be read back."""

from pk.cli.cluster.propagation import until_user
from pk.cli.output.rows import listing
from pk.cli.runtime import undo_log as store
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import error_name, phrase, sentence
from pk.cli.undo.rows import UserUndoRow
from pk.core.auth.scram import Mechanism
from pk.net.client.admin import Admin

KIND = "users"
ROW = UserUndoRow
"""The row types that undoing such a change shows."""


async def remember_added(
    context: Context, admin: Admin, user: str, mechanism: Mechanism
) -> str | None:
    """Record how to undo that a user is added. Returns the id for `how_to_undo`."""
    name = mechanism.sasl_name
    return await store.remember(
        context, admin, KIND, f"user {user} added ({name})", {"user": user, "mechanism": name}
    )


async def undo(context: Context, change: store.Change, *, anyway: bool) -> bool:
    """Show the users to delete, ask for confirmation, and delete them. Returns True once that is
    done."""
    user, mechanism = change.inverse["user"], Mechanism.named(change.inverse["mechanism"])
    admin = await context.admin()
    known = (await admin.describe_scram_users([user])).ok.get(user, ())
    there = any(one.mechanism == mechanism for one in known)
    row: UserUndoRow = {
        "user": user,
        "mechanism": mechanism.sasl_name,
        "result": "would be deleted" if there else "not there",
        "error": None,
    }
    if there and not context.change.dry_run:
        context.say(f"This deletes the password of {user} for {mechanism.sasl_name}.")
        await context.agree(f"Delete on {context.settings.cluster_name}?", name=user)
        error = (await admin.delete_scram_users(mechanism, [user])).errors.get(user)
        if error is None:
            await until_user(admin, user, mechanism, None)
        row["result"] = "deleted" if error is None else phrase(error)
        if error is not None:
            row["error"] = error_name(error)
            context.fail(error)
            context.say(f"{user}: {sentence(error)}")
    context.show(listing(ROW, [row]))
    return not context.change.dry_run and row["error"] is None
