// Factors of products, rounded to fewer bits of their mantissa: to nearest, ties to even.
#define QUIET_NAN 0x400000u  // the bit that every NaN keeps

// bits: of a float32 number; dropped: how many of its last bits become 0. A NaN stays one, infinity is above all numbers.
__device__ unsigned rounded(unsigned bits, int dropped)
{
    const unsigned unit = 1u << dropped;
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits | QUIET_NAN) & ~(unit - 1);
    return (bits + unit / 2 - 1 + ((bits >> dropped) & 1)) & ~(unit - 1);
}
