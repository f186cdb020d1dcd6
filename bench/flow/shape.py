"""The graphs that are run, as the parents of each node; a parent has the smaller number."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

WIDTH = 100


@dataclass(frozen=True)
class Shape:
    """A graph of a name like `fan-500`; node `n` waits for all of `parents[n]`."""

    name: str
    parents: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def layers(self) -> list[list[int]]:
        """The nodes by the longest way from a root, for systems that know steps but no graphs."""
        depth: list[int] = []
        layers: list[list[int]] = []
        for number, parents in enumerate(self.parents):
            depth.append(1 + max((depth[parent] for parent in parents), default=-1))
            if depth[number] == len(layers):
                layers.append([])
            layers[depth[number]].append(number)
        return layers

    @cached_property
    def ends(self) -> list[int]:
        """The nodes that no other waits for."""
        parents = {parent for several in self.parents for parent in several}
        return [number for number in range(len(self)) if number not in parents]


def named(name: str) -> Shape:
    """The shape `chain-N`, `fan-N` (one, N, one) or `layered-N` (layers of 100)."""
    kind, _, size = name.partition("-")
    parents = {"chain": chain, "fan": fan, "layered": layered}[kind](int(size))
    return Shape(name, tuple(parents))


def chain(length: int) -> list[tuple[int, ...]]:
    return [(number - 1,) if number else () for number in range(length)]


def fan(width: int) -> list[tuple[int, ...]]:
    return [(), *[(0,)] * width, tuple(range(1, width + 1))]


def layered(nodes: int) -> list[tuple[int, ...]]:
    """Layers of 100, where each node waits for three of the layer before."""
    parents: list[tuple[int, ...]] = [()] * WIDTH
    for number in range(WIDTH, nodes):
        begin, index = number // WIDTH * WIDTH - WIDTH, number % WIDTH
        parents.append(tuple(begin + (index + away) % WIDTH for away in (0, 1, 7)))
    return parents
