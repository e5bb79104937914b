// CUDA C++ for g++: put in front of a .cu file. cuda_host.cc runs its threads, races.cc watches its memory.
#include <math.h>
#include <stddef.h>

#include <string>
#include <utility>

#define __global__
#define __device__ static
#define __shared__ static __attribute__((section("shared_memory")))
#define DYNAMIC_SHARED(name) REAL* name = (REAL*)host::dynamic_shared()
#define WIDE_SHARED(name) DYNAMIC_SHARED(name)
#define __syncthreads() host::wait(host::AT_BLOCK, __FILE__, __LINE__)
#define __syncwarp() host::wait(host::AT_WARP, __FILE__, __LINE__)
#define ON_HOST  // what follows takes the place of accel/cuda/support/hardware.cu
#define grid_sync(word) host::wait(host::AT_GRID, __FILE__, __LINE__)
#define copy_async(to, from) host::copy(to, from, sizeof *(to))
#define commit_copies() host::end_group()
#define wait_copies(groups) host::wait_groups(groups)
#define mma_bf16(d, a, b) host::multiply_bf16(__FILE__, __LINE__, d, a, b)
#define mma_tf32(d, a, b) host::multiply_tf32(__FILE__, __LINE__, d, a, b)
#define DELETED_BARRIER() host::pass_deleted_barrier()
#define __shfl_sync(mask, value, lane) host::exchange(__FILE__, __LINE__, value, lane)
#define __shfl_up_sync(mask, value, lanes) \
    host::exchange(__FILE__, __LINE__, value, host::lane() - (host::lane() >= (lanes) ? (lanes) : 0))
#define __shfl_xor_sync(mask, value, lanes) host::exchange(__FILE__, __LINE__, value, host::lane() ^ (lanes))
#define __popc(word) __builtin_popcount(word)
#define __float_as_uint(x) host::bits_as<unsigned>((float)(x))
#define __uint_as_float(bits) host::bits_as<float>((unsigned)(bits))
#define threadIdx host::place.thread
#define blockIdx host::place.block
#define blockDim host::place.block_size
#define gridDim host::place.grid_size
#define UNWATCHED __attribute__((no_sanitize("thread"), noinline))  // by races.cc

struct dim3 { unsigned x, y, z; };

namespace host {
struct Place { dim3 thread, block, block_size, grid_size; };
struct Launch {
    unsigned grid[3], block[3];
    size_t shared;             // bytes of dynamic shared memory a block
    unsigned long long order;  // the seed of the order in which threads run
    long long cooperative;     // whether all blocks run at once, so that they can wait for each other
    void** args;               // the address of every argument
};
enum State { READY, AT_BLOCK, AT_WARP, AT_GRID, DONE };
typedef void (*Call)(void (*kernel)(), void** args);

extern Place place;
int lane();
void* dynamic_shared();
void wait(State state, const char* file, int line);
void exchange_bytes(const char* file, int line, void* value, size_t size, int from);
void copy(void* to, const void* from, size_t size);
void end_group();
void wait_groups(int last);  // for all groups but the last ones
void multiply_bf16(const char* file, int line, float* d, const unsigned* a, const unsigned* b);
void multiply_tf32(const char* file, int line, float* d, const unsigned* a, const unsigned* b);
void watch_atomic(void* place, size_t size);
void pass_deleted_barrier();
const char* run(Call call, void (*kernel)(), const Launch* launch);  // what went wrong, or null

template <class T> static T exchange(const char* file, int line, T value, int from)
{
    exchange_bytes(file, line, &value, sizeof value, from);
    return value;
}

template <class T, class S> static T bits_as(S x)
{
    T bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

template <class... A> struct Kernel {
    template <size_t... I> UNWATCHED static void give(void (*kernel)(A...), void** args, std::index_sequence<I...>)
    {
        kernel(*(A*)args[I]...);
    }
    UNWATCHED static void call(void (*kernel)(), void** args)
    {
        give((void (*)(A...))kernel, args, std::index_sequence_for<A...>());
    }
};
template <class... A> static Call caller(void (*)(A...)) { return Kernel<A...>::call; }

static std::string code(float) { return "f4 "; }
static std::string code(double) { return "f8 "; }
static std::string code(int) { return "i4 "; }
static std::string code(unsigned) { return "u4 "; }
static std::string code(unsigned short) { return "u2 "; }
static std::string code(long long) { return "i8 "; }
static std::string code(unsigned long long) { return "u8 "; }
template <class T> static std::string code(T*) { return "*" + code(T()); }
template <class... A> static std::string signature(void (*)(A...)) { return (std::string() + ... + code(A())); }
}  // namespace host

template <class T> UNWATCHED static T atomicOr(T* place, T value)
{
    host::watch_atomic(place, sizeof value);
    const T before = *place;
    *place = before | value;
    return before;
}
template <class T> UNWATCHED static T atomicAdd(T* place, T value)
{
    host::watch_atomic(place, sizeof value);
    const T before = *place;
    *place = before + value;
    return before;
}
template <class T> UNWATCHED static T atomicMin(T* place, T value)
{
    host::watch_atomic(place, sizeof value);
    const T before = *place;
    *place = value < before ? value : before;
    return before;
}

#define HOST_KERNEL(name)                                                                             \
    extern "C" const char* signature_##name()                                                         \
    {                                                                                                 \
        static const std::string text = host::signature(name);                                        \
        return text.c_str();                                                                          \
    }                                                                                                 \
    extern "C" const char* run_##name(const host::Launch* launch)                                     \
    {                                                                                                 \
        return host::run(host::caller(name), (void (*)())name, launch);                               \
    }
