// Sixteen bytes at once: what passes over the elements of arrays load and store in one instruction.
#include "warp.cu"

#define WIDTH(T) ((int)(16 / sizeof(T)))  // elements of a piece

template <class T> struct alignas(16) Wide { T x[WIDTH(T)]; };

// Of the piece that starts at this thread's element: the number of its first element.
template <class T> __device__ Long wide_place(const T*) { return ((Long)blockIdx.x * blockDim.x + threadIdx.x) * WIDTH(T); }

// The `left` numbers at x, at most a piece. An array that does not begin at a multiple of 16 bytes is read one by one.
template <class T> __device__ Wide<T> load_wide(const T* x, Long left)
{
    if (left >= WIDTH(T) && (Bits)x % 16 == 0) return *(const Wide<T>*)x;
    Wide<T> piece = {};
    for (int e = 0; e < WIDTH(T); e++)
        if (e < left) piece.x[e] = x[e];
    return piece;
}

template <class T> __device__ void store_wide(T* x, const Wide<T>& piece, Long left)
{
    if (left >= WIDTH(T) && (Bits)x % 16 == 0) *(Wide<T>*)x = piece;
    else
        for (int e = 0; e < WIDTH(T); e++)
            if (e < left) x[e] = piece.x[e];
}
