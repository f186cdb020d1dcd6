"""etcd and ZooKeeper with TLS, a user and a password: members meet, and strangers are kept out."""

import contextlib

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from tests.fault.ring.circle import Circle, stays_true
from tests.server.certificate import Certificates
from tests.server.secure import PASSWORD, TOKEN_SECONDS, USER
from windlass import MembersUnavailable
from windlass.core.ring.member import base

KINDS = ("etcd", "zookeeper")


@pytest.fixture(params=KINDS)
def secure(request, coordinators):
    """A server that wants TLS, a certificate, a user and a password."""
    return coordinators.secure(request.param)


@pytest.fixture
def circle(secure):
    circle = Circle(secure.url_with(**secure.files))
    yield circle
    circle.close()


def test_members_meet_and_part_by_tls(circle):
    first, second = circle.members(1, 2)
    neighbour = circle.neighbour(3)

    first.wait_for(1, 2, 3)
    neighbour.process.kill()
    first.wait_for(1, 2)
    second.members.leave()
    first.wait_for(1)


def test_members_meet_again_when_the_server_is_back(circle, secure):
    first, second = circle.members(1, 2)

    secure.kill()
    first.wait_until_unknown()
    secure.start()

    first.wait_for(1, 2)
    second.wait_for(1, 2)


def test_credentials_and_certificates_come_from_the_environment(secure, monkeypatch):
    for name, value in {**secure.files, "user": USER, "password": PASSWORD}.items():
        monkeypatch.setenv(f"WINDLASS_MEMBERS_{name.upper()}", value)

    with contextlib.closing(Circle(secure.url_with(access=""))) as circle:
        circle.members(1, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_wants_no_certificate_is_given_none(kind, coordinators):
    server = coordinators.secure(kind, wants_certificate=False)

    with contextlib.closing(Circle(server.url_with(**server.files))) as circle:
        circle.members(1, 2)


def without(files: dict[str, str], *names: str) -> dict[str, str]:
    return {name: path for name, path in files.items() if name not in names}


@pytest.mark.parametrize("what", ["password", "user", "certificate", "ca", "host", "tls"])
def test_who_lacks_something_is_told_what_and_does_not_join(circle, secure, monkeypatch, what):
    circle.members(1)
    with contextlib.closing(Certificates("stranger")) as stranger:
        url, why = {
            "password": (
                secure.url_with(access="shop:hush@", **secure.files),
                "invalid user ID or password|the password is wrong",
            ),
            "user": (
                secure.url_with(access="", **secure.files),
                "(?i)permission denied|connection|session",
            ),
            "certificate": (secure.url_with(**without(secure.files, "cert", "key")), "."),
            "ca": (
                secure.url_with(**{**secure.files, "ca": str(stranger.ca)}),
                "(?i)certificate.verify.failed",
            ),
            "host": (secure.url_with(host="localhost", **secure.files), "(?i)hostname"),
            "tls": (secure.url_with(), "connection|connect to all"),
        }[what]
        monkeypatch.setattr(base, "JOIN_SECONDS", 2.0)
        late = circle.member(2, url=url, joined=False)

        with pytest.raises(MembersUnavailable, match=why) as raised:
            late.members.join(circle.name, 2)

    assert "hush" not in str(raised.value)
    assert "secret" not in str(raised.value)


def test_the_token_of_etcd_is_renewed_before_anybody_notices(coordinators):
    etcd = coordinators.secure("etcd")
    with contextlib.closing(Circle(etcd.url_with(**etcd.files))) as circle:
        first, _ = circle.members(1, 2)

        assert stays_true(lambda: not circle.events, 2.0 * TOKEN_SECONDS)
        circle.member(3)
        first.wait_for(1, 2, 3)
        assert circle.events == []


def test_nodes_in_zookeeper_are_the_users_own(coordinators):
    server = coordinators.secure("zookeeper")
    with contextlib.closing(Circle(server.url_with(**server.files))) as circle:
        circle.members(1)
        cert, key = map(str, server.client_files)
        stranger = KazooClient(
            f"127.0.0.1:{server.port}",
            auth_data=[("digest", "stranger:password")],
            use_ssl=True,
            ca=str(server.certificates.ca),
            certfile=cert,
            keyfile=key,
        )
        stranger.start()

        folder = f"/windlass/{circle.name}"
        calls = [
            lambda: stranger.get_children(folder),
            lambda: stranger.delete(f"{folder}/1"),
            lambda: stranger.create(f"{folder}/2", ephemeral=True),
        ]
        for call in calls:
            with pytest.raises(NoAuthError):
                call()
        stranger.stop()
        stranger.close()
