"""The shop of `windlass demo`, with much work and many failures.

`shop` is what a user of Windlass writes. The rest simulates its surroundings: a service that it
depends on, customers and failures.
"""

# The URLs of the database and of the service, in the environment of all processes of the demo. They
# are not arguments because a URL may have a password.
DATABASE = "WINDLASS_DEMO_DATABASE"
SERVICE = "WINDLASS_DEMO_SERVICE"
# The secret of the webhook to the inbox, and the URL of a message broker if there is one.
INBOX = "WINDLASS_DEMO_INBOX"
BROKER = "WINDLASS_DEMO_BROKER"
