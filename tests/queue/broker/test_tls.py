"""TLS to brokers: a certificate that cannot be checked is never accepted."""

import contextlib

import pytest

import windlass
from tests.fixture.broker import BROKERS, skip_without_broker
from tests.server.certificate import Certificates
from windlass.queue import Queue
from windlass.queue.broker import broker_of
from windlass.queue.model.message import Outgoing


@pytest.fixture(scope="module")
def certificates():
    with contextlib.closing(Certificates()) as made:
        yield made


@pytest.fixture(scope="module", params=BROKERS)
def server(request, pools, certificates):
    skip_without_broker(request.param, pools.missing)
    with BROKERS[request.param](certificates=certificates) as server:
        yield server.start()


def test_messages_go_both_ways_by_tls(server, certificates):
    queue = Queue(server.tls_url(ca=certificates.ca), "secure")

    with broker_of(queue) as broker:
        sent = broker.publish(queue, [Outgoing("m1", b'{"n":1}')])
        subscription = broker.subscribe(queue, prefetch=5)
        (found,) = subscription.take(1, wait_seconds=5)
        subscription.acknowledge([found])

    assert sent.confirmed == {0}
    assert (found.id, found.body) == ("m1", b'{"n":1}')
    assert "ca=" not in repr(queue)


def test_a_certificate_of_an_unknown_ca_is_refused(server):
    queue = Queue(server.tls_url(), "secure")

    with (
        broker_of(queue) as broker,
        pytest.raises(windlass.BrokerRefused, match=r"not trusted.*\?ca=FILE") as refused,
    ):
        broker.depth(queue)

    assert "sesame" not in str(refused.value)


def test_a_certificate_of_another_host_is_refused(server, certificates):
    queue = Queue(server.tls_url("localhost", ca=certificates.ca), "secure")

    with broker_of(queue) as broker, pytest.raises(windlass.BrokerRefused, match="not trusted"):
        broker.depth(queue)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("amqps://broker/?ca=/none/ca.pem", "ca=/none/ca.pem cannot be read"),
        ("rediss://broker/0?cert=/etc/hosts", "cert= needs key= as well"),
        ("amqp://broker/?ca=/etc/hosts", "write amqps://"),
        ("redis://broker/0?ca=/etc/hosts", "write rediss://"),
    ],
)
def test_files_that_cannot_be_used_are_named(url, said):
    with pytest.raises(windlass.BadQueue, match=said):
        broker_of(Queue(url, "secure"))
