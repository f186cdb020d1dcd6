"""How many rows are offered to others."""

from windlass.core.fetch.help import BEHIND_SECONDS, MOST_OFFERED, PATIENCE_SECONDS, Helping


def test_only_who_has_been_behind_for_a_while_is_helped():
    helping = Helping()

    assert helping.behind({"slow"}, 0.0) == {}
    assert helping.behind({"slow", "new"}, BEHIND_SECONDS) == {"slow": BEHIND_SECONDS}
    assert helping.behind({"new"}, BEHIND_SECONDS + 0.1) == {}
    assert helping.behind({"slow", "new"}, 2 * BEHIND_SECONDS) == {"new": BEHIND_SECONDS}


def test_who_fetched_all_that_is_due_is_not_behind():
    helping = Helping()

    helping.fetched(all_of=[], some_of=["slow", "other"])
    assert helping.full == {"slow", "other"}
    assert helping.is_behind
    helping.fetched(all_of=["slow", "other"], some_of=[])

    assert helping.full == set()
    assert not helping.is_behind


def test_nothing_is_offered_while_nobody_has_time():
    assert Helping().wanted("slow", idle=0, offered=0, now=0.0) == 0


def test_what_is_taken_at_once_is_doubled_and_what_lies_there_is_enough():
    helping = Helping()

    assert helping.wanted("slow", idle=10, offered=0, now=0.0) == 10
    helping.made("slow", 10)
    assert helping.wanted("slow", idle=0, offered=0, now=0.25) == 20
    helping.made("slow", 20)
    assert helping.wanted("slow", idle=0, offered=5, now=0.5) == 15
    assert helping.wanted("slow", idle=3, offered=20, now=0.75) == 0
    for _ in range(20):
        helping.made("slow", 1)
        last = helping.wanted("slow", idle=0, offered=0, now=1.0)
    assert last == MOST_OFFERED


def test_what_could_not_be_offered_was_not_taken():
    helping = Helping()
    helping.wanted("slow", idle=10, offered=0, now=0.0)
    helping.made("slow", 0)

    assert helping.wanted("slow", idle=0, offered=0, now=0.25) == 10
    assert helping.wanted("slow", idle=0, offered=0, now=0.25 + PATIENCE_SECONDS) == 0


def test_it_ends_when_offers_lie_there_and_nobody_has_time():
    helping = Helping()
    helping.wanted("slow", idle=10, offered=0, now=0.0)

    assert helping.wanted("slow", idle=0, offered=4, now=PATIENCE_SECONDS) == 6
    assert helping.wanted("slow", idle=0, offered=4, now=PATIENCE_SECONDS + 0.1) == 0
    assert helping.wanted("slow", idle=0, offered=0, now=PATIENCE_SECONDS + 0.2) == 0
    assert helping.wanted("slow", idle=7, offered=0, now=PATIENCE_SECONDS + 0.3) == 7


def test_who_catches_up_begins_anew():
    helping = Helping()
    helping.behind({"slow"}, 0.0)
    helping.wanted("slow", idle=10, offered=0, now=2.0)
    helping.made("slow", 10)
    helping.wanted("slow", idle=10, offered=0, now=2.2)

    helping.fetched(all_of=["slow"], some_of=[])

    assert helping.wanted("slow", idle=10, offered=0, now=5.0) == 10
