"""Flows of nodes that do nothing: Windlass and the systems that run graphs, side by side.

`shape` says which graphs, `journal` proves that every node ran once and after
its parents, `contract` holds the one clock of all, `system` lists who is
measured, `measure` runs them and `table` shows what they took.
"""
