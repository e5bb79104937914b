"""The rules of the project itself: what is run where, and on which kernels."""
