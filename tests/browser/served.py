"""The shop as workers and consoles load it: `tests.browser.served:app`."""

import os

from tests.browser.shop import Shop

app = Shop(os.environ["WINDLASS_DATABASE_URL"]).app
