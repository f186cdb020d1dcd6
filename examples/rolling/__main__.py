"""`python -m examples.rolling`: the first round of a new catalogue, and one product now."""

from examples.rolling import shop
from examples.rolling.inventory import serving

PRODUCTS = 150


def main() -> None:
    """Import a catalogue, visit all of it once, and look at what came of it."""
    with serving() as shop.inventory_url:
        codes = [f"SKU-{number:03d}" for number in range(PRODUCTS)]
        print(f"{shop.stock_level.add(codes)} products are new")

        # A worker does this without end; here one round is enough.
        shop.app.drain()
        items = [shop.stock_level.item(code) for code in codes]
        failed = [item for item in items if item and str(item.status) == "failed"]
        print(f"all were asked for once, {len(failed)} did not answer and come again in a minute")

        # A customer looks at a product: have it now, unless it is fresh.
        item = shop.stock_level.visit("SKU-007", fresh="0s", timeout="10s")
        print(f"SKU-007, asked for just now: {item.remark}")

        print(shop.stock_level.freshness().forecast)
    shop.app.close()


if __name__ == "__main__":
    main()
