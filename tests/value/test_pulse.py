"""The counts that a child process tells its supervisor."""

import msgspec
import pytest

from windlass.value.metric import Pulse


def test_a_list_that_a_handler_prints_is_not_taken_for_a_pulse():
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(b"[3, 1, 4, 1, 5]", type=Pulse)


def test_a_pulse_comes_back_as_it_was_told():
    pulse = Pulse(running=1, queued=2, done=3, failed=4, abandoned=5)

    assert msgspec.json.decode(msgspec.json.encode(pulse), type=Pulse) == pulse
