"""The inbox of the demo: real webhooks over HTTP, kept once if their signature is right."""

import base64

import pytest

from windlass.core.alert.model import Severity
from windlass.demo.service import Service
from windlass.errors import Undelivered
from windlass.watch.channel.base import Message
from windlass.watch.channel.webhook import Webhook

MESSAGE = Message(
    "alert-7",
    "[warning] breaker of offer",
    "breaker of 'offer' opened",
    Severity.WARNING,
    False,
    {"alerts": [{"severity": "info"}, {"severity": "warning"}]},
)


def test_an_alert_that_comes_twice_is_kept_once():
    with Service() as service:
        webhook = Webhook.at(f"{service.url}/inbox", secret=service.inbox.secret)

        webhook.send(MESSAGE)
        webhook.send(MESSAGE)

        (letter,) = service.inbox.letters()
    assert (letter.id, letter.title, letter.severity) == ("alert-7", MESSAGE.title, "warning")


def test_a_wrong_signature_is_refused():
    wrong = f"whsec_{base64.b64encode(b'another secret of 32 bytes length').decode()}"
    with Service() as service:
        webhook = Webhook.at(f"{service.url}/inbox", secret=wrong)

        with pytest.raises(Undelivered, match="401"):
            webhook.send(MESSAGE)

        assert service.inbox.letters() == []
