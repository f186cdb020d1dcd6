"""Alerts arrive: by signed webhooks and by mail, once, again while they last, and when they end."""

import base64
import hashlib
import hmac
from email import message_from_bytes, policy
from email.message import EmailMessage
from types import SimpleNamespace

import pytest
from aiosmtpd.controller import Controller
from apprise import NotifyBase

from tests.server.process import free_port
from tests.watch.lookout import HOUR, MINUTE, looking_out
from tests.watch.receiver import Receiver, receiving
from windlass import BadInput, Status
from windlass.clock import SECOND
from windlass.core.task.declare import How
from windlass.errors import Undelivered
from windlass.ledger import Ledger
from windlass.value.task import Call
from windlass.view.action import Operator
from windlass.watch.engine.deliver import DELIVER, RETRIES, trial_message
from windlass.watch.operate import alert as operate
from windlass.watch.operate.audit import AuditLog

SECRET = "whsec_" + base64.b64encode(b"a secret of thirty-two bytes ...").decode()


@pytest.fixture
def receiver():
    with receiving(Receiver()) as made:
        yield made


@pytest.fixture(autouse=True)
def quick_mail(monkeypatch):
    """Apprise would wait 5.5 s between two messages."""
    monkeypatch.setattr(NotifyBase, "request_rate_per_sec", 0)


@pytest.fixture
def lookout(database_url):
    with looking_out(database_url) as made:

        @made.app.task
        def send_mail(to: str) -> None:
            raise ConnectionError(f"{to} refused")

        @made.app.task
        def resize(name: str) -> None:
            raise OSError("no space")

        made.look()
        yield made


def fail(lookout, *names: str) -> None:
    for name in names:
        lookout.app.submit(lookout.app.registry.get(name), [Call(("a",), {}, None)], How())
    lookout.app.drain()


def deliver(lookout, *, after: int = 15 * SECOND) -> None:
    lookout.look(after=after)
    lookout.app.drain()


def deliveries(lookout) -> list[Status]:
    rows = lookout.app.database.engine.connect()
    with rows as connection:
        found = connection.exec_driver_sql(
            f"select status from windlass_task where kind = '{DELIVER}' order by id"
        )
        return [Status(row[0]) for row in found]


def test_a_failure_arrives_as_signed_json_and_so_does_its_end(lookout, receiver):
    lookout.app.alert_to(f"webhook+{receiver.url}?secret={SECRET}")
    fail(lookout, "send_mail")
    deliver(lookout)
    deliver(lookout, after=11 * MINUTE)

    assert receiver.titles == [
        "[warning] task failed of send_mail",
        "[resolved] task failed of send_mail",
    ]
    first = receiver.bodies[0]
    assert first["type"] == "alert.raised"
    assert first["data"]["alerts"][0]["times"] == 1
    assert "ConnectionError: a refused" in first["data"]["text"]
    headers = {name.lower(): value for name, value in receiver.headers[0].items()}
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + receiver.raw[0]
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    ids = [each["webhook-id"] for each in receiver.headers]
    assert len(set(ids)) == 2


def test_what_happens_together_is_one_message(lookout, receiver):
    lookout.app.alert_to(f"webhook+{receiver.url}")
    fail(lookout, *["send_mail"] * 5, "resize")

    deliver(lookout)

    (text,) = receiver.texts
    assert receiver.titles == ["[warning] 2 alerts"]
    assert "5 tasks of 'send_mail' failed for good" in text
    assert "a task of 'resize' failed for good" in text


def test_an_open_alert_is_told_again_and_an_acknowledged_one_is_not(lookout, receiver):
    @lookout.app.task
    def lonely() -> None: ...

    lookout.app.alert_to(f"webhook+{receiver.url}", every="10m")
    lonely.enqueue()
    outside(lookout, after=MINUTE)
    outside(lookout, after=9 * MINUTE)
    assert receiver.titles == ["[critical] no worker of lonely"]
    outside(lookout, after=2 * MINUTE)
    assert [text.startswith("still: ") for text in receiver.texts] == [False, True]

    acknowledge(lookout, lookout.one("no worker").id)
    outside(lookout, after=HOUR)

    assert len(receiver.texts) == 2


def outside(lookout, *, after: int) -> None:
    """Watch from outside: no worker is there, so it delivers by itself."""
    lookout.clock.advance(after)
    lookout.app.outside_watcher().tick()


def acknowledge(lookout, number: int) -> None:
    log = AuditLog(lookout.app.fleet, Operator("ann", "test"))
    operate.acknowledge(lookout.app.fleet, log, number, quiet=None)


def test_a_channel_gets_only_what_it_asked_for(lookout, receiver):
    lookout.app.alert_to(f"webhook+{receiver.url}", severity="critical", name="pager")
    lookout.app.alert_to(f"webhook+{receiver.url}", kinds=["resize"], name="images")
    fail(lookout, "send_mail", "resize")

    deliver(lookout)

    assert receiver.titles == ["[warning] task failed of resize"]


def test_quiet_hours_hold_back_all_but_critical_alerts(lookout, receiver):
    # The manual clock begins at midnight.
    lookout.app.alert_to(f"webhook+{receiver.url}", quiet="00:00-07:00", every=None)
    lookout.app.alert_on("task failed", kinds=["resize"], severity="critical")
    lookout.app.alert_on("task failed", kinds=["send_mail"], severity="warning")
    fail(lookout, "send_mail", "resize")
    deliver(lookout)
    assert receiver.titles == ["[critical] task failed of resize"]

    fail(lookout, "send_mail")
    lookout.clock.advance(7 * HOUR - 5 * MINUTE)
    fail(lookout, "send_mail")
    deliver(lookout)
    deliver(lookout, after=5 * MINUTE)

    assert "[warning] task failed of send_mail" in receiver.titles


def test_a_receiver_that_is_away_gets_it_later(lookout, receiver):
    lookout.app.alert_to(f"webhook+{receiver.url}", every=None)
    receiver.status = 503
    fail(lookout, "send_mail")
    deliver(lookout)
    assert (receiver.titles, deliveries(lookout)) == ([], [Status.WAITING])

    receiver.status = 200
    lookout.clock.advance(MINUTE)
    lookout.app.drain()

    assert receiver.titles == ["[warning] task failed of send_mail"]
    assert deliveries(lookout) == [Status.SUCCEEDED]


def test_a_redirect_is_not_followed(lookout, receiver):
    lookout.app.alert_to(f"webhook+{receiver.url}", every=None)
    receiver.status = 307
    fail(lookout, "send_mail")

    deliver(lookout)

    assert deliveries(lookout) == [Status.WAITING]


def test_after_the_last_try_the_fallback_gets_it(lookout, receiver):
    lookout.app.alert_to(f"webhook+{receiver.url}", name="second", kinds=[], every=None)
    lookout.app.alert_to(
        "webhook+http://127.0.0.1:1/gone", name="first", fallback="second", every=None
    )
    fail(lookout, "send_mail")
    deliver(lookout)
    for _ in range(RETRIES):
        lookout.clock.advance(HOUR)
        lookout.app.drain()

    assert receiver.titles == ["[warning] task failed of send_mail"]
    assert sorted(deliveries(lookout)) == [Status.SUCCEEDED, Status.FAILED]


def test_an_alert_shows_its_deliveries(lookout, receiver):
    lookout.app.alert_to(f"webhook+{receiver.url}", name="ops")
    fail(lookout, "send_mail")
    deliver(lookout)

    shown = operate.show(lookout.app.fleet, lookout.one("task failed").id)

    (delivery,) = shown.deliveries
    assert (delivery.channel, delivery.stage) == ("ops", "raised")
    assert (delivery.status, delivery.attempts) == ("succeeded", 1)


def test_what_came_and_went_in_quiet_hours_is_told_after_them(lookout, receiver):
    noon = 12 * HOUR - lookout.clock.now() % (24 * HOUR)
    lookout.clock.advance(noon + 24 * HOUR)
    lookout.app.alert_to(f"webhook+{receiver.url}", quiet="11:00-15:00")
    lookout.look()
    fail(lookout, "send_mail")
    deliver(lookout)
    deliver(lookout, after=HOUR)
    assert lookout.open() == []
    assert receiver.titles == []

    deliver(lookout, after=2 * HOUR)
    deliver(lookout)

    assert receiver.titles == ["[warning] task failed of send_mail"]
    assert "ConnectionError: a refused" in receiver.texts[0]
    assert "resolved after 1h" in receiver.texts[0]


def test_what_was_resolved_before_a_channel_was_declared_is_not_told(lookout, receiver):
    fail(lookout, "send_mail")
    deliver(lookout)
    deliver(lookout, after=HOUR)

    lookout.app.alert_to(f"webhook+{receiver.url}")
    deliver(lookout)

    assert receiver.titles == []


class MailSink:
    """A mail server that keeps what arrives, and answers as it is told."""

    def __init__(self) -> None:
        self.port = free_port()
        self.answer = "250 taken"
        self.arrived: list[EmailMessage] = []

    def __enter__(self):
        handler = SimpleNamespace(handle_DATA=self._take)
        self._server = Controller(handler, hostname="127.0.0.1", port=self.port)
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    async def _take(self, _server, _session, envelope) -> str:
        if self.answer.startswith("250"):
            self.arrived.append(message_from_bytes(envelope.content, policy=policy.default))
        return self.answer

    @property
    def url(self) -> str:
        who = "from=windlass@example.com&to=ops@example.com&mode=insecure"
        return f"mailto://127.0.0.1:{self.port}?{who}"


def test_mail_arrives_through_apprise(lookout):
    with MailSink() as sink:
        lookout.app.alert_to(sink.url, every=None)
        fail(lookout, "send_mail")
        deliver(lookout)

    (mail,) = sink.arrived
    assert mail["Subject"] == "[warning] task failed of send_mail"
    assert "ConnectionError: a refused" in mail.get_body(("plain", "html")).get_content()


def test_a_mail_server_that_is_down_or_refuses_gets_it_later(lookout):
    sink = MailSink()
    lookout.app.alert_to(sink.url, every=None)
    fail(lookout, "send_mail")
    deliver(lookout)
    assert deliveries(lookout) == [Status.WAITING]

    with sink:
        sink.answer = "451 try again later"
        lookout.clock.advance(MINUTE)
        lookout.app.drain()
        assert (sink.arrived, deliveries(lookout)) == ([], [Status.WAITING])
        sink.answer = "250 taken"
        lookout.clock.advance(HOUR)
        lookout.app.drain()

    assert [mail["Subject"] for mail in sink.arrived] == ["[warning] task failed of send_mail"]
    assert deliveries(lookout) == [Status.SUCCEEDED]


@pytest.mark.parametrize(
    ("url", "more", "told"),
    [
        ("no url", {}, "what was given is not a URL"),
        ("webhook+ftp://hunter2@host/x", {}, "this one is not valid"),
        ("webhook+https://user:hunter2@host/x", {}, "has no user and password"),
        ("webhook+https://host/?secret=hunter2", {}, "at least 16 bytes"),
        ("webhook+https://host:99999/hunter2", {}, "this one is not valid"),
        ("martian://hunter2", {}, "Apprise does not understand this martian:// URL"),
        ("mailto://a:hunter2@host", {"secret": "x" * 20}, "secret= belongs to webhook"),
        ("webhook+https://host/hunter2", {"severity": "loud"}, "severity='loud' is not known"),
        ("webhook+https://host/hunter2", {"fallback": "nobody"}, "'nobody' is not a channel"),
        ("webhook+https://host/hunter2", {"name": "a b"}, "channel name 'a b' is not valid"),
    ],
)
def test_a_bad_channel_is_refused_without_showing_its_secrets(url, more, told):
    with looking_out("sqlite://") as lookout, pytest.raises(BadInput, match=told) as caught:
        lookout.app.alert_to(url, **more)
    assert "hunter2" not in str(caught.value)


def test_no_secret_is_in_an_error_of_delivery(receiver):
    with looking_out("sqlite://") as lookout:
        lookout.app.alert_to(f"webhook+http://127.0.0.1:1/hunter2?secret={SECRET}")
        (channel,) = lookout.app.channels.values()
        with pytest.raises(Undelivered) as caught:
            channel.sender.send(trial_message(channel))

    assert "hunter2" not in str(caught.value)
    assert SECRET not in str(caught.value)


def test_channels_come_from_the_environment_too(monkeypatch):
    monkeypatch.setenv("WINDLASS_ALERTS", "webhook+https://a/x webhook+https://b/y")
    with looking_out("sqlite://") as lookout:
        assert list(lookout.app.channels) == ["webhook", "webhook.2"]


def test_an_alert_that_others_raised_is_delivered_as_this_app_judges_it(lookout, receiver):
    ledger = Ledger(lookout.app.database)
    ledger.restock("delivery-1", {"bolt": 10})
    lookout.app.database.write(
        lambda connection: connection.exec_driver_sql(
            "update windlass_stock set available = 3, received = 3 where sku = 'bolt'"
        )
    )
    assert not ledger.audit().ok
    lookout.app.alert_to(f"webhook+{receiver.url}", every=None)

    lookout.app.alert_on("ledger", severity="off")
    deliver(lookout)
    assert receiver.titles == []
    lookout.app.alert_on("ledger", severity="warning")
    assert not ledger.audit().ok
    deliver(lookout)
    assert receiver.titles == ["[warning] ledger"]
