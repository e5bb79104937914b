// Many small arrays copied by one kernel.
#include "wide.cu"

#define ARRAY(k) const REAL *from##k, REAL *to##k, Long size##k
#define OF_FOUR(x, a, b, c, d) (which == a ? x##a : which == b ? x##b : which == c ? x##c : x##d)
#define OF_ALL(x) (which < 4 ? OF_FOUR(x, 0, 1, 2, 3) : OF_FOUR(x, 4, 5, 6, 7))

// Blocks: (part, array). One thread 16 bytes; an array that is not there has the size 0.
extern "C" __global__ void copy_arrays(
    ARRAY(0), ARRAY(1), ARRAY(2), ARRAY(3), ARRAY(4), ARRAY(5), ARRAY(6), ARRAY(7))
{
    const Long which = blockIdx.y, i = wide_place(from0), left = OF_ALL(size) - i;
    if (left > 0) store_wide(OF_ALL(to) + i, load_wide(OF_ALL(from) + i, left), left);
}
