"""Channels: what they are called, how long they may take, and what their errors say."""

import socket
import threading
from contextlib import contextmanager

import pytest

from tests.watch.lookout import looking_out
from tests.watch.receiver import Receiver, receiving
from windlass import BadInput
from windlass.errors import Undelivered
from windlass.watch.channel import base
from windlass.watch.engine.deliver import trial_message


@contextmanager
def trickling():
    """A receiver that answers a byte now and then, and never ends."""
    server = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve() -> None:
        server.settimeout(10)
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while not over.wait(0.01):
                connection.sendall(b"X-More: yes\r\n")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        over.set()
        thread.join()
        server.close()


def test_a_receiver_that_never_ends_its_answer_is_given_up(monkeypatch):
    monkeypatch.setattr(base, "SEND_SECONDS", 0.2)
    with trickling() as port, looking_out("sqlite://") as lookout:
        channel = lookout.app.watching.alert_to(f"webhook+http://127.0.0.1:{port}/hook")

        with pytest.raises(Undelivered, match=r"127.0.0.1 did not answer within 0.2 s"):
            channel.sender.send(trial_message(channel))


@pytest.mark.parametrize("path", ["a b", "ü", "a\x7fb", "hook"])
def test_any_path_is_called_and_never_told(path):
    with receiving(Receiver()) as receiver, looking_out("sqlite://") as lookout:
        address = f"webhook+http://127.0.0.1:{receiver.port}/hunter2/{path}?token=hunter3"
        channel = lookout.app.watching.alert_to(address)
        channel.sender.send(trial_message(channel))
        receiver.status = 500
        with pytest.raises(Undelivered) as caught:
            channel.sender.send(trial_message(channel))

    assert receiver.titles == ["[info] Windlass: test"]
    assert "hunter" not in str(caught.value)


def test_whatever_apprise_raises_is_told_without_its_text(monkeypatch):
    with looking_out("sqlite://") as lookout:
        channel = lookout.app.watching.alert_to(
            "mailto://ada:hunter2@127.0.0.1:1?from=a@example.com&to=b@example.com"
        )

        def fails(**_options: object) -> bool:
            raise ValueError("mailto://ada:hunter2@127.0.0.1")

        monkeypatch.setattr(channel.sender._apprise, "notify", fails)
        with pytest.raises(Undelivered, match="the mailto channel: ValueError") as caught:
            channel.sender.send(trial_message(channel))

    assert "hunter2" not in str(caught.value)


def test_every_test_message_is_a_message_of_its_own():
    with looking_out("sqlite://") as lookout:
        channel = lookout.app.watching.alert_to("webhook+https://a/x")

        assert trial_message(channel).id != trial_message(channel).id


def test_a_channel_without_a_name_takes_no_name_of_another():
    with looking_out("sqlite://") as lookout:
        lookout.app.alert_to("webhook+https://a/x", name="webhook.2")
        lookout.app.alert_to("webhook+https://b/x")
        lookout.app.alert_to("webhook+https://c/x")

        assert list(lookout.app.channels) == ["webhook.2", "webhook", "webhook.3"]


def test_a_limit_that_would_change_nothing_is_refused():
    with (
        looking_out("sqlite://") as lookout,
        pytest.raises(
            BadInput, match="these have one: 'failing', 'workers dying', 'promise at risk'"
        ),
    ):
        lookout.app.alert_on("task failed", limit=5)
