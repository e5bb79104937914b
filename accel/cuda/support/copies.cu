// Many small arrays copied, or summed over parts, by one kernel.
#include "wide.cu"

#define ARRAY(k) const REAL *from##k, Long parts##k, REAL *to##k, Long size##k
#define FOUR(a, b, c, d) ARRAY(a), ARRAY(b), ARRAY(c), ARRAY(d)
#define OF_FOUR(x, a, b, c, d) (which == a ? x##a : which == b ? x##b : which == c ? x##c : x##d)
#define OF_EIGHT(x, a, b, c, d, e, f, g, h) (which < e ? OF_FOUR(x, a, b, c, d) : OF_FOUR(x, e, f, g, h))
#define OF_ALL(x)                                               \
    (which < p16 ? which < p8 ? OF_EIGHT(x, p0, p1, p2, p3, p4, p5, p6, p7)                \
                              : OF_EIGHT(x, p8, p9, p10, p11, p12, p13, p14, p15)          \
     : which < p24 ? OF_EIGHT(x, p16, p17, p18, p19, p20, p21, p22, p23)                   \
                   : OF_EIGHT(x, p24, p25, p26, p27, p28, p29, p30, p31))

enum { p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15, p16, p17, p18, p19, p20, p21, p22, p23,
       p24, p25, p26, p27, p28, p29, p30, p31 };

// Blocks: (part, array). One thread 16 bytes of the sum of the parts [parts, size]; an array that is not there has the
// size 0.
extern "C" __global__ void copy_arrays(
    FOUR(p0, p1, p2, p3), FOUR(p4, p5, p6, p7), FOUR(p8, p9, p10, p11), FOUR(p12, p13, p14, p15),
    FOUR(p16, p17, p18, p19), FOUR(p20, p21, p22, p23), FOUR(p24, p25, p26, p27), FOUR(p28, p29, p30, p31))
{
    const Long which = blockIdx.y, i = wide_place(fromp0), size = OF_ALL(size), left = size - i;
    if (left <= 0) return;
    const REAL* from = OF_ALL(from) + i;
    const Long parts = OF_ALL(parts);
    Wide<REAL> sum = load_wide(from, left);
    for (Long part = 1; part < parts; part++) {
        const Wide<REAL> piece = load_wide(from + part * size, left);
        for (int e = 0; e < WIDTH(REAL); e++) sum.x[e] += piece.x[e];
    }
    store_wide(OF_ALL(to) + i, sum, left);
}
