"""GPST on generated English: the trees that it induces, and what each of its parts is worth.

The models are small: several threads would wait for each other more than they work, so that the programs use one
unless the environment says otherwise. That has to be said before NumPy is loaded.
"""

import os
import sys

if "numpy" not in sys.modules:
    for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ.setdefault(_name, "1")
