// What a GPU has instructions for: copies to shared memory that run beside the thread, and products of small matrices.
// Numbers that are copied are NaN until the thread has waited for their group, which is the latest that a GPU may take.
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "cuda_host.h"
#include "fibers.h"
#include "races.h"

namespace host {
void copy(void* to, const void* from, size_t size)
{
    const void* code = __builtin_return_address(0);
    if (size != 4 && size != 8 && size != 16) fail("copy_async: copies 4, 8 or 16 bytes, not " + std::to_string(size));
    if ((uintptr_t)to % size || (uintptr_t)from % size)
        fail("copy_async: both places must be multiples of " + std::to_string(size) + " bytes");
    if (!races::in_shared_memory(to, size)) fail("copy_async: copies to shared memory only");
    races::touch_copy(from, size, false, code);
    races::touch_copy(to, size, true, code);
    memset(to, 0xff, size);
    copies().push_back({to, from, size, code, false});
}
void end_group()
{
    copies().push_back({nullptr, nullptr, 0, nullptr, true});  // of a group that may be empty
}
bool copies_run()
{
    Copies& own = copies();
    while (!own.empty() && own.front().ends_group) own.pop_front();
    return !own.empty();
}
void wait_groups(int last)
{
    Copies& own = copies();
    int n_groups = 0;
    for (const Copy& copy : own) n_groups += copy.ends_group;
    while (n_groups > last) {
        const Copy copy = own.front();
        own.pop_front();
        n_groups -= copy.ends_group;
        if (copy.ends_group) continue;
        races::touch_copy(copy.from, copy.size, false, copy.code);
        races::touch_copy(copy.to, copy.size, true, copy.code);
        memcpy(copy.to, copy.from, copy.size);
    }
}

// The sum of exact products and of a number, as tensor cores of an H100 make it (Khattak and Mikaitis 2025,
// arXiv:2512.07004): every term is cut to a multiple of 2^(e - 25), where e is the largest exponent of all, the sum of
// these is exact, and it is cut to float32. Nothing is rounded to nearest.
static float sum_of_products(const float* x, const float* y, int n, float start)
{
    double terms[17], plain = start;
    terms[n] = start;
    int largest = INT32_MIN;
    for (int k = 0; k <= n; k++) {
        int of_x = 0, of_y = 0;
        if (k < n) {
            terms[k] = (double)x[k] * y[k];
            plain += terms[k];
            frexp(x[k], &of_x);
            frexp(y[k], &of_y);
        } else {
            frexp(start, &of_x);
            of_y = 1;  // a product lies in 1..4 times its power of two
        }
        if (terms[k] != 0 && isfinite(terms[k]) && of_x + of_y - 2 > largest) largest = of_x + of_y - 2;
    }
    if (!isfinite(plain) || largest == INT32_MIN) return plain;
    double sum = 0;  // of integers below 2^32
    for (int k = 0; k <= n; k++) sum += trunc(ldexp(terms[k], 25 - largest));
    const double exact = ldexp(sum, largest - 25);
    const float nearest = exact;
    return fabs((double)nearest) > fabs(exact) ? nextafterf(nearest, 0) : nearest;
}
static float from_bits(unsigned bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

struct Fragment { unsigned a[4], b[2]; };
typedef void (*Read)(const Fragment& fragment, int lane, float (*a)[16], float (*b)[8]);

// Adds to this lane's part of d [16, 8], as PTX has it: rows g and g + 8, columns 2t and 2t + 1 of lane 4g + t.
static void multiply(const char* file, int line, float* d, const unsigned* a, const unsigned* b, int depth, Read read)
{
    Fragment own;
    memcpy(own.a, a, sizeof own.a);
    memcpy(own.b, b, sizeof own.b);
    share(file, line, &own, sizeof own);
    float left[16][16], right[16][8];  // [row, k], [k, column]
    for (int other = 0; other < (int)WARP; other++) {
        const void* fragment = shared_by(other);
        if (!fragment) fail("mma: a warp of fewer than 32 threads");
        read(*(const Fragment*)fragment, other, left, right);
    }
    const int g = lane() / 4, t = lane() % 4;
    for (int i = 0; i < 4; i++) {
        float column[16];
        for (int k = 0; k < depth; k++) column[k] = right[k][2 * t + i % 2];
        d[i] = sum_of_products(left[g + i / 2 * 8], column, depth, d[i]);
    }
}
// Two numbers a word, the first one in the lower half.
static float half_of(unsigned word, int second) { return from_bits(second ? word & 0xffff0000u : word << 16); }
static void read_bf16(const Fragment& fragment, int lane, float (*a)[16], float (*b)[8])
{
    const int g = lane / 4, t = lane % 4;
    for (int word = 0; word < 4; word++)
        for (int second = 0; second < 2; second++)
            a[g + word % 2 * 8][2 * t + word / 2 * 8 + second] = half_of(fragment.a[word], second);
    for (int word = 0; word < 2; word++)
        for (int second = 0; second < 2; second++)
            b[2 * t + word * 8 + second][g] = half_of(fragment.b[word], second);
}
static void read_tf32(const Fragment& fragment, int lane, float (*a)[16], float (*b)[8])
{
    const int g = lane / 4, t = lane % 4;
    const unsigned kept = 0xffffe000u;  // the last 13 bits of a factor are not read
    for (int word = 0; word < 4; word++) a[g + word % 2 * 8][t + word / 2 * 4] = from_bits(fragment.a[word] & kept);
    for (int word = 0; word < 2; word++) b[t + word * 4][g] = from_bits(fragment.b[word] & kept);
}
void multiply_bf16(const char* file, int line, float* d, const unsigned* a, const unsigned* b)
{
    multiply(file, line, d, a, b, 16, read_bf16);
}
void multiply_tf32(const char* file, int line, float* d, const unsigned* a, const unsigned* b)
{
    multiply(file, line, d, a, b, 8, read_tf32);
}
}  // namespace host
