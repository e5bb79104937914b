"""One thread for NumPy and Numba, unless the environment says otherwise: the models here are too small for several.

NumPy and Numba read these variables when they are loaded: a package imports this module before them.
"""

import os
import sys

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

if "numpy" not in sys.modules:
    for _name in THREADS:
        os.environ.setdefault(_name, "1")
