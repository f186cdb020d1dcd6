"""`windlass ring`: the workers of the ring, what each owns, and which joined and left."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from windlass.cli.load import AppOption, JsonOption, load_app
from windlass.cli.output import (
    check_watch,
    console,
    counted,
    fits,
    plain,
    print_json,
    redraw,
    refuse,
    say,
    table,
    timestamp,
    visible,
    warn_missing,
    when,
)
from windlass.value.bucket import BUCKETS
from windlass.value.duration import format_duration
from windlass.view.listing import Listing

if TYPE_CHECKING:
    from windlass.operate.ring.operate import MemberView, RingMove, RingView

MOVES_SHOWN = 10
RUNS_SHOWN = 4
MOST = {"host": 24}
CLEAN = "stopped"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
HUES = ("cyan", "magenta", "yellow", "blue", "green", "red")
COLOURS = (*HUES, *(f"bright_{hue}" for hue in HUES))
BAND_CELLS = 64
# A cell of a terminal is about twice as high as it is wide: each is two points of the circle.
CIRCLE_COLUMNS = 36
CIRCLE_ROWS = CIRCLE_COLUMNS // 2
HOLE = 0.6

WatchOption = Annotated[
    bool, typer.Option("--watch", help="Draw it again every second, until Ctrl-C.")
]


PlanOption = Annotated[
    str | None,
    typer.Option("--plan", metavar="+N", help="The ring before and after N workers join."),
]


def ring(
    app: AppOption = None,
    watch: WatchOption = False,
    plan: PlanOption = None,
    as_json: JsonOption = False,
) -> None:
    """Which worker owns which part of the rows, and who joined and left."""
    check_watch(watch, as_json=as_json)
    joining = None if plan is None else _joining(plan)
    if joining is not None and watch:
        refuse("--plan is about what would be; leave --watch out")
    loaded = load_app(app, needs_kinds=False)
    from windlass.operate.ring.operate import rings

    loaded.prepare()
    if watch:
        redraw(lambda: _watched(rings(loaded.fleet, tries=1)))
        return
    found = rings(loaded.fleet)
    warn_missing(found.missing)
    if joining is not None:
        _show_plans(found, joining, as_json=as_json)
        return
    if as_json:
        is_alone = loaded.fleet.single is not None
        print_json(_for_programs(found[0]) if is_alone else _all_for_programs(found))
    else:
        console.print(_pictures(found, is_round=_has_colours()))


def _joining(given: str) -> int:
    if not re.fullmatch(r"\+?[0-9]{1,4}", given):
        refuse(f"--plan {given}: give how many workers join, such as +2")
    return int(given)


def _show_plans(found: Sequence[RingView], joining: int, *, as_json: bool) -> None:
    from windlass.operate.ring.operate import plan

    plans = [plan(each, joining) for each in found]
    if as_json:
        print_json(plain(plans[0]) if len(plans) == 1 else plain(plans))
        return
    for number, each in enumerate(plans):
        if number:
            say("")
        say(each.database)
        join = "joins" if joining == 1 else "join"
        say(
            f"{counted(joining, 'worker')} {join}: {each.moving} of {BUCKETS} buckets "
            f"{'gets' if each.moving == 1 else 'get'} another owner"
        )
        shown = table("worker", "token", "buckets", "token then", "buckets then")
        for member in each.members:
            shown.add_row(
                Text(member.id, style="green" if member.is_new else ""),
                *(_token(member.token), _range(member.buckets)),
                *(_token(member.new_token), _range(member.new_buckets)),
            )
        console.print(shown)
        say("Which token a new worker gets follows from the id it is given when it joins.")


def _token(token: int | None) -> str:
    return "-" if token is None else f"{token:,}"


def _range(buckets: range | None) -> str:
    if not buckets:
        return "-"
    return f"{buckets[0]}-{buckets[-1]} ({100 * len(buckets) / BUCKETS:.1f} %)"


def _watched(found: Listing[RingView]) -> RenderableType:
    """The picture as it fits the screen."""
    problem = f"{', '.join(found.missing)} does not answer" if found.missing else ""
    picture = _pictures(found, is_round=_has_colours())
    if len(console.render_lines(picture, pad=False)) + bool(problem) > console.height:
        picture = _pictures(found, is_round=False)
    return Group(Text(problem, style="red"), picture) if problem else picture


def _has_colours() -> bool:
    return console.is_terminal and console.color_system is not None and not console.no_color


def _pictures(found: Sequence[RingView], *, is_round: bool) -> RenderableType:
    """Each shard has a ring of its own."""
    parts: list[RenderableType] = []
    for ring in found:
        parts += [*([Text()] if parts else []), _picture(ring, is_round=is_round)]
    return Group(*parts)


def _picture(found: RingView, *, is_round: bool) -> RenderableType:
    marks = dict(
        zip((member.id for member in found.members), marks_of(len(found.members)), strict=True)
    )
    parts: list[RenderableType] = [Text(found.database, style="bold"), Text()]
    if found.members:
        parts += [_drawn(found, marks, is_round=is_round), Text(), *_tables(found, marks)]
    else:
        parts.append(Text("No worker is in the ring.", style="yellow"))
        parts += _remarks(found)
    if found.moves:
        parts += [Text(), _came_and_went(found.moves[:MOVES_SHOWN], found.now)]
    return Group(*parts)


def _drawn(found: RingView, marks: dict[int, MemberMark], *, is_round: bool) -> RenderableType:
    buckets = [NOBODY] * BUCKETS
    for member in found.members:
        for run in member.buckets:
            buckets[run.start : run.stop] = [marks[member.id]] * len(run)
    said = found.known_by if found.known_by != "database" else "the database"
    members, by = counted(len(found.members), "member"), f"by {said}"
    owned = f"{found.owned} of {BUCKETS}"
    if not is_round:
        line = band(buckets, in_colour=_has_colours())
        return Group(
            line, Text(), Text(f"{members} {by}, {owned} buckets owned."), *_remarks(found)
        )
    words = [Text(members, style="bold"), Text(by, style="bright_black"), Text()]
    words += [Text(owned, style="bold"), Text("buckets owned", style="bright_black")]
    beside = Group(*_legend(found, marks), Text(), *_remarks(found))
    side = Table.grid(padding=(0, 4, 0, 0))
    side.add_column(no_wrap=True)
    side.add_column(vertical="middle")
    side.add_row(circle(buckets, words), beside)
    return side


def _legend(found: RingView, marks: dict[int, MemberMark]) -> list[Text]:
    most = CIRCLE_ROWS - 8
    shown = found.members if len(found.members) <= most else found.members[: most - 1]
    width = max(len(str(member.id)) for member in shown)
    lines = [
        Text.assemble(
            ("██ ", marks[member.id].colour),
            (f"{marks[member.id].letter}  ", "bold"),
            f"worker {member.id:<{width}} ",
            (_percent(member.share), "bright_black"),
        )
        for member in shown
    ]
    if len(shown) < len(found.members):
        lines.append(Text(f"and {len(found.members) - len(shown)} more", style="bright_black"))
    return lines


def _remarks(found: RingView) -> list[Text]:
    """What is unusual."""
    remarks: list[Text] = []
    if found.moving:
        number = counted(found.moving, "bucket")
        remarks.append(Text(f"{number} not yet with the worker they are meant for.", "yellow"))
    if found.careful_to is not None:
        number = counted(sum(map(len, found.careful)), "bucket")
        remarks.append(
            Text(
                f"{number} of dead workers: what was due before "
                f"{timestamp(found.careful_to)} is claimed before it runs.",
                "yellow",
            )
        )
    if found.offers:
        remarks.append(Text(f"{counted(found.offers, 'row')} offered to workers that have time."))
    return remarks


def _tables(found: RingView, marks: dict[int, MemberMark]) -> list[RenderableType]:
    owns, lives = ("share", "buckets", "token"), ("host", "pid", "kinds", "idle", "lease", "joined")
    right = ("worker", "token", "pid", "kinds", "idle", "lease")
    whole = table("", "worker", *owns, *lives, right=right, wrap=("buckets",), most=MOST)
    owning = table("", "worker", *owns, right=right, wrap=("buckets",))
    living = table("", "worker", *lives, right=right, most=MOST)
    kinds = {kind for member in found.members for kind in member.kinds}
    for member in found.members:
        mark = marks[member.id]
        name = [Text(mark.letter, style=f"bold {mark.colour}"), Text(str(member.id))]
        owned, life = _owned(member), _life(member, kinds, found.now)
        whole.add_row(*name, *owned, *life)
        owning.add_row(*name, *owned)
        living.add_row(*name, *life)
    return [whole] if fits(whole) else [owning, Text(), living]


def _owned(member: MemberView) -> list[Text]:
    share = Text.assemble(_percent(member.share))
    if member.share != member.wanted_share:
        share.append(f" → {_percent(member.wanted_share).strip()}", style="yellow")
    runs = [_run(run) for run in member.buckets[:RUNS_SHOWN]]
    more = len(member.buckets) - len(runs)
    runs += [f"{more} more"] if more else []
    return [share, Text(", ".join(runs) or "-"), Text(str(member.token))]


def _life(member: MemberView, kinds: set[str], now: int) -> list[Text]:
    served = "all" if len(member.kinds) == len(kinds) else f"{len(member.kinds)} of {len(kinds)}"
    left = member.lease_until - now
    is_silent = left < 0
    return [
        Text(visible(member.host)),
        Text(str(member.pid)),
        Text(served),
        Text(f"{member.idle:,}" if member.idle else "-"),
        Text(
            ("-" if is_silent else "") + format_duration(abs(left)),
            style="red" if is_silent else "",
        ),
        Text(when(member.joined_at, now=now)),
    ]


def _came_and_went(moves: list[RingMove], now: int) -> Table:
    right = ("ago", "worker", "pid")
    columns = ("when", "ago", "worker", "what", "why")
    whole = table(*columns, "host", "pid", right=right, wrap=("why",), most=MOST)
    narrow = table(*columns, right=right, wrap=("why",))
    for move in moves:
        why = move.why or ""
        if move.before is not None:
            why = f"it was worker {move.before} before"
        style = "green" if move.what == "joined" else "bright_black" if why == CLEAN else "red"
        cells = [
            Text(timestamp(move.at)),
            Text(format_duration(max(0, now - move.at))),
            Text(str(move.worker)),
            Text(move.what, style=style),
            Text(visible(why)),
        ]
        whole.add_row(*cells, Text(visible(move.host)), str(move.pid))
        narrow.add_row(*cells)
    return whole if fits(whole) else narrow


def _percent(share: float) -> str:
    return f"{share:5.1f} %"


def _run(run: range) -> str:
    return str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}"


def _for_programs(found: RingView) -> dict[str, Any]:
    """A ring for `--json`: the first and the last bucket of each run of buckets."""
    shown: dict[str, Any] = plain(found, without=("buckets", "members.is_alive"))
    for member, view in zip(shown["members"], found.members, strict=True):
        member |= {"shard": found.database, "wanted": plain([view.wanted] if view.wanted else [])}
    return shown


def _all_for_programs(found: Listing[RingView]) -> dict[str, Any]:
    """Members and moves of all shards in one list each, and what is left of each shard."""
    shards = [_for_programs(ring) for ring in found]
    members = [member for shard in shards for member in shard.pop("members")]
    moves = [
        {"shard": shard["database"], **move} for shard in shards for move in shard.pop("moves")
    ]
    return {"shards": shards, "members": members, "moves": moves, "missing": found.missing}


class MemberMark(NamedTuple):
    """How a member of the ring is drawn."""

    letter: str
    colour: str


NOBODY = MemberMark("·", "bright_black")


def marks_of(count: int) -> list[MemberMark]:
    """Marks for `count` members in the order of the ring; neighbours differ in colour."""
    colours = COLOURS if count % len(COLOURS) != 1 else COLOURS[:-1]
    return [
        MemberMark(LETTERS[place] if place < len(LETTERS) else "+", colours[place % len(colours)])
        for place in range(count)
    ]


def band(buckets: Sequence[MemberMark], *, in_colour: bool) -> Text:
    """The ring in one line: a letter a cell, or a strip of colour with its letter in the middle."""
    cells = [buckets[cell * len(buckets) // BAND_CELLS] for cell in range(BAND_CELLS)]
    line = Text(no_wrap=True)
    for mark, run in groupby(cells):
        width = len(list(run))
        if in_colour and mark is not NOBODY:
            line.append(mark.letter.center(width), Style(color="black", bgcolor=mark.colour))
        else:
            line.append(mark.letter * width, mark.colour if in_colour else "")
    return line


def circle(buckets: Sequence[MemberMark], words: Sequence[Text]) -> Group:
    """The ring as a circle, clockwise from the top, with `words` in the middle of it."""
    rows = [_row(buckets, row) for row in range(CIRCLE_ROWS)]
    first = (CIRCLE_ROWS - len(words)) // 2
    for row, text in enumerate(words, start=first):
        begin = (CIRCLE_COLUMNS - text.cell_len) // 2
        rows[row] = rows[row][:begin] + text + rows[row][begin + text.cell_len :]
    return Group(*rows)


def _row(buckets: Sequence[MemberMark], row: int) -> Text:
    line = Text(no_wrap=True)
    for column in range(CIRCLE_COLUMNS):
        upper = _colour_at(buckets, column, 2 * row)
        lower = _colour_at(buckets, column, 2 * row + 1)
        if upper is None:
            line.append(" " if lower is None else "▄", lower or "")
        else:
            line.append("▀" if lower != upper else "█", Style(color=upper, bgcolor=lower))
    return line


def _colour_at(buckets: Sequence[MemberMark], column: int, row: int) -> str | None:
    """The colour of one point; None beside the ring."""
    radius = CIRCLE_COLUMNS / 2
    right, up = column + 0.5 - radius, radius - row - 0.5
    if not HOLE * radius <= math.hypot(right, up) <= radius:
        return None
    turn = math.atan2(right, up) / math.tau % 1.0
    return buckets[int(turn * len(buckets))].colour
