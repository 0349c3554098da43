"""The mark beside a rollback file that says that its throttle may still be set, so that the check
only lists one directory."""

import os
from contextlib import suppress

from pk.cli.runtime.paths import user_dir

MARK = ".throttled"


def marked() -> bool:
    """Whether a throttle that was set from this machine may still be set."""
    with suppress(OSError):
        names = os.listdir(os.path.join(user_dir("state"), "reassign"))
        return any(name.endswith(MARK) for name in names)
    return False
