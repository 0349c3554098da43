"""The table of api keys agrees with the messages."""

import pytest
from wire.values import all_messages

from pk.core.wire.index import MESSAGES
from pk.core.wire.schema import Request, Response, message


def test_every_api_names_its_messages() -> None:
    for key, api in MESSAGES.items():
        assert api.key == key
        assert (api.request.__name__, api.response.__name__) == (
            f"{api.name}Request",
            f"{api.name}Response",
        )
        assert api.request.API_KEY == api.response.API_KEY == key
        assert api.request.VERSIONS == api.response.VERSIONS


def test_every_request_and_response_is_in_the_table() -> None:
    declared = {cls for cls in all_messages() if issubclass(cls, Request | Response)}
    assert declared == {cls for api in MESSAGES.values() for cls in (api.request, api.response)}
    assert list(MESSAGES) == sorted(MESSAGES)


def test_a_request_without_a_row_is_refused() -> None:
    with pytest.raises(KeyError, match="New"):

        @message(versions=(0, 0))
        class NewRequest(Request[Response]):  # pyright: ignore[reportUnusedClass]
            name: str = ""


def test_versions_that_are_not_stable_are_not_served() -> None:
    assert MESSAGES[22].versions == (0, 5)
    assert MESSAGES[22].request.VERSIONS == (0, 6)


def test_what_apache_serves() -> None:
    """The versions are those that kafka-broker-api-versions shows for a 4.3.1 broker."""
    assert MESSAGES[0].versions == (3, 13)
    assert MESSAGES[1].versions == (4, 18)
    assert MESSAGES[18].versions == (0, 4)
    assert not {4, 5, 6, 7} & set(MESSAGES)
    assert MESSAGES[3].is_flexible(9) and not MESSAGES[3].is_flexible(8)
    assert not MESSAGES[17].is_flexible(1)
