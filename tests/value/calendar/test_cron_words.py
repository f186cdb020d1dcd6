"""A schedule in words."""

import pytest

from windlass.value.calendar.cron_words import words_of
from windlass.value.cron import Schedule


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("0 3 * * *", "every day at 03:00"),
        ("30 3,15 * * *", "every day at 03:30, 15:30"),
        ("*/15 8-18 * * mon-fri", "every 15 minutes, from 08:00 to 18:59, Monday to Friday"),
        ("0 9 * * 1,7", "at 09:00, on Monday, Sunday"),
        ("0 3 L * *", "at 03:00, on the last day of the month"),
        ("@yearly", "at 00:00, on day 1 of the month, in January"),
        ("@hourly", "every hour at minute 0"),
        ("20 */4 * * *", "every 4 hours at minute 20"),
        ("*/10 * * * * *", "every 10 seconds"),
        ("@every 90s", "every 1m30s"),
        # It is not every 7 minutes where the hour begins anew.
        ("*/7 * * * *", "by the expression */7 * * * *"),
        ("0 3 1 * mon", "by the expression 0 3 1 * mon"),
        ("0 3 * * fri#1", "by the expression 0 3 * * fri#1"),
    ],
)
def test_a_schedule_is_told_in_words_or_as_its_expression(expression, words):
    assert words_of(Schedule(expression)) == words


def test_words_have_a_code_and_values_for_other_languages():
    said = words_of(Schedule("0 9 * * 0"))

    assert said.wire == {
        "text": "at 09:00, on Sunday",
        "code": "cron.on_days",
        "values": {
            "when": {"text": "at 09:00", "code": "cron.at", "values": {"times": ["09:00"]}},
            "days": [{"text": "Sunday", "code": "day.0", "values": {}}],
        },
    }
