"""Every API this broker serves, in key order."""

from typing import Final

from pk.core.api import (
    api_versions,
    delete_records,
    describe_log_dirs,
    describe_producers,
    fetch,
    init_producer_id,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)
from pk.core.api.registry import Api

APIS: Final[tuple[Api, ...]] = (
    produce.API,
    fetch.API,
    list_offsets.API,
    api_versions.API,
    delete_records.API,
    init_producer_id.API,
    offset_for_leader_epoch.API,
    describe_log_dirs.API,
    describe_producers.API,
)
