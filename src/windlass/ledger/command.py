"""`windlass ledger stock|show|entries|exchange|protect|lanes|allot|recall|recover|audit`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

import typer
from rich.text import Text

from windlass.cli.load import AppOption, JsonOption, audit_log, load_app
from windlass.cli.output import (
    complain,
    console,
    done,
    note,
    plain,
    print_json,
    report,
    say,
    table,
    timestamp,
    visible,
)
from windlass.errors import BadInput
from windlass.ledger.ledger import Ledger
from windlass.ledger.model.ledger import Deduction, DeductionStatus, Entry, Line, Stock
from windlass.ledger.operate import Ledgers
from windlass.view.action import Action

# Whether an answer was given before says nothing about the row.
REPLAYED = ("replayed",)
COLOURS = {
    DeductionStatus.HELD: "blue",
    DeductionStatus.DEDUCTED: "green",
    DeductionStatus.REFUSED: "red",
    DeductionStatus.VOIDED: "bright_black",
    DeductionStatus.LAPSED: "yellow",
}

cli = typer.Typer()

ShardOption = Annotated[
    str | None,
    typer.Option("--shard", metavar="SHARD", help="The database it is in; default: the first."),
]

LaneArgument = Annotated[str, typer.Argument(metavar="LANE", help="The name of the hot lane.")]
CACHE_OPTION = typer.Option(
    "--cache", envvar="WINDLASS_HOT_CACHE", metavar="URL", help="Its cache, as redis://host:6379."
)
CacheOption = Annotated[str, CACHE_OPTION]


@cli.command("stock")
def show_stock(
    skus: Annotated[
        list[str] | None, typer.Argument(metavar="[SKU]...", help="Only these; default: all.")
    ] = None,
    app: AppOption = None,
    shard: ShardOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how much there is of each SKU."""
    ledger = _ledger(app, shard)
    found = ledger.stocks(skus or None)
    if as_json:
        print_json(plain(found))
    elif found:
        _show_stocks(found)
    missing = sorted(set(skus or ()) - {row.sku for row in found})
    for sku in missing:
        complain(f"sku {sku!r} is unknown")
    if missing:
        raise typer.Exit(1)
    if not (found or as_json):
        say("There is no stock; see Ledger.restock.")


@cli.command()
def show(
    deduction: Annotated[str, typer.Argument(metavar="ID", help="The id of the deduction.")],
    app: AppOption = None,
    shard: ShardOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a deduction: its lines, what came back of them, and by which returns."""
    ledger = _ledger(app, shard)
    found, returns = ledger.deduction(deduction), ledger.returns(deduction)
    if as_json:
        shown = plain(found, without=REPLAYED)
        print_json(shown | {"returns": plain(returns, without=REPLAYED)})
        return
    _show_deduction(found)
    if found.lines:
        console.print()
        lines = table("sku", "quantity", "returned", right=("quantity", "returned"), wrap=("sku",))
        for line in found.lines:
            lines.add_row(visible(line.sku), f"{line.quantity:,}", f"{line.returned:,}")
        console.print(lines)
    if returns:
        console.print()
        is_exchanged = ("went out",) if any(each.out for each in returns) else ()
        made = table("return", "made", "lines", *is_exchanged, wrap=("return", "lines"))
        for each in returns:
            parts = (each.lines, each.out) if is_exchanged else (each.lines,)
            what = (_listed(part) or "-" for part in parts)
            made.add_row(visible(each.id), timestamp(each.created_at), *what)
        console.print(made)


@cli.command()
def entries(
    sku: Annotated[str, typer.Argument(metavar="SKU", help="The SKU.")],
    after: Annotated[
        int, typer.Option("--after", min=0, help="Only those after the entry of this number.")
    ] = 0,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most this many.")] = 1_000,
    app: AppOption = None,
    shard: ShardOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the changes of a SKU, oldest first, and say if there are more."""
    ledger = _ledger(app, shard)
    more = ledger.entries(sku, after=after, limit=limit + 1)
    found = more[:limit]
    if not found:
        # Raises an error if the SKU is unknown.
        ledger.stock(sku)
    if as_json:
        print_json(plain(found))
    elif found:
        _show_entries(found)
    else:
        say(f"There are no entries after number {after}." if after else "There are no entries.")
    if len(more) > limit:
        note(
            f"there are more than these {limit:,}; add --after {found[-1].id} for the next, "
            "or a larger --limit"
        )


@cli.command()
def exchange(
    deduction: Annotated[str, typer.Argument(metavar="ID", help="The id of the deduction.")],
    exchange_id: Annotated[
        str, typer.Argument(metavar="EXCHANGE", help="The id of the exchange: it counts once.")
    ],
    back: Annotated[
        list[str], typer.Option("--back", metavar="SKU=N", help="What comes back; repeatable.")
    ],
    out: Annotated[
        list[str], typer.Option("--out", metavar="SKU=N", help="What goes out; repeatable.")
    ],
    app: AppOption = None,
    shard: ShardOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take a part of a deduction back and hand out other goods for it, all lines or none."""
    loaded = load_app(app, needs_kinds=False)
    ledger = Ledgers(loaded.fleet).of(shard)
    lines = {"back": _lines("--back", back), "out": _lines("--out", out)}
    with audit_log(loaded).record(
        Action.LEDGER_EXCHANGE, deduction, shard=shard, exchange_id=exchange_id, **lines
    ) as entry:
        made = ledger.exchange(deduction, exchange_id, back=lines["back"], out=lines["out"])
        before = "; it was done before" if made.replayed else ""
        message = entry.says(
            f"{_said(made.lines)} of {deduction} came back, {_said(made.out)} went out{before}"
        )
    report(visible(message), plain(made), as_json=as_json)


@cli.command()
def protect(
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the triggers, to change entries by hand.")
    ] = False,
    app: AppOption = None,
    shard: ShardOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep entries append-only: by triggers, the database refuses to change or delete one."""
    loaded = load_app(app, needs_kinds=False)
    ledger = Ledgers(loaded.fleet).of(shard)
    name = ledger.database.name
    with audit_log(loaded).record(Action.LEDGER_PROTECT, name, shard=shard, remove=remove) as entry:
        if remove:
            ledger.unprotect()
            message = entry.says("entries can be changed and deleted")
        else:
            ledger.protect()
            message = entry.says("the database refuses to change or delete an entry")
    report(message, {"protected": not remove}, as_json=as_json)


@cli.command()
def lanes(app: AppOption = None, shard: ShardOption = None, as_json: JsonOption = False) -> None:
    """Show hot lanes: what is allotted to their caches, what of that is sold, and not synced."""
    loaded = load_app(app, needs_kinds=False)
    found = Ledgers(loaded.fleet).lanes(shard)
    if as_json:
        print_json(plain(found))
        return
    if not found:
        say("There are no hot lanes; see Ledger.hot.")
    for lane in found:
        note(f"{lane.lane}: epoch {lane.epoch} at {lane.cache}, {lane.unsynced_batches:,} unsynced")
        sums = ("allotted", "left", "sold", "unsynced")
        shown = table("sku", *sums, "sells", right=sums, wrap=("sku",))
        for each in lane.skus:
            numbers = (f"{number:,}" for number in (each.allotted, each.left, each.sold))
            sells = "cache" if each.is_open else "book"
            shown.add_row(visible(each.sku), *numbers, f"{each.unsynced:,}", sells)
        console.print(shown)


@cli.command()
def allot(
    lane: LaneArgument,
    cache: CacheOption,
    out: Annotated[
        list[str], typer.Option("--line", metavar="SKU=N", help="How many of what; repeatable.")
    ],
    app: AppOption = None,
    shard: ShardOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move stock from the book to the cache of a hot lane, all lines or none."""
    loaded = load_app(app, needs_kinds=False)
    lines = _lines("--line", out)
    with audit_log(loaded).record(Action.LEDGER_ALLOT, lane, shard=shard, lines=lines) as entry:
        moved = Ledgers(loaded.fleet).allot(shard, lane, cache, lines=lines)
        message = entry.says(f"{_moved(moved)} moved to the cache")
    report(visible(message), {"moved": moved}, as_json=as_json)


@cli.command()
def recall(
    lane: LaneArgument,
    skus: Annotated[
        list[str] | None, typer.Argument(metavar="[SKU]...", help="Only these; default: all.")
    ] = None,
    cache: Annotated[str, CACHE_OPTION] = "",
    app: AppOption = None,
    shard: ShardOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move what a hot lane has not sold back to the book; the cache may be away."""
    loaded = load_app(app, needs_kinds=False)
    with audit_log(loaded).record(Action.LEDGER_RECALL, lane, shard=shard, skus=skus) as entry:
        moved = Ledgers(loaded.fleet).recall(shard, lane, cache or None, skus=skus or ())
        message = entry.says(f"{_moved(moved)} moved to the book")
    report(visible(message), {"moved": moved}, as_json=as_json)


@cli.command()
def recover(
    lane: LaneArgument,
    cache: CacheOption,
    app: AppOption = None,
    shard: ShardOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have the cache of a hot lane count anew from the book: begin a new epoch."""
    loaded = load_app(app, needs_kinds=False)
    with audit_log(loaded).record(Action.LEDGER_RECOVER, lane, shard=shard) as entry:
        epoch = Ledgers(loaded.fleet).recover(shard, lane, cache)
        message = entry.says(f"{lane} began epoch {epoch}")
    report(visible(message), {"epoch": epoch}, as_json=as_json)


@cli.command()
def audit(app: AppOption = None, shard: ShardOption = None, as_json: JsonOption = False) -> None:
    """Check that every rule of the ledger holds for every row; nothing is repaired."""
    found = _ledger(app, shard).audit()
    if as_json:
        print_json(plain(found))
    elif found.ok:
        done("the books balance")
    for problem in () if as_json else found.problems:
        complain(visible(problem))
    if not found.ok:
        raise typer.Exit(1)


def _ledger(app: str | None, shard: str | None) -> Ledger:
    return Ledgers(load_app(app, needs_kinds=False).fleet).of(shard)


def _lines(option: str, given: list[str]) -> list[tuple[str, int]]:
    """The lines that an option names, such as `bolt=2`."""
    found = []
    for each in given:
        sku, _, quantity = each.rpartition("=")
        if not (sku and quantity.isascii() and quantity.isdecimal() and len(quantity) < 20):
            raise BadInput(f"{option} {each!r} is not a sku and a quantity, such as bolt=2")
        found.append((sku, int(quantity)))
    return found


def _moved(moved: Mapping[str, int]) -> str:
    return ", ".join(f"{quantity:,} {sku}" for sku, quantity in moved.items()) or "nothing"


def _listed(lines: Iterable[Line]) -> str:
    return ", ".join(f"{visible(line.sku)} {line.quantity:,}" for line in lines)


def _said(lines: Iterable[Line]) -> str:
    return ", ".join(f"{line.quantity:,} {line.sku}" for line in lines)


def _show_stocks(found: list[Stock]) -> None:
    in_lanes = (
        ("allotted", "unsynced") if any(row.allotted or row.unsynced for row in found) else ()
    )
    sums = ("available", "received", "deducted", "returned", *in_lanes)
    shown = table("sku", *sums, right=sums, wrap=("sku",))
    for row in found:
        cells = (f"{getattr(row, name):,}" for name in sums[1:])
        available = Text(f"{row.available:,}", style="bold" if row.available else "bold red")
        shown.add_row(visible(row.sku), available, *cells)
    console.print(shown)


def _show_entries(found: list[Entry]) -> None:
    shown = table(
        *("entry", "made", "movement", "quantity", "id", "return"),
        right=("entry", "quantity"),
        wrap=("id", "return"),
    )
    for entry in found:
        shown.add_row(
            str(entry.id),
            timestamp(entry.created_at),
            str(entry.movement),
            Text(f"{entry.quantity:+,}", style="green" if entry.quantity > 0 else "red"),
            visible(entry.reference),
            visible(entry.return_id or "-"),
        )
    console.print(shown)


def _show_deduction(found: Deduction) -> None:
    name = visible(found.id)
    shown = table("deduction", name, wrap=(name,))
    shown.add_row("status", Text(str(found.status), style=COLOURS[found.status]))
    if found.status is DeductionStatus.VOIDED and not found.lines:
        shown.add_row("voided", f"{timestamp(found.created_at)}, before it came; it never will")
    else:
        shown.add_row("made", timestamp(found.created_at))
    if found.hold_until is not None:
        shown.add_row("held until", timestamp(found.hold_until))
    if found.confirmed_at is not None:
        shown.add_row("confirmed", timestamp(found.confirmed_at))
    if found.refusal is not None:
        facts = ", ".join(f"{name} {value}" for name, value in found.refusal.facts.items())
        shown.add_row("refused", visible(f"{found.refusal.error}: {facts}"))
    console.print(shown)
