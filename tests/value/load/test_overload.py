"""What another system says when it is overloaded, and how long a row waits then."""

import urllib.error
from datetime import timedelta
from email.message import Message

import httpx
import pytest
import requests

from windlass import BadDuration, Overloaded
from windlass.clock import SECOND
from windlass.value.load.overload import (
    LONGEST_DELAY,
    HttpOverload,
    delay_after,
    overload_in,
    retry_after_in,
)
from windlass.value.outcome import Failed, Snoozed, judge
from windlass.value.retry import retry_policy
from windlass.value.task import Terms

# Sun, 06 Nov 1994 08:49:37 GMT
THEN = 784111777.0


def of_httpx(status, headers):
    request = httpx.Request("GET", "http://inventory/")
    response = httpx.Response(status, headers=headers, request=request)
    return httpx.HTTPStatusError("refused", request=request, response=response)


def of_requests(status, headers):
    response = requests.Response()
    response.status_code = status
    response.headers.update(headers)
    return requests.HTTPError("refused", response=response)


def of_urllib(status, headers):
    message = Message()
    for name, value in headers.items():
        message[name] = value
    return urllib.error.HTTPError("http://inventory/", status, "refused", message, None)


def of_aiohttp(status, headers):
    """As aiohttp's error is; the library is not installed for the tests."""

    class ClientResponseError(Exception):
        __module__ = "aiohttp.client_exceptions"

    error = ClientResponseError("refused")
    error.status, error.headers = status, headers or None
    return error


CLIENTS = pytest.mark.parametrize("made", [of_httpx, of_requests, of_urllib, of_aiohttp])


def judged(error, **terms):
    return judge(error, Terms(retry_policy("work", None, "2s"), **terms), tries=1, random=0.5)


@CLIENTS
@pytest.mark.parametrize("status", [429, 503])
def test_an_answer_that_says_when_to_come_back_is_heeded(made, status):
    error = made(status, {"Retry-After": "7"})

    assert overload_in(error) == HttpOverload(status, timedelta(seconds=7))


@CLIENTS
def test_an_answer_that_does_not_say_when_is_an_overload_too(made):
    assert overload_in(made(503, {})) == HttpOverload(503, None)


@CLIENTS
@pytest.mark.parametrize("status", [400, 404, 500, 502])
def test_other_answers_are_ordinary_errors(made, status):
    assert overload_in(made(status, {"Retry-After": "7"})) is None


def test_an_error_that_only_looks_like_one_is_not_heeded():
    class HTTPError(Exception):
        status_code = 503

    assert overload_in(HTTPError()) is None
    assert overload_in(requests.HTTPError("it has no response")) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120),
        (" 5 ", 5),
        ("Sun, 06 Nov 1994 08:50:07 GMT", 30),
        ("999999", LONGEST_DELAY.total_seconds()),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_DELAY.total_seconds()),
    ],
)
def test_retry_after_is_seconds_or_a_date(text, seconds):
    assert retry_after_in({"retry-after": text}, now=THEN) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "soon", "-5", "1.5h", "0", "Sun, 06 Nov 1994 08:49:00 GMT"])
def test_a_retry_after_that_says_nothing_useful_is_ignored(text):
    assert retry_after_in({"Retry-After": text}, now=THEN) is None


def test_without_a_time_a_row_waits_about_a_second():
    delays = [delay_after(None, random=chance) for chance in (0.0, 0.5, 1.0)]

    assert delays == [SECOND // 2, SECOND, 3 * SECOND // 2]


def test_overloaded_costs_no_try_and_says_why():
    outcome = judged(Overloaded("inventory is full", retry_after="5s"))

    assert outcome == Snoozed(5 * SECOND, overload="Overloaded: inventory is full")


def test_http_is_heeded_only_by_kinds_that_say_so():
    error = of_httpx(503, {"Retry-After": "7"})

    assert isinstance(judged(error), Failed)
    assert judged(error, heeds_http=True) == Snoozed(
        7 * SECOND, overload="HTTPStatusError: refused"
    )


def test_a_time_that_cannot_be_read_is_an_error_of_the_handler():
    with pytest.raises(BadDuration, match="retry_after"):
        judged(Overloaded(retry_after="soon"))
