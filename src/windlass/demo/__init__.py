"""The shop of `windlass demo`, with much work and many failures.

`shop` is what a user of Windlass writes. The rest simulates its surroundings: a service that it
depends on, customers and failures.
"""
