"""The CUDA kernels, compiled by g++ and run on the CPU."""
