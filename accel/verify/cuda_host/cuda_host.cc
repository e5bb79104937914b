// Runs CUDA C++ kernels on the host: one fiber a thread, one block after another.
// A fiber runs until it waits. When all wait, the warps whose fibers wait in one line continue, then the blocks. Anything
// else is an error: a barrier that some threads do not reach, or a shuffle without all lanes. Blocks, warps and the threads
// of a warp run in an order drawn from a seed, and a warp may run ahead of the others, so that code that depends on an
// order fails. Shared memory starts as NaN, and what is dynamic ends in a guard. Of a cooperative launch all blocks live at
// once: each runs until all of its threads wait for the grid, and when all blocks wait, they continue.
#include <setjmp.h>
#include <string.h>
#include <ucontext.h>

#include <memory>
#include <vector>

#include "cuda_host.h"
#include "fibers.h"
#include "races.h"

#define FROM_LINKER __attribute__((weak, visibility("hidden")))
extern char __start_shared_memory[] FROM_LINKER, __stop_shared_memory[] FROM_LINKER;

namespace host {
Place place;

const size_t STACK = 1 << 17, GUARD = 1 << 12;
struct Fiber {
    State state;
    const char* file;     // where it waits
    int line;
    bool shuffles;        // it waits for other lanes' numbers, which orders no memory
    bool odd;             // the slot of the next exchange: no value is overwritten before all have read it
    alignas(8) unsigned char slots[2][MOST_SHARED];
    Copies copies;
    jmp_buf place;
    dim3 index;
    bool started = false;
    ucontext_t first;
    std::unique_ptr<char[]> stack;
};
struct Block {  // what is its own, while other blocks run
    std::vector<unsigned char> dynamic_shared, static_shared;
};
static std::vector<Fiber> all_fibers;  // block after block, of all blocks that live
static Fiber* fibers;                  // of the block that runs
static size_t n_threads, current;
static jmp_buf scheduler;
static Call call;
static void (*kernel)();
static void** args;
static Block* block;
static std::string message;
static bool failed, cooperative;
static unsigned long long state;  // of the drawn order
static bool passed_deleted_barrier;

int lane() { return current % WARP; }
void* dynamic_shared() { return block->dynamic_shared.data(); }
Copies& copies() { return fibers[current].copies; }
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

void fail(const std::string& text)
{
    message = text;
    failed = true;
    suspend(DONE, "", 0, false);
    __builtin_unreachable();
}
void share(const char* file, int line, const void* value, size_t size)
{
    const bool odd = fibers[current].odd ^= true;
    memcpy(fibers[current].slots[odd], value, size);
    suspend(AT_WARP, file, line, true);
}
const void* shared_by(int lane)
{
    const size_t number = current / WARP * WARP + lane;
    return number < n_threads ? fibers[number].slots[fibers[current].odd] : nullptr;
}
void exchange_bytes(const char* file, int line, void* value, size_t size, int from)
{
    share(file, line, value, size);
    memcpy(value, shared_by(from), size);
}
static void live()  // the body of a fiber: one kernel after another
{
    for (;;) {
        call(kernel, args);
        if (copies_run()) fail("thread " + std::to_string(current) + " ends before its copies arrive");
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
// Whether two threads of a block wait for the grid on one line.
static bool together(size_t i, size_t j)
{
    const Fiber &one = fibers[i], &other = fibers[j];
    return one.state == AT_GRID && other.state == AT_GRID && one.line == other.line && !strcmp(one.file, other.file);
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
    const size_t n = n_threads, n_warps = (n + WARP - 1) / WARP;
    for (;;) {
        bool moved = false;
        in_drawn_order(n_warps, [&](size_t warp) {
            const size_t first = warp * WARP, stop = first + WARP < n ? first + WARP : n;
            do {
                in_drawn_order(stop - first, [&](size_t i) {
                    if (!failed && fibers[first + i].state == READY) resume(first + i);
                    return !failed;
                });
                if (failed) return false;
                if (!release(first, stop, AT_WARP)) break;
                moved = true;
            } while (draw() % 2);
            return true;
        });
        if (failed) return false;
        if (moved || release(0, n, AT_BLOCK)) continue;
        for (size_t i = 0; i < n; i++)
            if (fibers[i].state != DONE && !(cooperative && together(i, 0))) {
                const std::string where = fibers[i].file + (":" + std::to_string(fibers[i].line));
                message = "thread " + std::to_string(i) + " waits alone, in " + where;
                return false;
            }
        return true;
    }
}
// Runs a block until its threads end or wait for the grid.
static bool run_one(unsigned number, Block& its, Fiber* its_fibers, size_t shared)
{
    const dim3 grid = place.grid_size;
    place.block = {number % grid.x, number / grid.x % grid.y, number / grid.x / grid.y};
    block = &its;
    fibers = its_fibers;
    memcpy(__start_shared_memory, its.static_shared.data(), its.static_shared.size());
    races::begin_block(number, n_threads, (char*)its.dynamic_shared.data(), shared);
    if (!run_block()) return false;
    memcpy(its.static_shared.data(), __start_shared_memory, its.static_shared.size());
    for (size_t i = shared; i < shared + GUARD; i++)
        if (its.dynamic_shared[i] != 0xa5) {
            message = "shared memory written past its end";
            return false;
        }
    return true;
}
static void start(Block& its, Fiber* its_fibers, size_t shared)
{
    its.static_shared.assign(__stop_shared_memory - __start_shared_memory, 0xff);
    its.dynamic_shared.assign(shared, 0xff);
    its.dynamic_shared.resize(shared + GUARD, 0xa5);
    for (size_t i = 0; i < n_threads; i++) its_fibers[i].state = READY;
}
// Runs blocks that live together to their end, from one barrier of the grid to the next.
static bool run_together(size_t n_blocks, size_t shared)
{
    std::vector<Block> blocks(n_blocks);
    Fiber* first = all_fibers.data();
    for (size_t i = 0; i < n_blocks; i++) start(blocks[i], first + i * n_threads, shared);
    for (;;) {
        if (!in_drawn_order(n_blocks, [&](size_t i) { return run_one(i, blocks[i], first + i * n_threads, shared); }))
            return false;
        fibers = first;
        size_t n_waiting = 0;
        for (size_t i = 0; i < all_fibers.size(); i++) n_waiting += together(i, 0);
        if (n_waiting == 0 && first[0].state == DONE) n_waiting = all_fibers.size();
        for (size_t i = 0; i < all_fibers.size(); i++)
            if (n_waiting < all_fibers.size() || first[i].state != first[0].state) {
                message = "some blocks wait for the grid, and others do not, or in another line";
                return false;
            }
        if (first[0].state == DONE) return true;
        for (Fiber& fiber : all_fibers) fiber.state = READY;
        races::pass_grid_barrier();
    }
}
const char* run(Call new_call, void (*new_kernel)(), const Launch* launch)
{
    call = new_call;
    kernel = new_kernel;
    args = launch->args;
    state = launch->order;
    failed = false;
    cooperative = launch->cooperative;
    const unsigned *grid = launch->grid, *size = launch->block;
    place.grid_size = {grid[0], grid[1], grid[2]};
    place.block_size = {size[0], size[1], size[2]};
    n_threads = (size_t)size[0] * size[1] * size[2];
    const size_t n_blocks = (size_t)grid[0] * grid[1] * grid[2], n_fibers = n_threads * (cooperative ? n_blocks : 1);
    if (all_fibers.size() != n_fibers) all_fibers = std::vector<Fiber>(n_fibers);
    for (unsigned i = 0; i < n_fibers; i++) {
        const unsigned thread = i % n_threads;
        all_fibers[i].index = {thread % size[0], thread / size[0] % size[1], thread / size[0] / size[1]};
    }
    races::begin_launch();
    Block only;
    const auto run_alone = [&](size_t number) {
        start(only, all_fibers.data(), launch->shared);
        return run_one(number, only, all_fibers.data(), launch->shared);
    };
    const bool whole = cooperative ? run_together(n_blocks, launch->shared) : in_drawn_order(n_blocks, run_alone);
    if (!whole) all_fibers.clear();
    return whole ? nullptr : message.c_str();
}
}  // namespace host

extern "C" int deleted_barrier_passed() { return std::exchange(host::passed_deleted_barrier, false); }
