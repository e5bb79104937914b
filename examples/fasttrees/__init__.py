"""FastTrees, ON-LSTM and the FastTrees Transformer on generated data: each program takes one to three minutes.

These models are too small for several threads, so that the programs use one unless the environment says otherwise. The
variables must be set before NumPy is loaded.
"""

import os
import sys

if "numpy" not in sys.modules:
    for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ.setdefault(_name, "1")
