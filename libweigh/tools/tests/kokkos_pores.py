# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Kernels of Kokkos 5: the pores between 27 spheres, three times. Prints what was found."""
import numpy
import peclet.pnm as pnm

SIDE, CELLS = 3, 12
axis = (numpy.arange(SIDE * CELLS) % CELLS - (CELLS - 1) / 2) / CELLS
squares = axis[:, None, None] ** 2 + axis[None, :, None] ** 2 + axis[None, None, :] ** 2
# Negative inside of what is solid.
distance = (numpy.sqrt(squares) - 0.45).astype(numpy.float32)
for _ in range(3):
    pores, segments, connections = pnm.extract_pore_network(distance, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    print(len(pores), "pores", int((segments > 0).sum()), "cells", len(connections), "connections")
pnm.finalize()
