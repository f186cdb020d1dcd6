"""Who is alive: URLs, and what may be believed after an outage."""

import builtins
import sys

import pytest

from windlass import BadInput, BadMembers
from windlass.core.ring.member import connect, parse
from windlass.core.ring.member.address import Tls, with_environment
from windlass.core.ring.member.base import LiveWorkers, Seat, workers_in


@pytest.mark.parametrize(
    ("url", "kind", "hosts", "root"),
    [
        ("etcd://127.0.0.1:2379", "etcd", [("127.0.0.1", 2379)], ""),
        ("etcd://a:1,b:2,c.example:3/", "etcd", [("a", 1), ("b", 2), ("c.example", 3)], ""),
        ("etcd://a,[::1]:7", "etcd", [("a", 2379), ("[::1]", 7)], ""),
        ("zookeeper://a", "zookeeper", [("a", 2181)], ""),
        ("ZooKeeper://a:1,b:2/some/team/", "zookeeper", [("a", 1), ("b", 2)], "/some/team"),
    ],
)
def test_a_url_has_hosts_with_ports_and_for_zookeeper_a_root(url, kind, hosts, root):
    address = parse(url)

    assert (address.kind, list(address.hosts), address.root) == (kind, hosts, root)


@pytest.mark.parametrize(
    ("url", "wrong"),
    [
        ("", "it is not a URL"),
        ("127.0.0.1:2379", "it is not a URL"),
        (None, "it is not a URL"),
        (7, "it is not a URL"),
        ("consul://a:1", "unknown scheme 'consul'"),
        ("postgresql://a/b", "unknown scheme 'postgresql'"),
        ("etcd://", "'' is not a host"),
        ("etcd://a:1,,b:2", "'' is not a host"),
        ("etcd://a:port", "'a:port' is not a host"),
        ("etcd://a b:1", "'a b:1' is not a host"),
        ("etcd://a:0", "there is no port 0"),
        ("etcd://a:65536", "there is no port 65536"),
        ("etcd://a:1/path", "etcd has no path '/path'"),
        ("etcd://a:1?tls=maybe", "tls=maybe is neither true nor false"),
        ("etcd://a:1?verify=false", "'verify' is not understood; the options are tls, ca, cert"),
        ("etcd://a:1?tls", "'?tls' is not understood"),
        ("etcd://a:1#b", "'#b' is not understood"),
        ("etcd://me@a:1", "a user without a password; set $WINDLASS_MEMBERS_PASSWORD"),
        ("etcd://a:1?cert=/dev/null", "a cert without a key; set $WINDLASS_MEMBERS_KEY"),
        ("etcd://a:1?key=/dev/null", "a key without a cert; set $WINDLASS_MEMBERS_CERT"),
        ("etcd://a:1?ca=/no/ca", "ca '/no/ca' cannot be read: No such file or directory"),
        ("zookeeper://a:1/a//b", "the path '/a//b' is not valid"),
        ("zookeeper://a:1/../b", "the path '/../b' is not valid"),
    ],
)
def test_a_bad_url_is_named_with_what_is_wrong_and_how_to_write_it(url, wrong):
    with pytest.raises(BadMembers) as raised:
        connect(url, dead_after=5_000_000)

    assert str(raised.value).startswith(f"members {url!r}: {wrong}")
    assert "write etcd://host:2379 or zookeeper://host:2181/path" in str(raised.value)
    assert isinstance(raised.value, BadInput)


@pytest.mark.parametrize(
    "url",
    [
        "etcd://me:hush@a:port",
        "etcd://me:hu/sh@a:1",
        "etcd://me:hush?@a:1",
        "etcd://me:hush#@a:1",
        "etcd://me:hush@a:1/path",
        "consul://me:hush@a:1",
        "etcd://me:hush@a:1?ca=/no/ca",
        "me:hush@a:1",
    ],
)
def test_the_password_in_a_url_is_never_shown(url):
    with pytest.raises(BadMembers) as raised:
        connect(url, dead_after=5_000_000)

    assert "hu" not in str(raised.value)


def test_user_password_and_certificates_are_read_from_the_url():
    address = parse("zookeeper://me:a%2Fb%40c@a,b/team?ca=/ca.pem&cert=/my%20cert&key=/k")

    assert (address.user, address.password) == ("me", "a/b@c")
    assert address.tls == Tls("/ca.pem", "/my cert", "/k")
    assert (address.hosts, address.root) == ((("a", 2181), ("b", 2181)), "/team")
    assert "a/b@c" not in repr(address)
    assert address.url == "zookeeper://me:***@a,b/team?ca=/ca.pem&cert=/my%20cert&key=/k"


def test_the_environment_has_what_the_url_does_not_say(tmp_path):
    here = str(tmp_path / "file")
    (tmp_path / "file").touch()
    environment = {
        "WINDLASS_MEMBERS_USER": "other",
        "WINDLASS_MEMBERS_PASSWORD": "hush",
        "WINDLASS_MEMBERS_CA": here,
        "WINDLASS_MEMBERS_CERT": here,
        "WINDLASS_MEMBERS_KEY": here,
    }

    address = with_environment(parse("etcd://me@a"), environment)
    plain = with_environment(parse("etcd://a?tls=false"), environment)

    assert (address.user, address.password) == ("me", "hush")
    assert address.tls == Tls(here, here, here)
    assert (plain.user, plain.tls) == ("other", None)


@pytest.mark.parametrize(
    ("url", "tls"),
    [("etcd://a", None), ("etcd://a?tls=true", Tls()), ("etcd://a?ca=/ca.pem", Tls("/ca.pem"))],
)
def test_connections_are_plain_unless_a_url_asks_for_tls_or_names_a_file(url, tls):
    assert parse(url).tls == tls


@pytest.mark.parametrize(("kind", "client"), [("etcd", "aetcd"), ("zookeeper", "kazoo")])
def test_a_client_that_is_not_installed_is_named_with_the_command(kind, client, monkeypatch):
    really_import = builtins.__import__

    def import_without(name, *args, **kwargs):
        if name.partition(".")[0] == client:
            raise ModuleNotFoundError(f"No module named {client!r}", name=client)
        return really_import(name, *args, **kwargs)

    for module in (kind, f"{kind}_client"):
        monkeypatch.delitem(sys.modules, f"windlass.core.ring.member.{module}", raising=False)
    monkeypatch.setattr(builtins, "__import__", import_without)

    with pytest.raises(BadMembers, match=rf"needs {client}.*pip install 'windlass\[{kind}\]'"):
        connect(f"{kind}://127.0.0.1:1", dead_after=5_000_000)


@pytest.mark.parametrize("ring", ["", ".", ".."])
def test_a_ring_without_a_usable_name_is_refused(ring):
    with pytest.raises(BadMembers, match="cannot be the name of a ring"):
        Seat(ring, 1)


def test_every_ring_has_a_folder_of_its_own():
    names = ["a", "a/b", "a b", "ä", "a%2Fb", "A"]

    folders = [Seat(name, 7).folder for name in names]

    assert len(set(folders)) == len(names)
    assert {folder.count("/") for folder in folders} == {2}
    assert Seat("shop", 7).key == "/windlass/shop/7"


def test_what_is_not_an_id_is_left_alone():
    assert workers_in(["/windlass/a/7", "8", "note", "", "-1", "7x", "/windlass/a/"]) == {7, 8}


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 1000.0

    monkeypatch.setattr("windlass.core.ring.member.base.time.monotonic", lambda: Clock.now)
    return Clock


@pytest.fixture
def roster():
    return LiveWorkers("etcd")


def test_the_first_list_is_believed_at_once(roster, clock):
    seat = Seat("a", 1)
    roster.open(seat)

    roster.hear(seat, [1, 2], settle_seconds=2)

    assert roster.alive == {1, 2}


def test_after_an_outage_a_list_is_believed_once_everyone_could_come_back(roster, clock):
    seat = Seat("a", 1)
    roster.open(seat)
    roster.hear(seat, [1, 2], settle_seconds=2)

    roster.lose(seat, "gone")
    assert roster.alive is None
    clock.now += 60
    roster.hear(seat, [1], settle_seconds=2)
    assert roster.alive is None
    clock.now += 1.5
    roster.hear(seat, [1, 2], settle_seconds=2)
    assert (roster.alive, roster.settle()) == (None, 0.5)
    clock.now += 0.5

    assert roster.settle() is None
    assert roster.alive == {1, 2}


def test_an_outage_is_remembered_by_whoever_joins_next(roster, clock):
    first, second = Seat("a", 1), Seat("a", 2)
    roster.open(first)
    roster.lose(first, "gone")
    roster.close()

    roster.open(second)
    roster.hear(second, [2], settle_seconds=2)

    assert roster.alive is None


def test_a_former_seat_is_not_heard_any_more(roster, clock):
    first, second = Seat("a", 1), Seat("a", 2)
    roster.open(first)
    roster.open(second)

    roster.hear(first, [1], settle_seconds=2)
    roster.lose(first, "gone")
    roster.hear(second, [2], settle_seconds=2)

    assert roster.alive == {2}


def test_listeners_are_called_when_the_answer_changes_and_only_then(roster, clock):
    heard = []
    roster.listen(lambda: heard.append(roster.alive))
    seat = Seat("a", 1)
    roster.open(seat)

    roster.hear(seat, [1], settle_seconds=2)
    roster.hear(seat, [1], settle_seconds=2)
    roster.lose(seat, "gone")
    roster.lose(seat, "still gone")
    roster.hear(seat, [1, 2], settle_seconds=2)
    clock.now += 2
    roster.settle()
    roster.settle()
    roster.close()

    assert heard == [{1}, None, {1, 2}, None]
