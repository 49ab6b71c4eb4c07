"""SaslHandshake: by which mechanism a client wants to say who it is."""

from headrace.protocol.schema import INT16, STRING, ApiMessages, Array, F

API = ApiMessages(
    key=17,
    name="SaslHandshake",
    versions=(0, 1),
    flexible_since=2,  # None yet: clients before 2.5 would mistake it.
    request=(F("mechanism", STRING),),
    response=(
        F("error_code", INT16),
        F("mechanisms", Array(STRING)),
    ),
)
