"""What must be true of the ledger's rows, and a line for each row of which it is not.

Each query puts what several tables say of the same key side by side, and adds it up: one pass over
each table, whatever its size, and no join for a database to plan badly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from sqlalchemy import text

from windlass.store.dialect.base import Executor

SHOWN_OF_EACH = 20

BY_SKU = """
select * from (
    select sku, sum(known) as known, sum(available) as available, sum(received) as received,
        sum(deducted) as deducted, sum(returned) as returned, sum(entered) as entered,
        sum(entered_in) as entered_in, sum(entered_out) as entered_out,
        sum(entered_back) as entered_back, sum(line_out) as line_out, sum(line_back) as line_back
    from (
        select sku, 1 as known, available, received, deducted, returned, 0 as entered,
            0 as entered_in, 0 as entered_out, 0 as entered_back, 0 as line_out, 0 as line_back
        from windlass_stock
        union all
        select sku, 0, 0, 0, 0, 0, quantity,
            case when movement in ('restock', 'adjust') then quantity else 0 end,
            case when movement = 'deduct' then -quantity else 0 end,
            case when movement in ('return', 'void', 'lapse') then quantity else 0 end, 0, 0
        from windlass_stock_entry
        union all
        select sku, 0, 0, 0, 0, 0, 0, 0, 0, 0, quantity, returned from windlass_deduction_line
    ) as parts group by sku
) as sums
where known = 0 or available < 0 or returned < 0 or returned > deducted
    or received <> available + deducted - returned or available <> entered
    or received <> entered_in or deducted <> entered_out or returned <> entered_back
    or deducted <> line_out or returned <> line_back
"""

BY_LINE = """
select * from (
    select deduction_id, sku, sum(known) as known, sum(quantity) as quantity,
        sum(returned) as returned, sum(given_back) as given_back, sum(entered) as entered
    from (
        select deduction_id, sku, 1 as known, quantity, returned, 0 as given_back, 0 as entered
        from windlass_deduction_line
        union all
        select deduction_id, sku, 0, 0, 0, quantity, 0 from windlass_return_line
        union all
        select reference, sku, 0, 0, 0, 0, -quantity from windlass_stock_entry
        where movement = 'deduct'
    ) as parts group by deduction_id, sku
) as sums
where known <> 1 or quantity <= 0 or returned < 0 or returned > quantity
    or returned <> given_back or quantity <> entered
"""

BY_RETURN_LINE = """
select * from (
    select deduction_id, return_id, sku, sum(quantity) as quantity, sum(entered) as entered
    from (
        select deduction_id, return_id, sku, quantity, 0 as entered from windlass_return_line
        union all
        select reference, return_id, sku, 0, quantity from windlass_stock_entry
        where movement in ('return', 'void', 'lapse')
    ) as parts group by deduction_id, return_id, sku
) as sums
where quantity <> entered or quantity <= 0
"""

BY_DEDUCTION = """
select * from (
    select deduction_id, sum(known) as known, sum(has_effect) as has_effect,
        sum(is_over) as is_over, sum(line_one) as line_count, sum(remaining) as remaining
    from (
        select id as deduction_id, 1 as known,
            case when body is not null and refusal is null then 1 else 0 end as has_effect,
            case when status in (3, 4) then 1 else 0 end as is_over, 0 as line_one, 0 as remaining
        from windlass_deduction
        union all
        select deduction_id, 0, 0, 0, 1, quantity - returned from windlass_deduction_line
    ) as parts group by deduction_id
) as sums
where known <> 1 or (has_effect = 0 and line_count > 0) or (has_effect = 1 and line_count = 0)
    or (is_over = 1 and remaining <> 0)
"""

BY_RETURN = """
select * from (
    select deduction_id, return_id, sum(done) as done, sum(line_one) as line_count from (
        select deduction_id, return_id, case when refusal is null then 1 else 0 end as done,
            0 as line_one
        from windlass_stock_return
        union all
        select deduction_id, return_id, 0, 1 from windlass_return_line
    ) as parts group by deduction_id, return_id
) as sums
where done = 0 and line_count > 0
"""

BY_RECEIPT = """
select * from (
    select movement, id, sum(done) as done, sum(entry_one) as entry_count from (
        select movement, id, case when refusal is null then 1 else 0 end as done, 0 as entry_one
        from windlass_stock_receipt
        union all
        select movement, reference, 0, 1 from windlass_stock_entry
        where movement in ('restock', 'adjust')
    ) as parts group by movement, id
) as sums
where (done = 0 and entry_count > 0) or (done = 1 and entry_count = 0)
"""


class Rule(NamedTuple):
    """A query for what is wrong, and what is said of a row of it."""

    query: str
    say: Callable[[Any], Iterator[str]]


def problems(executor: Executor) -> list[str]:
    """A line for each thing that is wrong; of many of one sort, the first."""
    found: list[str] = []
    for rule in RULES:
        query = text(f"{rule.query} limit {SHOWN_OF_EACH + 1}")
        broken = executor.execute(query, {}).fetchall()
        for row in broken[:SHOWN_OF_EACH]:
            found += rule.say([_plain(value) for value in row])
        if len(broken) > SHOWN_OF_EACH:
            found.append(f"... and more of this sort, after {_plain(broken[-2][0])!r}")
    return found


def _say_of_sku(row: Any) -> Iterator[str]:
    sku, known, available, received, deducted, returned, entered, *sums = row
    entered_in, entered_out, entered_back, line_out, line_back = sums
    what = f"stock {sku!r}:"
    if not known:
        yield f"{what} there are entries or deductions of it, but no stock"
        return
    if available < 0:
        yield f"{what} {available} available is negative"
    if not 0 <= returned <= deducted:
        yield f"{what} {returned} returned of {deducted} deducted"
    if received != available + deducted - returned:
        yield (
            f"{what} received {received} is not available {available} + deducted {deducted} "
            f"- returned {returned}"
        )
    if available != entered:
        yield f"{what} {available} available, but its entries add up to {entered}"
    if (received, deducted, returned) != (entered_in, entered_out, entered_back):
        yield (
            f"{what} received {received}, deducted {deducted}, returned {returned}, "
            f"but its entries say {entered_in}, {entered_out}, {entered_back}"
        )
    if (deducted, returned) != (line_out, line_back):
        yield (
            f"{what} deducted {deducted}, returned {returned}, "
            f"but the lines of its deductions say {line_out}, {line_back}"
        )


def _say_of_line(row: Any) -> Iterator[str]:
    deduction, sku, known, quantity, returned, given_back, entered = row
    what = f"deduction {deduction!r}, sku {sku!r}:"
    if not known:
        yield f"{what} it was never deducted, but {entered} left and {given_back} came back"
        return
    if quantity <= 0 or not 0 <= returned <= quantity:
        yield f"{what} {returned} returned of {quantity} deducted"
    if returned != given_back:
        yield f"{what} {returned} returned, but its returns add up to {given_back}"
    if quantity != entered:
        yield f"{what} {quantity} deducted, but its entries say {entered}"


def _say_of_return_line(row: Any) -> Iterator[str]:
    deduction, return_id, sku, quantity, entered = row
    yield (
        f"return {return_id!r} of deduction {deduction!r}, sku {sku!r}: "
        f"{quantity} came back, but its entries say {entered}"
    )


def _say_of_deduction(row: Any) -> Iterator[str]:
    deduction, known, has_effect, is_over, lines, remaining = row
    what = f"deduction {deduction!r}"
    if not known:
        yield f"{what}: there are lines of it, but no deduction"
    elif not has_effect and lines:
        yield f"{what} was refused or never came, but it has lines"
    elif has_effect and not lines:
        yield f"{what} was made, but it has no lines"
    if is_over and remaining:
        yield f"{what} is over, but {remaining} did not come back"


def _say_of_return(row: Any) -> Iterator[str]:
    deduction, return_id, _, lines = row
    yield (
        f"return {return_id!r} of deduction {deduction!r} was refused or never came, "
        f"but it has {lines} lines"
    )


def _say_of_receipt(row: Any) -> Iterator[str]:
    movement, of, _, entries = row
    if entries:
        yield f"{movement} {of!r} was refused or never came, but it has {entries} entries"
    else:
        yield f"{movement} {of!r} was made, but it has no entries"


RULES = (
    Rule(BY_SKU, _say_of_sku),
    Rule(BY_LINE, _say_of_line),
    Rule(BY_RETURN_LINE, _say_of_return_line),
    Rule(BY_DEDUCTION, _say_of_deduction),
    Rule(BY_RETURN, _say_of_return),
    Rule(BY_RECEIPT, _say_of_receipt),
)


def _plain(value: object) -> object:
    """A sum comes as a decimal from some databases."""
    return value if isinstance(value, str | int) else int(str(value))
