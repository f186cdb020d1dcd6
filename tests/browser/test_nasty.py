"""Whatever users give is shown as text: no script of theirs runs, wherever it is shown."""

from contextlib import suppress
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.browser.shop import NASTY, SCRIPT
from windlass import Status

pytestmark = pytest.mark.mostly("sqlite")


@pytest.fixture
def given(house):
    """Something nasty in every field that users give."""
    shop, app = house.shop, house.shop.app
    text = f"{NASTY}{SCRIPT}"
    done = shop.nasty.using(key=f"key {NASTY}").enqueue(text)
    failed = shop.nasty.using(key=f"fail {NASTY}").enqueue(f"fail {text}")
    shop.nasty_item.add([f"code {NASTY}"], now=True)
    run = shop.nasty_flow.using(key=f"run {NASTY}").start(text)
    spec = {"nodes": [{"name": f"drawn {NASTY}", "kind": "fetch", "kwargs": {"source": text}}]}
    app.flow_template(f"template {NASTY}", {**spec, "edges": []})
    with suppress(OSError), app.control(f"run {NASTY}", partition=f"part {NASTY}") as control:
        control.step(f"step {NASTY}", lambda: f"step result {NASTY}")
        control.step("last", fail)
    app.pause(f"sweep {NASTY}", reason=f"reason {NASTY}", who=f"who {NASTY}")
    shop.ledger.restock(f"delivery {NASTY}", {f"sku {NASTY}": 7})
    shop.ledger.deduct(f"order {NASTY}", {f"sku {NASTY}": 2})
    shop.ledger.give_back(f"order {NASTY}", f"return {NASTY}", {f"sku {NASTY}": 1})
    done.result(timeout=60)
    run.wait(timeout=60)
    yield {"done": done.id, "failed": failed.id, "run": run.id}
    app.resume(f"sweep {NASTY}")


def fail():
    raise OSError(f"control error {NASTY}")


def test_scripts_in_what_users_give_are_shown_as_text(glass, house, given):
    kind = quote(f"kind {NASTY}", safe="")
    run, node = given["run"], quote(f"last {NASTY}")
    control = quote(f"run {NASTY}", safe="") + "?partition=" + quote(f"part {NASTY}")
    places = {
        "": [f"kind {NASTY}", f"error fail {NASTY}", f"flow {NASTY}", f"reason {NASTY}"],
        "tasks": [f"kind {NASTY}", f"key {NASTY}", f"remark code {NASTY}"],
        f"tasks/{given['done']}": [f"key {NASTY}", SCRIPT],
        f"tasks/{given['failed']}": [f"ValueError: error fail {NASTY}{SCRIPT}"],
        f"switches/{kind}": [f"kind {NASTY}"],
        "switches": [f"sweep {NASTY}", f"reason {NASTY}", f"who {NASTY}"],
        "rolling": [f"rolling {NASTY}"],
        "rolling/" + quote(f"rolling {NASTY}", safe=""): [f"code {NASTY}"],
        "sweeps": [f"sweep {NASTY}"],
        "sweeps/" + quote(f"sweep {NASTY}", safe=""): [f"sweep {NASTY}"],
        "sweeps/" + quote(f"sweep {NASTY}", safe="") + "?tab=failures": [f"row {NASTY}"],
        "flows": [f"flow {NASTY}", f"run {NASTY}"],
        "flows?tab=templates": [f"template {NASTY}"],
        f"flows/{run}": [f"flow {NASTY}", f"node {NASTY}", f"run {NASTY}"],
        f"flows/{run}?node={node}": [f"error fail {NASTY}"],
        f"flows/{run}?tab=time": [f"node {NASTY}"],
        f"flows/{run}?tab=nodes": [f"last {NASTY}"],
        "flows/template/" + quote(f"template {NASTY}", safe=""): [f"drawn {NASTY}"],
        "control": [f"run {NASTY}", f"part {NASTY}", f"control error {NASTY}"],
        f"control/{control}": [f"step {NASTY}", f"step result {NASTY}"],
        "ledger": [f"sku {NASTY}"],
        "ledger/deductions": [f"order {NASTY}"],
        "ledger/returns": [f"return {NASTY}"],
        "ledger/entries": [f"delivery {NASTY}"],
        "ledger/stock/" + quote(f"sku {NASTY}", safe=""): [f"sku {NASTY}"],
        "ledger/deductions/" + quote(f"order {NASTY}", safe=""): [f"order {NASTY}"],
        "audit": [],
        "alerts": [],
    }

    glass.open("")
    for place, texts in places.items():
        glass.go(place)
        for text in texts:
            expect(glass.page.locator("main")).to_contain_text(text)
        assert glass.page.locator("img, main script, iframe").count() == 0, place
        glass.check()

    assert house.shop.app.ref(given["failed"]).status() is Status.FAILED


def test_scripts_in_what_is_typed_are_shown_as_text(glass, house):
    glass.open("switches/fetch")
    glass.press("Pause")
    glass.confirm("Pause", reason=f"typed {NASTY}")
    expect(glass.page.locator("main")).to_contain_text(f"typed {NASTY}")
    glass.press("Resume")
    glass.heading("on")

    glass.go("rolling/stock_level?prefix=" + quote(f"find {NASTY}"))
    expect(glass.page.get_by_text(f"No item begins with find {NASTY}")).to_be_visible()
    glass.go("audit?who=" + quote(f"who {NASTY}"))
    expect(glass.page.get_by_role("button", name=f"by who {NASTY}")).to_be_visible()
    glass.go("audit?about=fetch")
    expect(glass.row("switch.pause")).to_contain_text(f"typed {NASTY}")
    glass.excuse("/api/tasks/")
    glass.go("tasks/" + quote(f"task {NASTY}"))
    glass.heading(f"task {NASTY}")

    assert glass.page.locator("img").count() == 0
