"""The raw SQL limit: a bare driver loop over a table shaped like Windlass's own.

No handler, no retry, no lease, no membership: only the statements that any
task queue on that database must make. `python -m bench.raw VARIANT VERB N`.

    delete    claim 1,000 by a write that skips locked rows, finish them by a delete
    update    the same claim, finish them by an update that keeps the row
    read      the owner's read: no claim is written, finish by a delete
"""
