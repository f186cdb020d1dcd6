"""What cannot run in a process of its own is refused when it is declared."""

import pytest

from tests.core.run.isolate import jobs
from windlass import App, BadDeclaration
from windlass.core.task.size import format_size, parse_size
from windlass.operate.task import operate
from windlass.watch.operate import status


@pytest.fixture
def app(tmp_path):
    app = App(f"sqlite:///{tmp_path}/shop.db")
    yield app
    app.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"isolate": "thread"}, "isolate='thread' is neither \"process\" nor None"),
        ({"memory": "512MB"}, "memory='512MB' limits a process of its own; give isolate=\"proc"),
        ({"isolate": "process", "many": 5}, "many= and isolate= cannot be combined"),
        ({"isolate": "process", "memory": "512"}, "cannot read '512'; write it as \"512MB\""),
        ({"isolate": "process", "memory": "1MB"}, "'1MB' is too little; give at least 100MB"),
        ({"isolate": "process", "memory": 512}, 'memory=512 is int; give a string such as "512MB"'),
    ],
)
def test_options_that_cannot_be_are_refused(app, options, said):
    def pay(orders: list[str]) -> None: ...

    with pytest.raises(BadDeclaration) as caught:
        app.task(**options)(pay)

    assert said in str(caught.value)


def test_a_closure_and_what_has_no_place_in_a_module_are_refused(app):
    def closure() -> None: ...

    with pytest.raises(BadDeclaration, match="is made when its surroundings run; declare a def"):
        app.task(isolate="process")(closure)
    with pytest.raises(BadDeclaration, match="a function that a child process can import"):
        app.task(isolate="process")(jobs.Printer().visit)


def test_the_cron_of_a_flow_is_not_isolated(app):
    @app.flow
    def order(flow) -> None: ...

    with pytest.raises(BadDeclaration, match="give it to the tasks of the flow"):
        app.cron("@daily", isolate="process")(order)


def test_without_a_concurrency_there_is_a_child_for_each_cpu(app):
    app.task(isolate="process")(jobs.pid)
    app.task(isolate="process", concurrency=50)(jobs.visit)

    assert 1 <= app.registry.get("pid").concurrency <= 1024
    assert app.registry.get("visit").concurrency == 50


def test_operators_see_in_what_it_runs(app):
    visit = app.task(isolate="process", memory="512MB")(jobs.visit)
    ref = visit.enqueue("A7")

    (view,) = status.listing(app.fleet, app.registry)
    detail = operate.show(app.fleet, app.registry, ref.id)

    assert view.declared.isolate == "process, 512MB"
    assert detail.task.isolate == "process, 512MB"


@pytest.mark.parametrize(
    ("given", "size"),
    [("512MB", 512_000_000), ("1GiB", 1 << 30), ("1.5 gb", 1_500_000_000), ("64mib", 64 << 20)],
)
def test_sizes_are_read_as_people_write_them(given, size):
    assert parse_size(given, what="memory") == size


def test_sizes_are_shown_shortly():
    assert format_size(512_000_000) == "512MB"
    assert format_size(1 << 30) == "1.074GB"
