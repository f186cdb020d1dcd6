"""The code of a user, as type checkers see it. Lines that end in `# refused` are mistakes."""

from typing import assert_type

from windlass import (
    App,
    ControlRun,
    Csv,
    Drawing,
    FlowRun,
    Keys,
    Retry,
    Status,
    SweepRun,
    TaskRef,
    context,
)
from windlass.ledger import Ledger

app = App("sqlite:///shop.db")


@app.task
def add_up(first: int, second: int = 0) -> int:
    return first + second


@app.task(retries=3, backoff="2s", timeout="30s", keep="1d")
async def send_mail(to: str, subject: str = "hello") -> dict[str, int]:
    if context().attempt > 3:
        raise Retry(after="10s")
    return {to: len(subject)}


@app.cron("0 3 * * *", tz="Asia/Shanghai")
def nightly_report() -> None: ...


@app.rolling(every="10d", rate="700/s")
def stock_level(code: str) -> str:
    return code


@app.sweep(Keys(1, 10), ranges=2)
async def offer(article: int) -> None: ...


@app.sweep()
def import_file(row: dict[str, str]) -> None: ...


@app.flow
def cancel_order(flow: Drawing, order: str) -> None:
    total = flow.add(add_up, 1, second=2)
    flow.add(send_mail, order, total.result, after=[total])


@app.controlled("fix-fields", expires="1h")
def fix_fields(run: ControlRun, table: str) -> int:
    return 1 if run.step(1) else 0


assert_type(add_up.enqueue(1, second=2), TaskRef[int])
assert_type(add_up.enqueue(1).result(), int)
assert_type(add_up.enqueue(1).status(), Status)
assert_type(add_up.using(key="a", delay="5m").enqueue(1).result(timeout="5s"), int)
assert_type([each.result() for each in add_up.enqueue_many([{"first": 1}])], list[int])
assert_type(send_mail.enqueue("ada@example.com").result(), dict[str, int])
assert_type(nightly_report.enqueue(), TaskRef[None])
assert_type(add_up(1), int)
assert_type(stock_level("bolt"), str)
assert_type(stock_level.add(["bolt"]), int)
assert_type(offer.start(), int)
assert_type(import_file.start(source=Csv("upload.csv", key="id"), key="upload-1"), SweepRun)
assert_type(import_file.runs(), list[SweepRun])
assert_type(cancel_order.start("order-7"), FlowRun)
assert_type(fix_fields("orders"), int)
assert_type(Ledger("sqlite:///shop.db").stock("bolt").available, int)
ref: TaskRef = add_up.enqueue(1)


async def use() -> None:
    assert_type(await send_mail("ada@example.com"), dict[str, int])
    mail = await send_mail.aenqueue("ada@example.com")
    assert_type(await mail.aresult(), dict[str, int])
    many = await send_mail.using(priority=1).aenqueue_many([{"to": "ada@example.com"}])
    assert_type(many[0].result(), dict[str, int])


add_up.enqueue("one")  # refused
add_up.enqueue(1, third=3)  # refused
add_up.using(key="a").enqueue()  # refused
send_mail.enqueue()  # refused
import_file.start(source="upload.csv")  # refused
import_file.start(key="upload-1")  # refused
cancel_order.start(7)  # refused
fix_fields(7)  # refused
