"""`python -m examples.sweep`: one round over 2,000 articles, cut differently on the way."""

from examples.sweep import shop
from examples.sweep.shop import app, offer


def main() -> None:
    """Run one round, look at the failed items, and retry them."""
    shop.fill()

    # Ranges are cut while the round runs; here before it runs, so that you can see them.
    offer.start()
    print(f"{len(offer.ranges())} ranges; now there are {offer.split(16)}")

    app.drain()  # a worker runs round after round
    progress = offer.progress()
    print(f"round {progress.round}: {progress.done:,} done, {progress.failed} failed")
    for failure in offer.failures():
        print(f"  {failure.key}: {failure.error}")

    # The other side is back: retry the failed items.
    shop.broken.clear()
    offer.retry_failures()
    print(f"after a retry {len(offer.failures())} are left")

    # Proof from the rows: no gap, no overlap, whatever was split.
    print(f"audit: {'all is well' if offer.audit().ok else offer.audit().problems}")
    app.close()


if __name__ == "__main__":
    main()
