"""Failed rows of a CSV file are shown under the key that people know them by."""

import pytest

from windlass import Csv

ROWS = "code,name\nbolt,Bolt\nnut,Nut\nscrew,Screw\n"


@pytest.fixture
def products(app, tmp_path):
    file = tmp_path / "products.csv"
    file.write_text(ROWS)

    @app.sweep(Csv(file, key="name"), ranges=1)
    def products(row: dict) -> None:
        if row["code"] != "bolt":
            raise ValueError("not today")

    products.file = file
    return products


def test_failures_have_the_chosen_column(app, products):
    app.drain()

    assert sorted(each.shown for each in products.failures()) == ["Nut", "Screw"]
    assert all(isinstance(each.key, int) for each in products.failures())


def test_a_row_that_is_gone_is_shown_by_its_position(app, products):
    app.drain()

    products.file.unlink()

    assert all(each.known_as is None for each in products.failures())
    assert all(each.shown.isdecimal() for each in products.failures())


def test_they_are_retried_all_the_same(app, products):
    app.drain()
    products.file.write_text(ROWS.replace("nut,", "bolt,").replace("screw,", "bolt,"))

    assert products.retry_failures() == 2
