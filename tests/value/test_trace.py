"""The context of a caller in a payload, which only its readers see."""

import pytest

from windlass.errors import BadArgument
from windlass.value.payload import Arguments, trace_of, with_trace, without_trace

CARRIER = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}


@pytest.mark.parametrize(
    "payload", ["{}", '{"to":"ada"}', '{"n":1.50,"big":123456789012345678901}']
)
def test_what_is_carried_comes_back_and_the_arguments_stay_as_written(payload):
    carried = with_trace(payload, CARRIER)

    assert trace_of(carried) == CARRIER
    assert without_trace(carried) == payload


def test_without_a_context_nothing_is_carried():
    assert with_trace('{"to":"ada"}', None) == '{"to":"ada"}'
    assert with_trace('{"to":"ada"}', {}) == '{"to":"ada"}'


@pytest.mark.parametrize(
    "payload",
    [
        "null",
        "[]",
        '{"to":"windlass:trace"}',
        '{"deep":{"windlass:trace":{"traceparent":"x"}}}',
        '{"windlass:trace":7}',
        '{"windlass:trace":{"traceparent":7}}',
        '"windlass:trace"',
        '{"windlass:trace',
    ],
)
def test_what_is_not_a_context_is_not_read_as_one(payload):
    assert trace_of(payload) is None


def test_an_argument_that_looks_like_a_context_stays():
    payload = '{"deep":{"windlass:trace":{"traceparent":"x"}},"to":"windlass:trace"}'

    assert without_trace(payload) == payload
    assert without_trace(with_trace(payload, CARRIER)) == payload
    assert trace_of(with_trace(payload, CARRIER)) == CARRIER


def test_a_handler_gets_its_arguments_only():
    def mail(to: str, /, copy: bool = False) -> None: ...

    arguments = Arguments("mail", mail)
    payload = arguments.encode(("ada",), {}, largest=1_000, trace=CARRIER)

    assert trace_of(payload) == CARRIER
    assert arguments.decode(payload) == (("ada",), {})


def test_the_context_does_not_count_as_arguments():
    def mail(to: str) -> None: ...

    arguments = Arguments("mail", mail)

    assert trace_of(arguments.encode(("ada",), {}, largest=12, trace=CARRIER)) == CARRIER


def test_a_handler_with_any_keywords_never_gets_it():
    def mail(**fields: str) -> None: ...

    arguments = Arguments("mail", mail)

    # A worker of release 0.1.0 would call the handler with it.
    payload = arguments.encode((), {"to": "ada"}, largest=1_000, trace=CARRIER)
    assert payload == '{"to":"ada"}'
    assert arguments.decode(with_trace(payload, CARRIER)) == ((), {"to": "ada"})
    with pytest.raises(BadArgument, match="reserved"):
        arguments.encode((), {"windlass:trace": "x"}, largest=1_000)
