"""The settings for Django's own tests: one database, and Windlass."""

import os
from urllib.parse import urlsplit

SECRET_KEY = "for tests"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["windlass.contrib.django"]
WINDLASS = {"MODULES": []}

url = urlsplit(os.environ["DATABASE_URL"])
if url.scheme == "sqlite":
    NAME = url.path[1:]
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": NAME,
            "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
            "TEST": {"NAME": f"{NAME}.test"},
        }
    }
else:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": url.path[1:],
            "USER": url.username or "",
            "HOST": url.hostname or "",
            "PORT": url.port or "",
        }
    }
