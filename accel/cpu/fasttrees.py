"""Recurrent layers of FastTrees and ON-LSTM (`recurrence`, `scan`), and the trees of their distances.

Mirrors `refimpl.fasttrees`.
"""

from accel.cpu.distance_trees import distance_trees
from accel.cpu.recurrence import recurrence, recurrence_vjp
from accel.cpu.scan import scan, scan_vjp

__all__ = ["distance_trees", "recurrence", "recurrence_vjp", "scan", "scan_vjp"]
