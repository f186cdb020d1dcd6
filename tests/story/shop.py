"""The shop that the pages speak of: one kind of each sort."""

from windlass import App, Keys

app = App("sqlite:///shop.db")


@app.task(retries=3, backoff="2s", timeout="30s")
def send_mail(to: str, subject: str = "hello") -> None:
    if "@" not in to:
        raise ValueError(f"{to!r} is no address")


@app.cron("0 3 * * *", timeout="1m")
def nightly_report() -> None: ...


@app.rolling(every="10d", rate="700/s", timeout="10s")
def stock_level(code: str) -> str:
    return f"{len(code)} in stock"


@app.sweep(Keys(1, 100), ranges=4, redo="4h", timeout="10s", group="sale")
def offer(article: int) -> None: ...


@app.task(timeout="10s")
def load(day: str) -> int:
    return 3


@app.task(timeout="10s")
def report(day: str, rows: int) -> None: ...


@app.flow
def nightly(flow, day: str = "2026-11-16"):
    loaded = flow.add(load, day)
    flow.add(report, day, loaded.result, after=loaded)
