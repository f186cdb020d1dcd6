"""The SQL of flows: their runs, nodes, slots and templates."""
