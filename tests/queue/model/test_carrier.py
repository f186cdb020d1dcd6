"""The protocol of carriers, and the page that describes it."""

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from windlass.queue.model import carrier
from windlass.queue.model.carrier import Parcel, RunReply, Said, outcome_of, read_parcel, read_reply
from windlass.value.outcome import Cancelled, Failed, Retried, Snoozed, Succeeded

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "carrier.md").read_text()


def example(what: str) -> bytes:
    found = re.search(rf"<!-- {what} -->\n```json\n(.+?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1].encode()


def members_of(section: str) -> set[str]:
    """The names in the first column of the table of a section."""
    text = PAGE.partition(f"## {section}\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return set(re.findall(r"`(\w+)`", " ".join(cells)))


def test_the_message_of_the_page_is_one_and_each_member_is_explained():
    parcel = read_parcel(example("a message"))

    assert (parcel.kind, parcel.key, parcel.timeout) == ("stock_level", "bolt", 30.0)
    assert members_of("A message") == set(Parcel.__struct_fields__)
    assert not parcel.comes_too_late(parcel.deadline - 31)
    assert parcel.comes_too_late(parcel.deadline - 29)


def test_the_reply_of_the_page_is_one_and_each_outcome_is_explained():
    reply = read_reply(example("a reply"))

    assert msgspec.json.decode(reply.result) == {"level": 7}
    assert members_of("A reply") == {"outcome", *get_args(Said)}
    named = set(re.findall(r"`(\w+)`", PAGE.partition("## A reply")[2]))
    assert set(RunReply.__struct_fields__) - {"windlass"} <= named | {"id"}


@pytest.mark.parametrize("outcome", get_args(Said))
def test_each_outcome_is_written_as_one_of_the_kernel(outcome, app):
    @app.task(retries=1)
    def kind() -> None: ...

    terms = app.registry.kinds["kind"].terms
    reply = RunReply(carrier.PROTOCOL, "m", outcome, error="why", after=2.0)

    found = outcome_of(reply, terms, tries=1, random=0.5)

    wanted = {
        "succeeded": Succeeded,
        "failed": Retried,
        "retry": Retried,
        "cancelled": Cancelled,
        "snoozed": Snoozed,
        "overloaded": Snoozed,
        "refused": Retried,
        "expired": Snoozed,
    }
    assert type(found) is wanted[outcome]


@pytest.mark.parametrize("after", [-1, float("inf"), float("nan"), 1e12])
def test_a_delay_that_makes_no_sense_is_left_to_the_kind(after, app):
    @app.task(retries=1, backoff="1h")
    def kind() -> None: ...

    terms = app.registry.kinds["kind"].terms
    reply = RunReply(carrier.PROTOCOL, "m", "retry", error="busy", after=after)

    found = outcome_of(reply, terms, tries=1, random=0.5)
    last = outcome_of(reply, terms, tries=2, random=0.5)

    assert isinstance(found, Retried)
    assert 0 < found.delay <= 2 * 3_600_000_000
    assert isinstance(last, Failed)
