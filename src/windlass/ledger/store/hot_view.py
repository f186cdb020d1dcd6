"""What hot lanes have of the stock, and whether their rows agree with the book."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from sqlalchemy import text

from windlass.database import schema
from windlass.database.dialect.base import Dialect, Executor
from windlass.ledger.model.hot import MOVED, HotState, HotStock, Record
from windlass.ledger.model.ledger import Stock
from windlass.ledger.store.dialect import row_lists

OF_SKUS = (
    "select a.lane, a.sku, a.quantity, a.recorded, s.quantity, a.is_open "
    "from windlass_hot_allotment as a "
    "join windlass_hot_synced as s on s.lane = a.lane and s.sku = a.sku {where}"
    "order by a.lane, a.sku"
)
ALL_SKUS = text(OF_SKUS.format(where=""))
ONE_SKU = text(OF_SKUS.format(where="where a.sku = :sku "))
LANES = text(
    "select l.name, l.address, l.epoch, l.opened_at, "
    "(select count(*) from windlass_hot_batch as b where b.lane = l.name) "
    "from windlass_hot_lane as l order by l.name"
)
MOVED_BY_SKU = text(
    "select sku, -sum(quantity) from windlass_stock_entry "
    "where movement = 'adjust' and reference >= :first and reference < :last group by sku"
)
PAGE = 1_000
SHOWN = 20


def hot_stocks(executor: Executor, sku: str | None = None) -> list[HotStock]:
    """What lanes have: of all SKUs, or of one."""
    if sku is None:
        rows: Sequence[Any] = executor.execute(ALL_SKUS, {}).fetchall()
    else:
        rows = executor.execute(ONE_SKU, {"sku": sku}).fetchall()
    return [
        HotStock(lane, of, allotted, allotted - sold, sold, sold - synced, bool(is_open))
        for lane, of, allotted, sold, synced, is_open in rows
    ]


def with_hot(executor: Executor, stocks: Sequence[Stock]) -> list[Stock]:
    """The same stocks with what hot lanes have of them."""
    if not stocks:
        return []
    found = hot_stocks(executor, stocks[0].sku if len(stocks) == 1 else None)
    left, unsynced = Counter[str](), Counter[str]()
    for each in found:
        left[each.sku] += each.left
        unsynced[each.sku] += each.unsynced
    return [
        replace(each, allotted=left[each.sku], unsynced=unsynced[each.sku])
        if each.sku in left
        else each
        for each in stocks
    ]


def hot_states(executor: Executor) -> list[HotState]:
    """All lanes and what they have."""
    by_lane = defaultdict[str, list[HotStock]](list)
    for each in hot_stocks(executor):
        by_lane[each.lane].append(each)
    return [
        HotState(name, address, epoch, opened_at, batches, tuple(by_lane[name]))
        for name, address, epoch, opened_at, batches in executor.execute(LANES, {}).fetchall()
    ]


def hot_problems(executor: Executor, dialect: Dialect) -> list[str]:
    """What is wrong with the rows of hot lanes; some of each sort."""
    found: list[str] = []
    for said in (_refused(executor), _unequal(executor), _miscounted(executor, dialect)):
        for number, line in enumerate(said):
            if number == SHOWN:
                found.append("... and more of this sort")
                break
            found.append(line)
    return found


def _refused(executor: Executor) -> Iterator[str]:
    query = text("select id, problem from windlass_hot_record where batch = '' order by id")
    for id_, why in executor.execute(query, {}).fetchall():
        yield f"hot deduction {id_!r} was answered, but is not in the book: {why}"


def _unequal(executor: Executor) -> Iterator[str]:
    """What has left the book must be what lanes can sell and what is not synced."""
    asked = {"first": MOVED, "last": MOVED[:-1] + ";"}
    rows = executor.execute(MOVED_BY_SKU, asked).fetchall()
    moved = Counter({sku: int(quantity) for sku, quantity in rows})
    kept = Counter[str]()
    for each in hot_stocks(executor):
        kept[each.sku] += each.left + each.unsynced
        if not 0 <= each.sold <= each.allotted or each.unsynced < 0:
            yield (
                f"hot lane {each.lane!r}, sku {each.sku!r}: {each.sold} sold of {each.allotted}, "
                f"{each.unsynced} of that not in the book"
            )
    for sku in sorted({*moved, *kept}):
        if moved[sku] != kept[sku]:
            yield (f"hot stock {sku!r}: {moved[sku]} left the book, but its lanes have {kept[sku]}")


def _miscounted(executor: Executor, dialect: Dialect) -> Iterator[str]:
    """What is not synced must be what the batches say, and they what their records say."""
    waiting = Counter[tuple[str, str]]()
    sums = {id_: (lane, said) for id_, lane, said in _batches(executor, dialect)}
    counted = defaultdict[str, Counter[str]](Counter)
    for batch, record in _records(executor, dialect):
        counted[batch].update(record.lines)
    for id_, (lane, said) in sums.items():
        for sku, quantity in said.items():
            waiting[lane, sku] += quantity
        if Counter(said) != counted[id_]:
            yield f"hot batch {id_}: it sold {said}, but its records say {dict(counted[id_])}"
    for id_ in sorted(counted.keys() - sums.keys()):
        yield f"hot batch {id_}: there are records of it, but no batch"
    for each in hot_stocks(executor):
        if waiting[each.lane, each.sku] != each.unsynced:
            yield (
                f"hot lane {each.lane!r}, sku {each.sku!r}: {each.unsynced} not in the book, "
                f"but its batches say {waiting[each.lane, each.sku]}"
            )


def _batches(executor: Executor, dialect: Dialect) -> list[tuple[str, str, dict[str, int]]]:
    columns = row_lists(dialect).select(schema.hot_batch, ("id", "lane", "sums"))
    rows = executor.execute(text(f"select {columns} from windlass_hot_batch as t"), {}).fetchall()
    return [(id_, lane, msgspec.json.decode(sums)) for id_, lane, sums in rows]


def _records(executor: Executor, dialect: Dialect) -> Iterable[tuple[str, Record]]:
    names = ("id", "batch", "decision", "body", "refusal")
    columns = row_lists(dialect).select(schema.hot_record, names)
    query = text(
        f"select {columns} from windlass_hot_record as t "
        "where t.id > :after and t.batch <> '' order by t.id limit :limit"
    )
    after = ""
    while rows := executor.execute(query, {"after": after, "limit": PAGE}).fetchall():
        after = rows[-1][0]
        for id_, batch, *rest in rows:
            yield batch, Record(id_, *rest)
