"""`windlass token create|list|revoke`."""

import json

import pytest

pytestmark = [pytest.mark.mostly("sqlite", "postgresql"), pytest.mark.usefixtures("shop")]


def test_a_token_is_made_shown_once_listed_and_revoked(windlass):
    made = windlass("token", "create", "deploy", "--role", "producer", "--expires", "90d")
    listed = windlass("token", "list")
    revoked = windlass("token", "revoke", "deploy")

    assert (made.code, listed.code, revoked.code) == (0, 0, 0)
    token = made.out.splitlines()[-1]
    assert token.startswith("windlass_")
    assert "not shown again" in made.out
    assert token not in listed.out
    assert "deploy" in listed.out
    assert token[:21] in listed.out
    assert revoked.out.strip().endswith("token deploy is revoked")


def test_json_has_every_field(windlass):
    made = windlass("token", "create", "deploy", "--role", "viewer", "--json").json
    (listed,) = windlass("token", "list", "--json").json
    revoked = windlass("token", "revoke", "deploy", "--who", "Ada", "--json").json

    assert set(made) == {"token", "name", "role", "prefix", "expires_at"}
    assert (made["role"], made["expires_at"]) == ("viewer", None)
    assert (listed["state"], listed["last_used_at"]) == ("active", None)
    assert (revoked["state"], revoked["revoked_by"]) == ("revoked", "Ada")
    assert "hash" not in listed
    assert "token" not in listed


def test_without_tokens_the_list_says_how_to_make_one(windlass):
    assert "windlass token create NAME" in windlass("token", "list").out
    assert windlass("token", "list", "--json").json == []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("create", "deploy"), 2, "--role"),
        (("create", "deploy", "--role", "king"), 2, "king"),
        (("create", "deploy", "--role", "viewer", "--expires", "soon"), 2, "soon"),
        (("create", "a b", "--role", "viewer"), 1, "cannot name a token"),
        (("revoke", "nobody"), 1, "no token is named 'nobody'"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_and_has_the_usual_exit_code(windlass, arguments, code, said):
    answer = windlass("token", *arguments)

    assert answer.code == code
    assert said in answer.err
    assert answer.out == ""


def test_a_second_token_of_a_name_is_refused(windlass):
    windlass("token", "create", "deploy", "--role", "viewer")
    again = windlass("token", "create", "deploy", "--role", "viewer")

    assert again.code == 1
    assert "there is a token 'deploy' already" in again.err


def test_the_audit_log_has_who_made_and_revoked_it_and_never_the_token(windlass):
    made = windlass("token", "create", "deploy", "--role", "admin", "--who", "Ada", "--json").json
    windlass("token", "revoke", "deploy", "--who", "Grace")

    entries = windlass("audit", "--about", "deploy", "--json").json

    assert [(entry["who"], entry["action"]) for entry in entries] == [
        ("Grace", "token.revoke"),
        ("Ada", "token.create"),
    ]
    assert made["prefix"] in entries[1]["outcome"]
    assert made["token"] not in json.dumps(entries)
