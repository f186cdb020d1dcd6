"""The shop of `windlass demo`: a ship chandler whose work never ends, and in which much goes wrong.

`shop` is what a user of Windlass would write. The rest is the world around it: a service that it
depends on, customers, and somebody who kills its workers.
"""
