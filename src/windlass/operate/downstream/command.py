"""`windlass downstream list|show`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from windlass.cli.load import AppOption, JsonOption, load_app
from windlass.cli.output import console, plain, print_json, say, table, warn_missing, when
from windlass.operate.downstream import operate
from windlass.operate.downstream.operate import AdaptView, DownstreamView, LimitView

NUMBERS = ("at once", "starts/min", "errors/min", "ms")

# How a downstream that adapts went: the newest points, a character for each.
POINTS = 60
BARS = "▁▂▃▄▅▆▇█"

cli = typer.Typer()

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The downstream.")]


@cli.command("list")
def list_downstreams(app: AppOption = None, as_json: JsonOption = False) -> None:
    """List downstreams, their limits now, and what their kinds take."""
    loaded = load_app(app)
    found = operate.listing(loaded.fleet, loaded.registry, loaded.clock)
    warn_missing(found.missing)
    if as_json:
        print_json(plain(list(found)))
        return
    if not found:
        say("No downstream is declared; declare one with app.downstream(...).")
        return
    listed = table("downstream", "rate", "window", *NUMBERS, "why", right=NUMBERS, wrap=("why",))
    for each in found:
        listed.add_row(
            Text(each.name, style="bold"),
            each.holds.rate or "-",
            each.holds.window or "-",
            _at_once(each),
            f"{sum(take.starts_per_minute for take in each.kinds):,.1f}",
            _errors(sum(take.errors_per_minute for take in each.kinds)),
            _mean(each),
            Text(each.held_back or each.problem or ""),
        )
    console.print(listed)


@cli.command()
def show(name: NameArgument, app: AppOption = None, as_json: JsonOption = False) -> None:
    """Show a downstream: its limits, the permits of each worker, and what each kind takes."""
    loaded = load_app(app)
    found = operate.show(loaded.fleet, loaded.registry, loaded.clock, name=name)
    warn_missing(found.missing)
    if as_json:
        print_json(plain(found))
    else:
        console.print(_picture(found, loaded.clock.now()))


def _picture(found: DownstreamView, now: int) -> RenderableType:
    facts = table("", "")
    facts.show_header = False
    state = found.held_back or "runs"
    facts.add_row("downstream", Text(found.name, style="bold"))
    facts.add_row("state", Text(state, style="yellow" if found.held_back else "green"))
    facts.add_row("limits now", _limits(found.holds))
    facts.add_row("declared", _limits(found.declared) + (", adapts" if found.adapt else ""))
    if found.has_breaker:
        facts.add_row("breaker", f"{found.breaker}, {found.errors_in_a_row} errors in a row")
    if found.problem is not None:
        facts.add_row("problem", Text(found.problem, style="red"))
    facts.add_row("kept in", found.home)
    parts: list[RenderableType] = [facts, Text()]
    if found.history:
        parts += [_history(found.history, now), Text()]
    kinds = table("kind", *NUMBERS[1:], "why", right=NUMBERS[1:], wrap=("why",))
    for take in found.kinds:
        kinds.add_row(
            take.kind,
            f"{take.starts_per_minute:,.1f}",
            _errors(take.errors_per_minute),
            "-" if take.mean_milliseconds is None else f"{take.mean_milliseconds:,.1f}",
            Text(take.held_back or ""),
        )
    parts.append(kinds if found.kinds else Text("No kind calls it."))
    if found.permits:
        permits = table("worker", "permits", "wanted", "waits since", right=("permits", "wanted"))
        for each in found.permits:
            waits = when(each.waits_since, now=now) if each.waits_since is not None else "-"
            permits.add_row(str(each.worker), str(each.held), str(each.wanted), waits)
        parts += [Text(), permits]
    return Group(*parts)


def _history(points: list[AdaptView], now: int) -> RenderableType:
    """How its limits went and how it answered, as lines of small bars up to now."""
    last = points[-POINTS:]
    lines: dict[str, list[float | None]] = {
        "rate limit": [each.rate for each in last],
        "at once": [each.concurrency for each in last],
        "served/s": [each.succeeded_per_second for each in last],
        "refused/s": [each.overloaded_per_second for each in last],
        "ms": [each.mean_milliseconds for each in last],
    }
    title = f"since {when(last[0].at, now=now)}"
    drawn = table("adapts", title, "lowest", "highest", "last", right=("lowest", "highest", "last"))
    for name, values in lines.items():
        known = [value for value in values if value is not None]
        if known:
            ends = (min(known), max(known), known[-1])
            drawn.add_row(name, _bars(values), *(f"{value:,.1f}" for value in ends))
    return drawn


def _bars(values: Sequence[float | None]) -> str:
    """A bar for each value, from zero to the highest; a blank where there is none."""
    top = max((value for value in values if value is not None), default=0.0) or 1.0
    return "".join(
        " " if value is None else BARS[min(len(BARS) - 1, int(value / top * len(BARS)))]
        for value in values
    )


def _limits(limits: LimitView) -> str:
    rate = "no rate" if limits.rate is None else f"rate {limits.rate}"
    window = "no window" if limits.window is None else f"window {limits.window}"
    at_once = "no limit" if limits.concurrency is None else f"{limits.concurrency:,} at once"
    return f"{rate}, {window}, {at_once}"


def _at_once(found: DownstreamView) -> str:
    if found.holds.concurrency is None:
        return "-"
    return f"{found.permits_held:,} of {found.holds.concurrency:,}"


def _errors(per_minute: float) -> Text:
    return Text(f"{per_minute:,.1f}", style="red" if per_minute else "")


def _mean(found: DownstreamView) -> str:
    weighed = [take for take in found.kinds if take.mean_milliseconds is not None]
    starts = sum(take.starts_per_minute for take in weighed)
    if not starts:
        return "-"
    spent = sum(take.starts_per_minute * (take.mean_milliseconds or 0.0) for take in weighed)
    return f"{spent / starts:,.1f}"
