"""Transformer Grammars and the two Transformer-XL baselines: a demo, and a training on real trees.

These models are too small for several threads, so that the programs use one unless the environment says otherwise. The
variables must be set before NumPy is loaded.
"""

import os
import sys

if "numpy" not in sys.modules:
    for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ.setdefault(_name, "1")
