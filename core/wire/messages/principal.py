"""The principal inside an Envelope request (KIP-590). It begins with an int16, its version."""

from pk.core.wire.schema import Message, message


@message(versions=(0, 0), flexible=0)
class DefaultPrincipalData(Message):
    """The sender of an enveloped request."""

    type: str = ""
    name: str = ""
    token_authenticated: bool = False
