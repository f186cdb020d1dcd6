"""Budget: several holds share one budget, and none of them starves."""

from windlass.core.run.budget import Budget


def test_all_together_never_run_more_than_the_budget():
    slots = Budget(3, holders=2)

    taken = [slots.take(holder, "mail", 10) for holder in ("a", "b", "a", "b")]

    assert taken == [True, True, True, False]
    assert slots.free == 0


def test_a_kind_has_its_own_limit_over_all_holders():
    slots = Budget(10, holders=2)

    assert slots.take("a", "mail", 2)
    assert slots.take("b", "mail", 2)
    assert not slots.take("a", "mail", 2)
    assert slots.take("a", "report", 2)


def test_who_uses_more_than_its_part_leaves_the_next_slot_to_one_who_wants_it():
    slots = Budget(4, holders=2)
    for _ in range(4):
        assert slots.take("busy", "mail", 10)
    assert not slots.take("other", "mail", 10)

    slots.give_back("busy", "mail")

    assert not slots.take("busy", "mail", 10)
    assert slots.take("other", "mail", 10)


def test_who_wants_nothing_leaves_all_slots_to_the_others():
    slots = Budget(4, holders=2)

    assert [slots.take("busy", "mail", 10) for _ in range(4)] == [True] * 4


def test_a_wish_that_is_not_repeated_is_forgotten(monkeypatch):
    slots, now = Budget(2, holders=2), [100.0]
    monkeypatch.setattr("windlass.core.run.ready.time.monotonic", lambda: now[0])
    assert slots.take("busy", "mail", 10)
    assert slots.take("busy", "mail", 10)
    assert not slots.take("other", "mail", 10)
    slots.give_back("busy", "mail")
    assert not slots.take("busy", "mail", 10)

    now[0] += 2.0

    assert slots.take("busy", "mail", 10)


def test_a_kind_at_its_limit_does_not_hold_back_other_kinds():
    slots = Budget(4, holders=2)
    assert slots.take("busy", "mail", 1)
    assert not slots.take("other", "mail", 1)

    assert [slots.take("busy", "report", 10) for _ in range(3)] == [True] * 3


def test_a_slot_that_comes_free_wakes_those_who_were_refused():
    slots, woken = Budget(1, holders=2), []
    slots.on_free(lambda: woken.append("woken"))
    assert slots.take("a", "mail", 1)

    slots.give_back("a", "mail")
    assert woken == []
    assert slots.take("a", "mail", 1)
    assert not slots.take("b", "mail", 1)
    slots.give_back("a", "mail")

    assert woken == ["woken"]
