"""Triggers on a user's table: the items of a kind are its keys, whatever the user does."""

import random
from contextlib import closing

import pytest
from sqlalchemy import text

from tests.source.shop import FollowedShop
from windlass.database.database import Numbers
from windlass.rolling.operate import source as follow
from windlass.value.period import GOES, PAYLOAD

ODD_KINDS = ["it's", 'a "kind"', "back\\slash\\", "%s :name {x} $1 $body$", "\\'; drop table x; --"]


@pytest.fixture
def shop(database_url):
    with closing(FollowedShop(database_url)) as shop:
        yield shop


@pytest.fixture
def followed(shop):
    shop.make()
    shop.follow()
    return shop


def test_a_new_row_is_a_new_item_that_is_due_now(followed):
    before = followed.database.measure() - 1_000

    followed.insert("a")

    row = followed.rows()["a"]
    assert (row["status"], row["priority"], row["payload"]) == (0, 3, PAYLOAD)
    assert before <= row["due_at"] == row["created_at"] <= followed.database.measure()
    assert (row["batch"], row["worker"], row["attempt"], row["prune_at"]) == (None, None, 0, None)
    assert 0 <= row["bucket"] <= 255
    assert followed.items() == {"a"}


def test_a_row_that_goes_takes_its_item_along(followed):
    followed.insert("a", "b", "c")

    followed.delete("b")
    assert followed.items() == {"a", "c"}

    followed.execute("delete from product")
    assert followed.items() == set()


def test_a_changed_key_is_another_item(followed):
    followed.insert("a", "b")

    followed.rename("a", "A")
    followed.rename("b", "x")

    assert followed.items() == {"A", "x"}


def test_a_change_of_another_column_does_nothing(followed):
    followed.insert("a")
    before = followed.rows()

    followed.execute("update product set note = 'new'", "update product set code = code")

    assert followed.rows() == before
    assert followed.items() == {"a"}


@pytest.mark.parametrize("way", ["one statement", "executemany"])
def test_many_rows_at_once_are_many_items(followed, way):
    codes = {f"{number:08d}" for number in range(1, 5_001)}

    if way == "one statement":
        followed.insert_many(5_000)
    else:
        followed.insert(*sorted(codes))

    assert followed.items() == codes
    rows = followed.rows().values()
    assert len({row["id"] for row in rows}) == 5_000
    assert len({row["bucket"] for row in rows}) == 256
    followed.execute("delete from product")
    assert followed.rows() == {}
    assert followed.tally() == 0


def test_no_number_is_given_out_twice(followed):
    numbers = Numbers(followed.database)
    taken = numbers.take(10)
    for start in range(5):
        followed.insert(*(f"{start}-{number}" for number in range(70)))
        taken += followed.database.write(lambda connection: numbers.take(10, inside=connection))

    made = [row["id"] for row in followed.rows().values()]
    assert len({*taken, *made}) == len(taken) + len(made) == 60 + 350


def test_what_is_an_item_already_stays_as_it_is(followed):
    followed.insert("a")
    before = followed.rows()
    followed.unfollow()
    followed.delete("a")
    followed.follow()

    followed.insert("a", "b")

    assert followed.rows()["a"] == before["a"]
    assert followed.items() == {"a", "b"}


def test_keys_that_differ_in_case_are_different_items(followed):
    followed.insert("a", "A", "á", "ß", "ss", "a ", "🚢")
    assert followed.items() == {"a", "A", "á", "ß", "ss", "a ", "🚢"}

    followed.delete("A")
    assert followed.items() == {"a", "á", "ß", "ss", "a ", "🚢"}


def test_a_column_that_ignores_case_is_followed_exactly(shop):
    shop.make_ignoring_case()
    shop.follow()

    shop.insert("Abc", "WINDLASS:x", "b")
    shop.rename("abc", "aBC")
    shop.delete("B")

    assert shop.items() == {"aBC", "WINDLASS:x"}


def test_whole_numbers_are_items_as_their_decimal_text(shop):
    shop.make("bigint primary key")
    shop.follow()

    shop.insert(1, 20, -3, 2**40)
    shop.rename(20, 21)
    shop.delete(1)

    assert shop.items() == {"21", "-3", str(2**40)}


def test_fixed_width_text_is_followed_without_its_padding(shop):
    shop.make("char(10) primary key")
    shop.follow()

    shop.insert("a", "b")
    shop.delete("b")

    assert shop.items() == {"a"}


def test_keys_that_cannot_be_items_are_passed_over(shop):
    shop.make(shop.exact)
    shop.follow()
    bad = [None, "", "windlass:tick", "x" * 256, "🚢" * 256]

    shop.insert("a", *bad, "x" * 255, "🚢" * 255)
    for code in bad[1:]:
        shop.rename("a", code)
        shop.rename(code, "a")
    assert shop.items() == {"a", "x" * 255, "🚢" * 255}

    shop.execute("delete from product where code is null or code <> 'a'")
    assert shop.items() == {"a"}


def test_rows_that_are_not_items_are_never_touched(followed):
    followed.insert("windlass:x", "own")
    followed.set("own", task_key="windlass:x")

    followed.rename("windlass:x", "windlass:y")
    followed.execute("delete from product where code <> 'own'")

    assert list(followed.rows()) == ["windlass:x"]


def test_a_rollback_leaves_no_trace(followed):
    followed.insert("a")
    before = followed.rows()

    with followed.engine.connect() as connection:
        connection.exec_driver_sql("insert into product (code) values ('b')")
        connection.exec_driver_sql("update product set code = 'c' where code = 'a'")
        connection.exec_driver_sql("delete from product")
        connection.rollback()

    assert followed.rows() == before
    assert followed.items() == {"a"}


def test_an_item_that_runs_is_marked_and_stays_if_its_row_comes_back(followed):
    followed.insert("a", "b")
    followed.set("a", status=1, batch=7)

    followed.execute("delete from product")
    marked = followed.rows()
    assert {code: row["prune_at"] for code, row in marked.items()} == {"a": GOES}
    assert followed.items() == set()

    followed.insert("a")
    followed.insert("c")
    followed.rename("c", "d")
    row = followed.rows()["a"]
    assert (row["prune_at"], row["status"], row["batch"]) == (None, 1, 7)
    assert row["id"] == marked["a"]["id"]
    assert followed.items() == {"a", "d"}


def test_a_marked_item_is_not_counted_twice(followed):
    followed.insert("a", "b")
    followed.set("a", status=1, batch=7)
    followed.delete("a")
    followed.unfollow()
    followed.insert("a")
    followed.follow()

    followed.delete("a")

    assert followed.rows()["a"]["prune_at"] == GOES
    assert followed.items() == {"b"}


@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_user_does_the_items_are_the_keys(followed, seed):
    chance = random.Random(seed)
    codes = [f"{letter}{digit}" for letter in "aAé" for digit in range(5)]
    present, running = set(), set()
    for _ in range(120):
        code, other = chance.sample(codes, 2)
        match chance.choice(["insert", "delete", "rename", "run", "end", "rollback"]):
            case "insert" if code not in present:
                followed.insert(code)
                present.add(code)
            case "delete":
                followed.delete(code)
                present.discard(code)
            case "rename" if other not in present:
                followed.rename(code, other)
                present = {other if there == code else there for there in present}
            case "run" if code in present:
                followed.set(code, status=1, batch=7)
                running.add(code)
            case "end" if code in running:
                running.discard(code)
                followed.set(code, status=0)
                end_run(followed, code)
            case "rollback":
                with followed.engine.connect() as connection:
                    connection.exec_driver_sql(f"delete from product where code > '{code}'")
                    connection.rollback()
        assert followed.items() == present
        assert set(followed.rows()) == present | {c for c in running if c in followed.rows()}


def end_run(shop, code):
    """What a worker does when a run ends: the row goes if it is marked."""
    shop.database.write(
        lambda connection: connection.execute(
            text("delete from windlass_task where task_key = :code and prune_at = :goes"),
            {"code": code, "goes": GOES},
        )
    )


def test_kinds_with_odd_names_follow_the_same_table(shop):
    shop.make()
    for kind in ODD_KINDS:
        shop.follow(kind)

    shop.insert("a", "b")
    shop.rename("a", "c")
    shop.delete("b")

    assert [shop.items(kind) for kind in ODD_KINDS] == [{"c"}] * len(ODD_KINDS)


def test_triggers_are_removed_one_kind_at_a_time(shop):
    shop.make()
    shop.follow("one")
    shop.follow("two")
    assert shop.is_followed("one")
    assert not shop.is_followed("three")

    assert shop.unfollow("one")
    assert not shop.unfollow("one")

    shop.insert("a")
    assert not shop.is_followed("one")
    assert shop.is_followed("two")
    assert (shop.items("one"), shop.items("two")) == (set(), {"a"})


def test_installing_again_replaces(followed):
    follow.install(followed.database, followed.source, kind="stock", priority=9)

    followed.insert("a")

    assert followed.rows()["a"]["priority"] == 9
    assert followed.items() == {"a"}
