"""The tests of Windlass."""
