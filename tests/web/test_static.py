"""The built console: its files, its page under every path, and a plain word where it is not."""

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from tests.fixture.console import SECRET, Console
from windlass import web
from windlass.web import static

PAGE = '<!doctype html><html><head><title>x</title></head><body><div id="root"></div></body></html>'


@pytest.fixture
def built(tmp_path, monkeypatch):
    """A console that was built, in a folder of its own."""
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(PAGE)
    (folder / "favicon.svg").write_text("<svg/>")
    (folder / "assets" / "index-1a2b3c.js").write_text("let x = 1")
    (tmp_path / "secret.txt").write_text("not for you")
    monkeypatch.setattr(static, "_folder", lambda: folder)
    return folder


@pytest.mark.parametrize("path", ["/", "/tasks", "/tasks/7", "/sweeps/a%2Fb?x=1", "/index.html"])
def test_every_page_has_an_address(browse, built, path):
    answer = browse().client.get(path)

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert '<head><base href="/"><title>' in answer.text


def test_a_mounted_page_knows_where_it_is(sqlite_web_shop, built):
    outer = Starlette(
        routes=[Mount("/ops/windlass", web.create(sqlite_web_shop.app, secret=SECRET))]
    )
    client = TestClient(outer, base_url="http://localhost", client=("127.0.0.1", 1))

    assert '<base href="/ops/windlass/">' in client.get("/ops/windlass/tasks/7").text
    assert '<base href="/ops/windlass/">' in client.get("/ops/windlass/").text
    asset = client.get("/ops/windlass/assets/index-1a2b3c.js")
    assert asset.text == "let x = 1"


def test_files_with_a_hash_are_kept_forever_and_others_for_an_hour(browse, built):
    client = browse().client

    hashed, plain = client.get("/assets/index-1a2b3c.js"), client.get("/favicon.svg")

    assert hashed.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert hashed.headers["content-type"].startswith(("text/javascript", "application/javascript"))
    assert plain.headers["cache-control"] == "public, max-age=3600"
    assert plain.headers["content-type"] == "image/svg+xml"


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/assets/..%2f..%2fsecret.txt",
        "/assets/%2e%2e/%2e%2e/secret.txt",
        "/..%5csecret.txt",
        "/assets//../../secret.txt",
    ],
)
def test_no_path_leads_out_of_the_folder(browse, built, path):
    answer = browse().client.get(path)

    assert "not for you" not in answer.text


def test_an_asset_that_is_not_there_is_not_the_page(browse, built):
    assert browse().client.get("/assets/gone-1a2b3c.js").status_code == 404


def test_where_it_was_not_built_the_page_says_so_and_the_api_works(browse, tmp_path, monkeypatch):
    monkeypatch.setattr(static, "_folder", lambda: tmp_path)
    console = browse()

    page = console.client.get("/tasks")

    assert page.status_code == 503
    assert "The console was not built" in page.text
    assert console.get("about")["is_built"] is False


def test_what_is_not_a_route_of_the_api_is_not_a_page_either(browse, built):
    for path in ("/api", "/api/", "/api/none", "/api/tasks/7/none"):
        answer = browse().client.get(path)
        assert (answer.status_code, answer.json()["title"]) == (404, "HttpError"), path


def test_the_page_needs_no_secret_because_it_has_the_log_in(sqlite_web_shop, built):
    console = Console(web.create(sqlite_web_shop.app, secret=SECRET))

    assert console.client.get("/").status_code == 200
