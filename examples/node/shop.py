"""Price lists are loaded here; what is loaded, and when, is decided by a program in Node."""

import os

from windlass import App

app = App(os.environ.get("WINDLASS_DATABASE_URL", "sqlite:///node.db"))

ROWS = {"bolts.csv": 1_200, "nuts.csv": 800, "washers.csv": 400}


@app.task(timeout="30s")
def load_prices(file: str) -> int:
    """How many rows there were; that is what the program in Node waits for."""
    return ROWS[file]
