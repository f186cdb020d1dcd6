"""The shop of `windlass demo`: a ship chandler with much work, in which much goes wrong.

`shop` is what a user of Windlass writes. The rest is the world around it: a service that it depends
on, customers, and failures.
"""
