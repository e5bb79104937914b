// Runs CUDA C++ kernels on the host: one fiber a thread, one block after another. Put in front of a .cu file.
// A fiber runs until it waits. When all wait, the warps whose fibers wait in one line continue, then the blocks. Anything
// else is an error: a barrier that some threads do not reach, or a shuffle without all lanes. Every second block runs its
// threads from the last to the first, so that code that depends on the order of threads fails. Dynamic shared memory
// starts as NaN and ends in a guard.
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#define __global__
#define __device__ static
#define __shared__ static
#define DYNAMIC_SHARED(name) REAL* name = (REAL*)host::shared_memory.data()
#define __syncthreads() host::wait(host::AT_BLOCK, __LINE__)
#define __syncwarp() host::wait(host::AT_WARP, __LINE__)
#define __shfl_sync(mask, value, lane) host::exchange(__LINE__, value, lane)
#define __shfl_up_sync(mask, value, lanes) host::exchange(__LINE__, value, host::lane() - (host::lane() >= (lanes) ? (lanes) : 0))
#define __shfl_xor_sync(mask, value, lanes) host::exchange(__LINE__, value, host::lane() ^ (lanes))

struct dim3 { unsigned x, y, z; };
static dim3 threadIdx, blockIdx, blockDim, gridDim;

template <class T> static T atomicOr(T* place, T value) { return std::exchange(*place, *place | value); }
template <class T> static T atomicMin(T* place, T value) { return std::exchange(*place, value < *place ? value : *place); }

namespace host {
const size_t STACK = 1 << 17, GUARD = 256;
enum State { READY, AT_BLOCK, AT_WARP, DONE };
struct Fiber {
    State state;
    int line;             // where it waits
    bool odd;             // the slot of the next exchange: no value is overwritten before all have read it
    unsigned char slots[2][8];
    jmp_buf place;
    dim3 index;
    bool started = false;
    ucontext_t first;
    std::unique_ptr<char[]> stack;
};
static std::vector<Fiber> fibers;
static size_t current;
static jmp_buf scheduler;
static std::function<void()> body;
static std::vector<unsigned char> shared_memory;
static std::string message;

static int lane() { return current % 32; }
static void wait(State state, int line)
{
    fibers[current].state = state;
    fibers[current].line = line;
    if (!_setjmp(fibers[current].place)) _longjmp(scheduler, 1);
}
template <class T> static T exchange(int line, T value, int from)
{
    const bool odd = fibers[current].odd ^= true;
    memcpy(fibers[current].slots[odd], &value, sizeof value);
    wait(AT_WARP, line);
    memcpy(&value, fibers[current / 32 * 32 + from].slots[odd], sizeof value);
    return value;
}
static void live()  // the body of a fiber: one kernel after another
{
    for (;;) {
        body();
        wait(DONE, 0);
    }
}
static void resume(size_t number)
{
    Fiber& fiber = fibers[current = number];
    threadIdx = fiber.index;
    if (_setjmp(scheduler)) return;
    if (fiber.started) _longjmp(fiber.place, 1);
    fiber.started = true;
    fiber.stack.reset(new char[STACK]);
    getcontext(&fiber.first);
    fiber.first.uc_stack.ss_sp = fiber.stack.get();
    fiber.first.uc_stack.ss_size = STACK;
    makecontext(&fiber.first, live, 0);
    setcontext(&fiber.first);
}
// Lets fibers first..stop-1 continue if all of them wait in this state on one line; returns whether they do.
static bool release(size_t first, size_t stop, State state)
{
    for (size_t i = first; i < stop; i++)
        if (fibers[i].state != state || fibers[i].line != fibers[first].line) return false;
    for (size_t i = first; i < stop; i++) fibers[i].state = READY;
    return true;
}
static bool run_block(bool backwards)
{
    const size_t n = fibers.size();
    for (Fiber& fiber : fibers) fiber.state = READY;
    for (;;) {
        for (size_t i = 0; i < n; i++)
            if (fibers[backwards ? n - 1 - i : i].state == READY) resume(backwards ? n - 1 - i : i);
        bool moved = false;
        for (size_t i = 0; i < n; i += 32) moved |= release(i, i + 32 < n ? i + 32 : n, AT_WARP);
        if (moved || release(0, n, AT_BLOCK)) continue;
        for (size_t i = 0; i < n; i++)
            if (fibers[i].state != DONE) {
                message = "thread " + std::to_string(i) + " waits alone, in line " + std::to_string(fibers[i].line);
                return false;
            }
        return true;
    }
}
template <class... A, size_t... I>
static int run(void (*kernel)(A...), const unsigned* shape, size_t shared, void** args, std::index_sequence<I...>)
{
    gridDim = {shape[0], shape[1], shape[2]};
    blockDim = {shape[3], shape[4], shape[5]};
    const size_t n = (size_t)shape[3] * shape[4] * shape[5];
    body = [=] { kernel(*(A*)args[I]...); };
    if (fibers.size() != n) fibers = std::vector<Fiber>(n);
    for (unsigned i = 0; i < n; i++) fibers[i].index = {i % shape[3], i / shape[3] % shape[4], i / shape[3] / shape[4]};
    for (unsigned block = 0; block < shape[0] * shape[1] * shape[2]; block++) {
        blockIdx = {block % shape[0], block / shape[0] % shape[1], block / shape[0] / shape[1]};
        shared_memory.assign(shared, 0xff);
        shared_memory.resize(shared + GUARD, 0xa5);
        bool whole = run_block(block % 2);
        for (size_t i = shared; whole && i < shared + GUARD; i++)
            if (shared_memory[i] != 0xa5) {
                message = "shared memory written past its end";
                whole = false;
            }
        if (!whole) {
            fibers.clear();
            return 1;
        }
    }
    return 0;
}
static std::string code(float) { return "f4 "; }
static std::string code(double) { return "f8 "; }
static std::string code(int) { return "i4 "; }
static std::string code(long long) { return "i8 "; }
static std::string code(unsigned long long) { return "u8 "; }
template <class T> static std::string code(T*) { return "*" + code(T()); }
template <class... A> static std::string signature(void (*)(A...)) { return (std::string() + ... + code(A())); }
template <class... A> static int run(void (*kernel)(A...), const unsigned* shape, size_t shared, void** args)
{
    return run(kernel, shape, shared, args, std::index_sequence_for<A...>());
}
}  // namespace host

#define HOST_KERNEL(name)                                                                             \
    extern "C" const char* signature_##name()                                                         \
    {                                                                                                 \
        static const std::string text = host::signature(name);                                        \
        return text.c_str();                                                                          \
    }                                                                                                 \
    extern "C" const char* run_##name(const unsigned* shape, size_t shared, void** args)              \
    {                                                                                                 \
        return host::run(name, shape, shared, args) ? host::message.c_str() : nullptr;                \
    }
