"""Runs that happen once: after success never again, after a failure from where they stopped."""

import pytest

from windlass import AlreadyDone, AlreadyRunning, BadInput, RunStatus


def test_a_run_that_happens_once_is_not_entered_after_success(app, other):
    done = []
    with app.control("backfill", "p", once=True) as run:
        run.step("prices", lambda: done.append("prices"))

    with pytest.raises(AlreadyDone) as refused:
        other.control("backfill", "p", once=True).__enter__()

    row = app.control.get("backfill", "p")
    assert (refused.value.name, refused.value.partition) == ("backfill", "p")
    assert (refused.value.who, refused.value.at) == (row.who, row.end_time)
    assert (row.status, row.tries, done) == (RunStatus.SUCCEEDED, 1, ["prices"])
    # Another partition is another run.
    with other.control("backfill", "q", once=True) as run:
        assert run.tries == 1


def test_after_a_failure_it_starts_again_and_skips_what_is_done(app):
    done = []
    with pytest.raises(OSError, match="away"), app.control("backfill", once=True) as run:
        run.step("prices", lambda: done.append("prices"))
        raise OSError("the network is away")

    with app.control("backfill", once=True) as run:
        run.step("prices", lambda: done.append("prices again"))
        run.step("names", lambda: done.append("names"))
        with pytest.raises(AlreadyRunning):
            app.control("backfill", once=True).__enter__()

    assert done == ["prices", "names"]


def test_the_plain_call_answers_2_and_changes_nothing(app):
    assert app.control.start("backfill", once=True).code == 0
    assert app.control.start("backfill", once=True).code == 8
    app.control.finish("backfill", data={"rows": 7})
    before = app.control.get("backfill")

    reply = app.control.start("backfill", once=True)

    assert reply.code == 2
    assert reply.msg.startswith("it has succeeded already, at 20")
    assert reply.data["data"] == {"rows": 7}
    assert app.control.get("backfill") == before


def test_without_once_it_runs_again(app):
    with app.control("backfill", once=True):
        pass
    with app.control("backfill") as run:
        assert run.tries == 1

    with pytest.raises(AlreadyDone):
        app.control("backfill", once=True).__enter__()


def test_a_function_happens_once(app):
    @app.controlled(once=True)
    def backfill(run, count):
        return count

    assert backfill(7) == 7
    with pytest.raises(AlreadyDone, match="control 'backfill': it happens once, and has succeeded"):
        backfill(8)


async def test_an_async_block_happens_once(app):
    async with app.control("backfill", once=True):
        pass
    with pytest.raises(AlreadyDone):
        await app.control("backfill", once=True).__aenter__()
    assert (await app.control.astart("backfill", once=True)).code == 2


@pytest.mark.parametrize("once", [1, "yes", None])
def test_once_is_true_or_false(app, once):
    for begin in (app.control, app.control.start):
        with pytest.raises(BadInput, match=f"once={once!r} is neither True nor False"):
            begin("backfill", once=once)
