"""The English text of every sentence that the console says in the user's language.

A test compares the codes with those of the console's dictionaries.
"""

from __future__ import annotations

SENTENCES = {
    # When a cron runs.
    "cron.every": "every {every}",
    "cron.each_minute": "every minute",
    "cron.minutes": "every {number} minutes",
    "cron.seconds": "every {number} seconds",
    "cron.hourly": "every hour at minute {minute}",
    "cron.hours": "every {number} hours at minute {minute}",
    "cron.daily": "every day at {times}",
    "cron.at": "at {times}",
    "cron.from_to": "{when}, from {first}:00 to {last}:59",
    "cron.on_days": "{when}, on {days}",
    "cron.weekdays": "{when}, {first} to {last}",
    "cron.on_dates": "{when}, on day {dates} of the month",
    "cron.last_day": "{when}, on the last day of the month",
    "cron.in_months": "{when}, in {months}",
    "cron.expression": "by the expression {expression}",
    "day.0": "Sunday",
    "day.1": "Monday",
    "day.2": "Tuesday",
    "day.3": "Wednesday",
    "day.4": "Thursday",
    "day.5": "Friday",
    "day.6": "Saturday",
    "month.1": "January",
    "month.2": "February",
    "month.3": "March",
    "month.4": "April",
    "month.5": "May",
    "month.6": "June",
    "month.7": "July",
    "month.8": "August",
    "month.9": "September",
    "month.10": "October",
    "month.11": "November",
    "month.12": "December",
}
