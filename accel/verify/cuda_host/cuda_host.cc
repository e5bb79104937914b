// Runs CUDA C++ kernels on the host: one fiber a thread, one block after another.
// A fiber runs until it waits. When all wait, the warps whose fibers wait in one line continue, then the blocks. Anything
// else is an error: a barrier that some threads do not reach, or a shuffle without all lanes. Blocks, warps and the threads
// of a warp run in an order drawn from a seed, and a warp may run ahead of the others, so that code that depends on an
// order fails. Shared memory starts as NaN, and what is dynamic ends in a guard.
#include <setjmp.h>
#include <string.h>
#include <ucontext.h>

#include <memory>
#include <vector>

#include "cuda_host.h"
#include "races.h"

#define FROM_LINKER __attribute__((weak, visibility("hidden")))
extern char __start_shared_memory[] FROM_LINKER, __stop_shared_memory[] FROM_LINKER;

namespace host {
Place place;

const size_t STACK = 1 << 17, GUARD = 256, WARP = 32;
struct Fiber {
    State state;
    const char* file;     // where it waits
    int line;
    bool shuffles;        // it waits for other lanes' numbers, which orders no memory
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
static Call call;
static void (*kernel)();
static void** args;
static std::vector<unsigned char> shared_memory;
static std::string message;
static unsigned long long state;  // of the drawn order
static bool passed_deleted_barrier;

int lane() { return current % WARP; }
void* dynamic_shared() { return shared_memory.data(); }
void pass_deleted_barrier() { passed_deleted_barrier = true; }
void watch_atomic(void* where, size_t size) { races::touch_atomic(where, size, __builtin_return_address(0)); }

static void suspend(State next, const char* file, int line, bool shuffles)
{
    Fiber& fiber = fibers[current];
    fiber.state = next;
    fiber.file = file;
    fiber.line = line;
    fiber.shuffles = shuffles;
    if (!_setjmp(fiber.place)) _longjmp(scheduler, 1);
}
void wait(State next, const char* file, int line) { suspend(next, file, line, false); }

void exchange_bytes(const char* file, int line, void* value, size_t size, int from)
{
    const bool odd = fibers[current].odd ^= true;
    memcpy(fibers[current].slots[odd], value, size);
    suspend(AT_WARP, file, line, true);
    memcpy(value, fibers[current / WARP * WARP + from].slots[odd], size);
}
static void live()  // the body of a fiber: one kernel after another
{
    for (;;) {
        call(kernel, args);
        suspend(DONE, "", 0, false);
    }
}
static void resume(size_t number)
{
    Fiber& fiber = fibers[current = number];
    place.thread = fiber.index;
    if (!fiber.stack) fiber.stack.reset(new char[STACK]);
    races::begin_thread(number, fiber.stack.get(), STACK);
    if (_setjmp(scheduler)) {
        races::watching = false;
        return;
    }
    if (fiber.started) _longjmp(fiber.place, 1);
    fiber.started = true;
    getcontext(&fiber.first);
    fiber.first.uc_stack.ss_sp = fiber.stack.get();
    fiber.first.uc_stack.ss_size = STACK;
    makecontext(&fiber.first, live, 0);
    setcontext(&fiber.first);
}
// Lets fibers first..stop-1 continue if all of them wait in this state on one line; returns whether they do.
static bool release(size_t first, size_t stop, State waiting)
{
    for (size_t i = first; i < stop; i++)
        if (fibers[i].state != waiting || fibers[i].line != fibers[first].line ||
            strcmp(fibers[i].file, fibers[first].file))
            return false;
    for (size_t i = first; i < stop; i++) fibers[i].state = READY;
    if (waiting == AT_BLOCK) races::pass_block_barrier();
    else if (!fibers[first].shuffles) races::pass_warp_barrier(first / WARP);
    return true;
}
static unsigned long long draw()
{
    state += 0x9E3779B97F4A7C15ull;
    const unsigned long long z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9ull;
    return z ^ z >> 27;
}
// Visits 0..n-1 in a drawn order: from a drawn start, in drawn odd steps.
template <class Visit> static bool in_drawn_order(size_t n, Visit visit)
{
    size_t round = 1;
    while (round < n) round *= 2;
    const size_t start = draw(), step = draw() | 1;
    for (size_t i = 0; i < round; i++) {
        const size_t number = (start + i * step) % round;
        if (number < n && !visit(number)) return false;
    }
    return true;
}
static bool run_block()
{
    const size_t n = fibers.size(), n_warps = (n + WARP - 1) / WARP;
    for (Fiber& fiber : fibers) fiber.state = READY;
    for (;;) {
        bool moved = false;
        in_drawn_order(n_warps, [&](size_t warp) {
            const size_t first = warp * WARP, stop = first + WARP < n ? first + WARP : n;
            do {
                in_drawn_order(stop - first, [&](size_t i) {
                    if (fibers[first + i].state == READY) resume(first + i);
                    return true;
                });
                if (!release(first, stop, AT_WARP)) break;
                moved = true;
            } while (draw() % 2);
            return true;
        });
        if (moved || release(0, n, AT_BLOCK)) continue;
        for (size_t i = 0; i < n; i++)
            if (fibers[i].state != DONE) {
                const std::string where = fibers[i].file + (":" + std::to_string(fibers[i].line));
                message = "thread " + std::to_string(i) + " waits alone, in " + where;
                return false;
            }
        return true;
    }
}
static bool run_one(unsigned number, size_t shared)
{
    const dim3 grid = place.grid_size;
    place.block = {number % grid.x, number / grid.x % grid.y, number / grid.x / grid.y};
    memset(__start_shared_memory, 0xff, __stop_shared_memory - __start_shared_memory);
    shared_memory.assign(shared, 0xff);
    shared_memory.resize(shared + GUARD, 0xa5);
    races::begin_block(number, fibers.size(), (char*)shared_memory.data(), shared);
    if (!run_block()) return false;
    for (size_t i = shared; i < shared + GUARD; i++)
        if (shared_memory[i] != 0xa5) {
            message = "shared memory written past its end";
            return false;
        }
    return true;
}
const char* run(Call new_call, void (*new_kernel)(), const Launch* launch)
{
    call = new_call;
    kernel = new_kernel;
    args = launch->args;
    state = launch->order;
    const unsigned *grid = launch->grid, *block = launch->block;
    place.grid_size = {grid[0], grid[1], grid[2]};
    place.block_size = {block[0], block[1], block[2]};
    const size_t n = (size_t)block[0] * block[1] * block[2];
    if (fibers.size() != n) fibers = std::vector<Fiber>(n);
    for (unsigned i = 0; i < n; i++) fibers[i].index = {i % block[0], i / block[0] % block[1], i / block[0] / block[1]};
    races::begin_launch();
    const bool whole = in_drawn_order((size_t)grid[0] * grid[1] * grid[2],
                                      [&](size_t number) { return run_one(number, launch->shared); });
    if (!whole) fibers.clear();
    return whole ? nullptr : message.c_str();
}
}  // namespace host

extern "C" int deleted_barrier_passed() { return std::exchange(host::passed_deleted_barrier, false); }
