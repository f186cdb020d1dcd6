"""`windlass plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from windlass.cli.load import AppOption, JsonOption, load_app
from windlass.cli.output import (
    console,
    plain,
    print_json,
    refuse,
    say,
    table,
    warn_missing,
    when,
)
from windlass.errors import BadInput

if TYPE_CHECKING:
    from windlass.watch.promise.model.plan import ChangePlan, KindPlan


def plan(
    app: AppOption = None,
    workers: Annotated[
        str | None,
        typer.Option("--workers", metavar="NUMBER", help="Workers: +2, -1, or 4 in all."),
    ] = None,
    rate: Annotated[
        list[str] | None,
        typer.Option("--rate", metavar="KIND=RATE", help="A rate: offer=300/s, or offer=none."),
    ] = None,
    concurrency: Annotated[
        list[str] | None,
        typer.Option("--concurrency", metavar="KIND=N", help="How many run at once in a worker."),
    ] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option("--ranges", metavar="KIND=N", help="The ranges of a sweep."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what a change would do to the ring, to rounds and to promises; changes nothing."""
    loaded = load_app(app)
    from windlass.watch.promise.operate import plan as operate

    try:
        change = operate.read_change(
            loaded.registry,
            workers=workers,
            rates=rate or (),
            concurrency=concurrency or (),
            ranges=ranges or (),
        )
    except BadInput as problem:
        refuse(str(problem))
    loaded.prepare()
    found = operate.plan(loaded.fleet, loaded.clock, loaded.registry, change)
    warn_missing(found.missing)
    if as_json:
        print_json(plain(found))
    else:
        _print_plan(found, loaded.clock.now())


def _print_plan(found: ChangePlan, now: int) -> None:
    say(f"With {', '.join(found.change)}:" if found.change else "Without a change:")
    rings = table("ring", "workers", "buckets of a worker", "buckets that move", right=("workers",))
    for ring in found.rings:
        rings.add_row(
            Text(ring.database),
            _change(str(ring.workers_before), str(ring.workers_after)),
            _change(str(ring.buckets_before), str(ring.buckets_after)),
            f"{ring.moving} of 256",
        )
    console.print(rings)
    if not found.kinds:
        say("No kind is a sweep, is rolling, or promises anything.")
    else:
        _print_kinds(found.kinds, now)
        for each in found.kinds:
            _print_forecast(each)
    for text in found.unknown:
        console.print(Text(f"note: {text}", style="bright_black"))


def _print_kinds(kinds: list[KindPlan], now: int) -> None:
    shown = table("kind", "possible", "needed", "round ends", "promise")
    for each in kinds:
        ends = "-"
        if each.ends_before is not None or each.ends_after is not None:
            moments = (each.ends_before, each.ends_after)
            ends = _change(*("-" if at is None else when(at, now=now) for at in moments))
        shown.add_row(
            Text(each.kind, style="bold"),
            _change(_rate(each.rate_before), _rate(each.rate_after)),
            _rate(each.needed_rate),
            ends,
            _change(each.state_before or "-", each.state_after or "-"),
        )
    console.print(shown)


def _print_forecast(each: KindPlan) -> None:
    line = Text(f"{each.kind}  ", style="bold")
    if each.forecast_after:
        line += Text(f"{each.forecast_after}. ")
    if each.cure is not None:
        line += Text(f"Cure: {each.cure}. ")
    console.print(line + Text(f"Based on: {each.basis}.", style="bright_black"))


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def _rate(per_second: float | None) -> str:
    from windlass.value.rate import rate_text

    if per_second is None:
        return "-"
    return rate_text(per_second) if per_second else "0/s"
