"""Flows in a browser: drawn, started, watched to their end, and mended."""

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.mostly("sqlite")


def test_a_flow_is_drawn_saved_started_and_watched_to_its_end(glass):
    glass.open("flows/template")
    page = glass.page
    page.get_by_label("Name").fill("evening")
    add_node(glass, "fetch", name="orders")
    page.get_by_role("combobox", name="source").select_option("argument")
    add_node(glass, "publish", name="board")
    connect(glass, "orders", "board")
    page.get_by_role("combobox", name="rows").select_option("result:orders")
    expect(page.get_by_text("Ready to save.")).to_be_visible()
    glass.press("Save as a new version")
    glass.told("evening is saved as version 1.")

    glass.press("Start")
    page.get_by_role("dialog").get_by_label("source").fill("shelves")
    glass.press("Start", page.get_by_role("dialog"))

    glass.heading("evening")
    glass.heading("succeeded")
    expect(node(glass, "board")).to_have_accessible_name("board: succeeded")
    node(glass, "board").click()
    expect(page.get_by_label("Result")).to_contain_text("shelves for shop")
    page.get_by_role("tab", name="Nodes").click()
    expect(glass.row("succeeded")).to_have_count(2)


def test_a_drawing_that_is_not_saved_is_asked_about_and_offered_again(glass):
    page = glass.page
    page.on("dialog", lambda dialog: dialog.accept())
    glass.excuse("dialog: ")
    glass.open("flows/template")
    page.get_by_label("Name").fill("morning")
    add_node(glass, "fetch", name="orders")

    page.get_by_role("link", name="Tasks").click()
    glass.press("Never mind", page.get_by_role("dialog", name="Leave without saving?"))
    expect(node(glass, "orders")).to_be_visible()
    page.reload()
    expect(page.get_by_text("There is an unsaved draft from")).to_be_visible()
    expect(node(glass, "orders")).to_have_count(0)
    glass.press("Continue editing")
    expect(node(glass, "orders")).to_be_visible()
    expect(page.get_by_label("Name")).to_have_value("morning")

    page.get_by_role("link", name="Tasks").click()
    glass.confirm("Leave")
    glass.heading("Tasks")
    glass.go("flows/template")
    glass.press("Discard it")
    glass.open("flows/template")
    expect(page.get_by_text("There is an unsaved draft from")).to_have_count(0)


def test_a_flow_that_failed_is_mended_by_a_retry(glass, house):
    run = house.shop.nightly.using(key="night-7").start(order=7_000)

    glass.open("flows?status=failed")
    glass.row("night-7").get_by_role("link").click()
    glass.heading("failed")
    expect(node(glass, "charge")).to_have_accessible_name("charge: failed")
    node(glass, "charge").click()
    expect(glass.page.locator(".side-column")).to_contain_text("the card of order 7000 was refused")
    glass.press("Retry failed nodes")

    glass.heading("succeeded")
    expect(node(glass, "publish")).to_have_accessible_name("publish: succeeded")
    assert glass.page.url.endswith(f"/flows/{run.id}?node=charge")


def add_node(glass, kind, *, name):
    """Add a node of this kind and give it a name."""
    glass.page.get_by_label("Kind").select_option(kind)
    glass.press("Add a node")
    form = glass.page.locator(".side-column .card").filter(has_text="Runs when")
    expect(form.get_by_role("heading")).to_have_text(kind)
    form.get_by_label("Name").fill(name)
    expect(node(glass, name)).to_be_visible()


def connect(glass, source, target):
    """Draw an edge from one node to another with the mouse."""
    begin = node(glass, source).locator(".react-flow__handle.source")
    end = node(glass, target).locator(".react-flow__handle.target")
    begin.drag_to(end)
    expect(glass.page.locator(".react-flow__edge")).to_have_count(1)


def node(glass, name):
    """The node of the graph that has this name."""
    return glass.page.locator(f".react-flow__node[data-id={name!r}]")
