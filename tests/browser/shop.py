"""What the browser looks at: a shop with a kind for each thing that is tried."""

import asyncio
from typing import Any

from windlass import App, Keys, Table
from windlass.ledger import Ledger

# What somebody gives who wants a script of theirs to run in the console.
NASTY = "'><img src=x onerror=window.hacked=1>"
SCRIPT = "</pre><script>window.hacked=2</script>"
CODES = "nasty_code"


class Shop:
    """The kinds; a process that serves them and a test that fills them declare the same."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.app = App(url, lease="5s", dead_after="2s", grace="2s")
        self.ledger = Ledger(url)
        self._seen: set[Any] = set()
        self._declare_tasks()
        self._declare_flows()
        self._declare_walks()
        self._declare_nasty()

    def close(self) -> None:
        self.ledger.close()
        self.app.close()

    def fail_at_first(self, what: Any, error: str) -> None:
        """Fail when this is seen for the first time."""
        if what not in self._seen:
            self._seen.add(what)
            raise ValueError(error)

    def _declare_tasks(self) -> None:
        @self.app.task(keep="1h")
        async def send_mail(to: str) -> str:
            """Send a mail."""
            return f"sent to {to}"

        @self.app.task(keep="1h")
        async def print_label(order: int) -> str:
            """Print the label of a parcel."""
            return f"label {order}"

        @self.app.task(retries=0, keep="1h")
        async def charge_card(order: int) -> str:
            """Charge a card, which is refused at first."""
            self.fail_at_first(order, f"the card of order {order} was refused")
            return f"order {order} is paid"

        @self.app.task(retries=0, breaker="2 in a row, 1h")
        async def ask_partner(number: int) -> None:
            """Ask a partner who never answers."""
            raise TimeoutError("the partner does not answer")

        @self.app.task(retries=0, timeout="10m")
        async def export_year(year: int) -> None:
            """Take longer than any test."""
            await asyncio.sleep(500)

        @self.app.cron("0 3 * * *", tz="Asia/Shanghai")
        async def write_report() -> str:
            """Write the report of the day."""
            return "written"

        self.send_mail, self.print_label = send_mail, print_label
        self.charge_card, self.ask_partner, self.export_year = charge_card, ask_partner, export_year

    def _declare_flows(self) -> None:
        @self.app.task(retries=0, keep="1h")
        async def fetch(source: str) -> dict[str, object]:
            """Fetch rows."""
            return {"source": source, "rows": len(source)}

        @self.app.task(retries=0, keep="1h")
        async def publish(rows: dict[str, object], to: str = "shop") -> str:
            """Publish rows."""
            return f"{rows['source']} for {to}"

        @self.app.flow
        def nightly(flow: Any, order: int) -> None:
            """Fetch and publish; the card in between is refused at first."""
            rows = flow.add(fetch, "orders", name="fetch")
            paid = flow.add(self.charge_card, order, after=rows, name="charge")
            flow.add(publish, rows.result, after=[rows, paid], name="publish")

        self.fetch, self.publish, self.nightly = fetch, publish, nightly

    def _declare_walks(self) -> None:
        @self.app.rolling(every="10d")
        async def stock_level(code: str) -> str:
            """Ask for the stock of a product."""
            return f"7 of {code}"

        @self.app.sweep(Keys(1, 1_000_000), ranges=4, redo="1h", concurrency=2)
        async def offer(article: int) -> None:
            """Walk for longer than any test."""
            await asyncio.sleep(0.2)

        @self.app.sweep(Keys(1, 40), ranges=2, redo="1h", retries=0)
        async def shelf(number: int) -> None:
            """Walk over forty shelves, of which one is stuck at first."""
            if number == 13:
                self.fail_at_first("shelf", "shelf 13 is stuck")

        self.stock_level, self.offer, self.shelf = stock_level, offer, shelf

    def _declare_nasty(self) -> None:
        @self.app.task(name=f"kind {NASTY}", retries=0, keep="1h")
        async def nasty(text: str) -> str:
            """Give back what was given, or fail with it."""
            if text.startswith("fail"):
                raise ValueError(f"error {text}")
            return f"result {text}"

        @self.app.rolling(every="10d", name=f"rolling {NASTY}")
        async def nasty_item(code: str) -> str:
            return f"remark {code}"

        @self.app.sweep(
            Table(self.url, CODES, key="code"),
            ranges=2,
            redo="1h",
            retries=0,
            name=f"sweep {NASTY}",
        )
        async def nasty_row(row: Any) -> None:
            raise ValueError(f"row {NASTY}")

        @self.app.flow(name=f"flow {NASTY}")
        def nasty_flow(flow: Any, text: str) -> None:
            first = flow.add(nasty, text, name=f"node {NASTY}")
            flow.add(nasty, f"fail {text}", after=first, name=f"last {NASTY}")

        self.nasty, self.nasty_item, self.nasty_flow = nasty, nasty_item, nasty_flow
        self.nasty_row = nasty_row
