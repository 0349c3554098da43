"""CRC-32C (Castagnoli), by the extension module of the crc32c package.

When the package is imported, it reads its own version through importlib.metadata, which imports
`email` and twenty more modules. That takes a twentieth of a broker's start. So its extension
module, if it exists, is imported without the package.
"""

import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_PACKAGE, _EXTENSION = "crc32c", "crc32c._crc32c"


def _load() -> Callable[..., int]:
    package = PathFinder.find_spec(_PACKAGE)
    if _PACKAGE not in sys.modules and package is not None:
        found = PathFinder.find_spec(_EXTENSION, package.submodule_search_locations)
        if found is not None and found.loader is not None:
            module = module_from_spec(found)
            found.loader.exec_module(module)
            return module.crc32c
    from crc32c import crc32c

    return crc32c


crc32c: Callable[..., int] = _load()
"""Compute the CRC of bytes. The second argument, 0 by default, is the CRC of the bytes before
them."""
