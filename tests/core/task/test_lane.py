"""What cannot be a lane is refused, with the reason."""

import pytest

from tests.table import count
from windlass import BadDeclaration, BadInput


@pytest.fixture
def mail(app):
    @app.task
    def mail(to: str, subject: str = "") -> None: ...

    return mail


@pytest.mark.mostly("sqlite")
@pytest.mark.parametrize(
    ("lane", "said"),
    [
        ("", "the lane is empty"),
        ("x" * 256, "has 256 characters; at most 255 fit"),
        (7, "lane 7 is not text"),
        ("a\x00b", "characters that databases cannot store"),
    ],
)
def test_a_lane_that_cannot_be_stored_is_refused(app, mail, lane, said):
    with pytest.raises(BadInput, match=said):
        mail.using(lane=lane)

    assert count(app) == 0


def test_a_lane_may_have_255_characters_of_any_script(app):
    seen = []

    @app.task
    def work(name: str) -> None:
        seen.append(name)

    lane = "道" * 255
    work.using(lane=lane).enqueue("a")
    work.using(lane=f"{lane[:-1]}\t").enqueue_many([{"name": "b"}])
    app.drain()

    assert sorted(seen) == ["a", "b"]


@pytest.mark.mostly("sqlite")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"per_lane": 2}, "per_lane=2 needs lane="),
        ({"on_failure": "pass"}, "on_failure='pass' needs lane="),
        ({"fair": True}, "fair=True needs lane="),
        ({"per_lane": 0}, "per_lane=0 is not a number from 1 on"),
        ({"lane": lambda to: to, "per_lane": 0}, "per_lane=0 is not a number from 1 on"),
        ({"lane": lambda to: to, "per_lane": True}, "per_lane=True is not a number"),
        ({"lane": lambda to: to, "per_lane": 1001}, "per_lane=1001 is above 1,000"),
        ({"lane": lambda to: to, "on_failure": "stop"}, 'not one of "hold", "pass"'),
        ({"lane": lambda to: to, "fair": "yes"}, "fair='yes' is not True or False"),
        ({"lane": lambda who: who}, "takes 'who', which is not a parameter of the handler"),
        ({"lane": lambda *args: "x"}, "gets arguments by name"),
        ({"lane": "tenant"}, "lane='tenant' is not a function"),
    ],
)
def test_options_of_lanes_that_cannot_work_are_refused(app, options, said):
    with pytest.raises(BadDeclaration, match=said):

        @app.task(**options)
        def mail(to: str, subject: str = "") -> None: ...


@pytest.mark.mostly("sqlite")
def test_an_async_lane_function_is_refused(app):
    async def tenant(to: str) -> str:
        return to

    with pytest.raises(BadDeclaration, match="its lane function is async"):

        @app.task(lane=tenant)
        def mail(to: str) -> None: ...


@pytest.mark.mostly("sqlite")
@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda to: 7, "lane 7 is not text"),
        (lambda to: to[99], "its lane function raised IndexError"),
        (lambda to: to * 300, "at most 255 fit"),
    ],
)
def test_a_lane_function_that_gives_no_lane_is_an_error_of_the_enqueue(app, function, said):
    @app.task(lane=function)
    def mail(to: str) -> None: ...

    with pytest.raises(BadInput, match=said):
        mail.enqueue("a")

    assert count(app) == 0


@pytest.mark.mostly("sqlite")
def test_a_lane_function_may_name_some_of_the_arguments_or_take_all(app):
    @app.task(lane=lambda subject, **rest: f"{subject} {sorted(rest)}")
    def mail(to: str, subject: str = "news") -> None: ...

    @app.task(lane=lambda subject, times=2: f"{subject}{times}")
    def post(to: str, subject: str = "news") -> None: ...

    lanes = {app.find(ref.id).lane for ref in (mail.enqueue("a"), post.enqueue("a"))}

    assert lanes == {"news ['to']", "news2"}


@pytest.mark.mostly("sqlite")
def test_arguments_that_do_not_fit_are_told_before_the_lane(app):
    @app.task(lane=lambda to: to)
    def mail(to: str) -> None: ...

    with pytest.raises(BadInput, match="to"):
        mail.enqueue(whom="a")


@pytest.mark.mostly("sqlite")
@pytest.mark.parametrize("face", ["cron", "rolling", "sweep"])
def test_other_faces_say_why_they_have_no_lanes(app, face):
    given = {"cron": ("0 3 * * *",), "rolling": (), "sweep": (None,)}[face]
    named = {"every": "1d"} if face == "rolling" else {}

    with pytest.raises(BadDeclaration, match=r"lane=.* is not an option; only tasks have lanes"):
        getattr(app, face)(*given, lane=lambda code: code, **named)


@pytest.mark.mostly("sqlite")
def test_a_cron_cannot_be_put_into_a_lane(app):
    @app.cron("0 3 * * *")
    def nightly() -> None: ...

    with pytest.raises(BadInput, match="kind 'nightly' cannot have lanes: a cron has one row"):
        nightly.using(lane="a")


@pytest.mark.mostly("sqlite")
def test_replacing_is_refused_where_there_is_a_lane(app, mail):
    with pytest.raises(BadInput, match='on_conflict="replace" would move'):
        mail.using(key="k", lane="a", on_conflict="replace").enqueue("x")
