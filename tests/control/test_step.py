"""Steps of named runs: done once, repeated when interrupted, in order."""

import pytest

from tests.control.named import fail, steps_of
from windlass import BadStep, NotSerializable, PayloadTooLarge, RunStatus


def test_a_rerun_after_a_failure_skips_what_is_done_and_repeats_what_was_interrupted(app):
    fail(app, "load", 1, 2)

    app.control.start("load")
    codes = [app.control.step("load", step).code for step in (1, 2, 3)]

    row = app.control.get("load")
    assert codes == [2, 0, 0]
    assert steps_of(row) == {1: True, 2: True, 3: False}
    assert (row.tries, row.step) == (2, 3)
    assert row.first_time < row.start_time


def test_a_new_run_after_a_success_starts_from_the_first_step(app):
    app.control.start("load", data={"a": 1})
    app.control.step("load", 1)
    app.control.finish("load")

    app.control.start("load")

    row = app.control.get("load")
    assert (row.tries, row.steps, row.data) == (1, (), None)
    assert row.first_time == row.start_time
    assert app.control.step("load", 1).code == 0


def test_a_step_that_is_under_way_may_be_asked_for_again(app):
    app.control.start("load")
    app.control.step("load", 1)
    before = app.control.get("load")

    assert app.control.step("load", 1).code == 0
    assert app.control.get("load") == before


def test_the_last_step_is_done_when_the_run_finishes(app):
    app.control.start("load")
    app.control.step("load", 1)
    app.control.finish("load")

    assert steps_of(app.control.get("load")) == {1: True}


def test_a_number_that_goes_backwards_is_an_error_that_says_so(app):
    app.control.start("load")
    app.control.step("load", 1)
    app.control.step("load", 3)
    before = app.control.get("load")

    refused = app.control.step("load", 2)

    assert refused.code == 451
    assert "step 2 goes backwards: this try has come to step 3 already" in refused.msg
    assert app.control.get("load") == before
    assert app.control.step("load", 1).code == 2


def test_a_number_that_goes_backwards_in_a_block_is_an_error_also_when_it_is_done(app):
    with app.control("load") as run:
        assert [run.step(1), run.step(2)] == [True, True]
        with pytest.raises(BadStep, match="step 1 goes backwards: this try has come to step 2"):
            run.step(1)
        with pytest.raises(BadStep, match="step 1 goes backwards"):
            run.step(1, lambda: 7)
        assert run.step(3)


def test_a_loop_over_numbered_steps_is_told_instead_of_skipped(app):
    done = []
    with pytest.raises(BadStep, match="step 1 goes backwards"), app.control("load") as run:
        for part in "ab":
            if run.step(1):
                done.append(part)
            if run.step(2):
                done.append(part)

    assert done == ["a", "a"]


@pytest.mark.parametrize("step", [1, "load"])
def test_what_this_try_has_done_is_not_asked_for_twice_in_a_block(app, step):
    for _ in range(2):
        with pytest.raises(BadStep, match="is asked for twice; in a loop"), app.control("x") as run:
            assert [run.step(step, str.upper, part) for part in "ab"] == ["A"]

    with pytest.raises(BadStep, match="'up' is asked for twice"), app.control("names") as run:
        for _ in "ab":
            run.step("up")
            run.step("down")


def test_numbers_go_up_in_each_try_whatever_an_earlier_one_did(app):
    fail(app, "load", 1, 2)
    app.control.start("load")
    assert [app.control.step("load", step).code for step in (3, 2)] == [0, 451]
    app.control.error("load")

    fail(app, "other", 1, 3, 5)
    app.control.start("other")
    assert [app.control.step("other", step).code for step in (1, 2, 3, 5)] == [2, 0, 2, 0]


def test_a_step_that_was_done_without_a_function_has_no_result_to_give(app):
    fail(app, "load", "count", "rest")

    with pytest.raises(BadStep, match="done without a function"), app.control("load") as run:
        run.step("count", lambda: 7)


def test_an_annotation_that_is_only_words_is_not_a_type(app):
    def rows() -> "the number of rows":  # noqa: F722
        return 7

    for _ in range(2):
        with pytest.raises(LookupError), app.control("load") as run:
            assert run.step("rows", rows) == 7
            raise LookupError


def test_a_name_that_moved_is_an_error_that_says_so(app):
    fail(app, "load", "a", "b", "c")
    app.control.start("load")
    before = app.control.get("load")

    refused = app.control.step("load", "b")

    assert refused.code == 451
    assert "step 'b' has moved: an earlier try did 'a' before it" in refused.msg
    assert app.control.get("load") == before
    assert [app.control.step("load", name).code for name in "abc"] == [2, 2, 0]


def test_a_new_name_may_come_between_those_that_are_done(app):
    fail(app, "load", "a", "b", "c")
    fail(app, "load", "a", "new", "b", "c")
    app.control.start("load")

    codes = [app.control.step("load", name).code for name in ("a", "new", "b", "c")]

    # Nothing began after "new" but the "c" that was interrupted, so "new" was done.
    assert codes == [2, 2, 2, 0]


def test_numbers_and_names_may_be_mixed(app):
    fail(app, "load", 1, "parse", 2, "1")
    app.control.start("load")

    assert [app.control.step("load", step).code for step in (1, "parse", 2, "1")] == [2, 2, 2, 0]


def test_steps_may_be_asked_for_out_of_a_loop_and_nested_in_functions(app):
    done = []

    def part(run, name):
        if run.step(f"part-{name}"):
            if name == "c" and run.tries == 1:
                raise OSError("disk full")
            done.append(name)

    def load():
        with app.control("load") as run:
            for name in "abcd":
                part(run, name)

    with pytest.raises(OSError, match="disk full"):
        load()
    load()

    assert done == ["a", "b", "c", "d"]


def test_the_result_of_a_step_is_remembered_and_its_function_is_called_once(app):
    calls = []

    def rows(table, *, limit) -> tuple[str, int]:
        calls.append(table)
        return table, limit

    results = []
    for _ in range(2):
        with pytest.raises(LookupError), app.control("load") as run:
            results.append(run.step("rows", rows, "recording", limit=7))
            assert run.step("empty", lambda: None) is None
            raise LookupError

    assert calls == ["recording"]
    assert results == [("recording", 7)] * 2


def test_a_step_whose_function_fails_is_repeated(app):
    def flaky():
        if run.tries == 1:
            raise OSError("disk full")
        return "yes"

    with pytest.raises(OSError, match="disk"), app.control("load") as run:
        run.step(1, flaky)
    assert steps_of(app.control.get("load")) == {1: False}

    with app.control("load") as run:
        assert run.step(1, flaky) == "yes"


def test_a_crash_between_the_result_of_a_step_and_the_next_step_does_not_repeat_it(
    app, other, clock
):
    crashed = app.control("load")
    crashed._held.begin()
    crashed._held.renewal.stop()
    assert crashed.step("count", lambda: 42) == 42
    # Nothing more is ever heard of it.
    clock.forward("61s")

    with other.control("load") as run:
        assert run.tries == 2
        assert run.step("count", lambda: pytest.fail("it was done")) == 42


def test_a_step_inside_the_function_of_a_step_does_not_end_it(app):
    def outer(run):
        run.step("inner")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk"), app.control("load") as run:
        run.step("outer", outer, run)

    assert steps_of(app.control.get("load")) == {"outer": False, "inner": False}


@pytest.mark.parametrize("first", ["b", "c"])
def test_a_name_that_moved_is_an_error_in_a_block_done_or_not(app, first):
    fail(app, "load", "a", "b", "c")

    with (
        pytest.raises(BadStep, match=f"step '{first}' has moved: an earlier try did 'a' before"),
        app.control("load") as run,
    ):
        run.step(first)


def test_many_results_are_bounded_by_what_a_row_may_hold(app, monkeypatch):
    monkeypatch.setattr("windlass.control.model.step.LARGEST_STEPS", 10_000)
    with pytest.raises(BadStep, match="over 10,000 bytes"), app.control("load") as run:
        for number in range(1, 100):
            run.step(number, lambda: "x" * 1_000)

    row = app.control.get("load")
    assert row.status is RunStatus.FAILED
    assert sum(step.is_done for step in row.steps) == 9


# Data of a step


def test_data_is_kept_with_a_step_and_found_by_a_later_try(app):
    app.control.start("load")
    first = app.control.step("load", 1, data={"file": "a.csv"})
    app.control.step("load", 2, data={"row": 1200})
    app.control.error("load", "boom")

    app.control.start("load")
    done, again = app.control.step("load", 1), app.control.step("load", 2)

    assert first.data["data"] == {"file": "a.csv"}
    assert (done.code, done.data["data"]) == (2, {"file": "a.csv"})
    assert (again.code, again.data["data"]) == (0, {"row": 1200})
    assert [step.data for step in app.control.get("load").steps] == [
        {"file": "a.csv"},
        {"row": 1200},
    ]


def test_data_of_a_step_that_is_under_way_is_replaced_and_that_of_a_done_one_is_not(app):
    app.control.start("load")
    app.control.step("load", 1, data=1)
    app.control.step("load", 1, data=[2])
    app.control.step("load", 2)

    late = app.control.step("load", 1, data="late")

    assert (late.code, late.data["data"]) == (2, [2])
    assert [step.data for step in app.control.get("load").steps] == [[2], None]


def test_data_of_a_step_is_bounded_and_json(app):
    app.control.start("load")

    with pytest.raises(PayloadTooLarge, match=r"the data of step 1 is .* over the limit of 65,536"):
        app.control.step("load", 1, data="x" * 70_000)
    with pytest.raises(NotSerializable, match="the data of step 1 cannot be kept as JSON"):
        app.control.step("load", 1, data=float("nan"))
    assert app.control.get("load").steps == ()
