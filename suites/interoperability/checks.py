"""The rows of inter-operation: what clients inside the cluster reach from nodes without an endpoint, while clients
outside do not; services beside each other; names. Data only.
"""

from esipp.checks.check import Row
from suites.interoperability import inside, trials

CELLS: tuple[Row, ...] = (*inside.CELLS, *trials.CELLS)
