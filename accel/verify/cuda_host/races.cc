// Finds races: two threads touch one word, at least one writes it, and no barrier orders them.
// g++ -fsanitize=thread calls the functions at the end before every access to memory. For every word of four bytes this
// keeps the last write, and of the reads and of the atomic operations since then those that are enough to find every
// race. Two accesses of a block are ordered by __syncthreads, two of a warp by __syncwarp, too; a shuffle orders no
// memory. Only grid_sync orders two blocks: between two of them a block runs without a break.
#include "races.h"

#include <stdint.h>
#include <string.h>

#include <memory>
#include <unordered_map>

extern char __ehdr_start[] __attribute__((visibility("hidden")));  // where this library lies
#define FROM_LINKER __attribute__((weak, visibility("hidden")))
extern char __start_shared_memory[] FROM_LINKER, __stop_shared_memory[] FROM_LINKER;

namespace races {
enum Kind { READ, WRITE, ATOMIC };
struct Access {
    uint32_t grid_epoch, block, epoch, warp_epoch;
    uint16_t thread, used;
    uint32_t code;  // the place in this library
};
// Reads, or atomic operations: `earlier` of another block; `one` and `other` of this block and epoch, by two threads, and
// where two warps took part, by two warps.
struct Set { Access earlier, one, other; };
struct Cell {
    Access write;
    Set sets[2];  // reads, atomic operations
};
struct Found {
    unsigned long long count, address;
    struct { unsigned block, thread, kind, code; } accesses[2];
};
const size_t WARP = 32, PAGE = 1024;
typedef Cell Page[PAGE];

bool watching = false;
static std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages;
static uintptr_t last_number;
static Page* last_page;
static Found found;
static Access now;  // by the thread that runs; its code is that of the access
static uint32_t warp_epochs[WARP];
static const char *stack_begin, *stack_end, *dynamic_begin, *dynamic_end;
static const char *found_begin, *found_end;  // dynamic shared memory of the block that was found

static bool inside(uintptr_t address, const char* begin, const char* end)
{
    return address >= (uintptr_t)begin && address < (uintptr_t)end;
}
static bool other_block(const Access& before) { return before.used && before.block != now.block; }
// Whether the cell holds what another block did in its own shared memory, which lies at the same place.
static bool of_other_memory(const Cell& cell, uintptr_t address)
{
    return (other_block(cell.write) || other_block(cell.sets[0].one) || other_block(cell.sets[1].one)) &&
           (inside(address, dynamic_begin, dynamic_end) || inside(address, __start_shared_memory, __stop_shared_memory));
}
static bool ordered(const Access& before)
{
    if (before.grid_epoch != now.grid_epoch) return true;
    if (before.block != now.block) return false;
    if (before.thread == now.thread || before.epoch != now.epoch) return true;
    return before.thread / WARP == now.thread / WARP && before.warp_epoch != now.warp_epoch;
}
static void compare(const Access& before, Kind kind, Kind kind_now, uintptr_t address)
{
    if (!before.used || ordered(before)) return;
    if (!found.count++) {
        found.address = address;
        found_begin = dynamic_begin;
        found_end = dynamic_end;
        found.accesses[0] = {before.block, before.thread, kind, before.code};
        found.accesses[1] = {now.block, now.thread, kind_now, now.code};
    }
}
static void compare(const Set& before, Kind kind, Kind kind_now, uintptr_t address)
{
    compare(before.earlier, kind, kind_now, address);
    compare(before.one, kind, kind_now, address);
    compare(before.other, kind, kind_now, address);
}
static void add(Set& set)
{
    Access &one = set.one, &other = set.other;
    if (other_block(one)) set.earlier = one;
    const bool first = !one.used || one.grid_epoch != now.grid_epoch || one.block != now.block ||
                       one.epoch != now.epoch;
    const bool same_warp = one.thread / WARP == now.thread / WARP;
    const bool two_warps = other.used && other.thread / WARP != one.thread / WARP;
    if (first || (same_warp && !two_warps && one.warp_epoch != now.warp_epoch)) {
        one = now;
        other.used = false;
    } else if (!two_warps && (!same_warp || one.thread != now.thread)) {
        other = now;
    }
}
static Cell& cell_of(uintptr_t word)
{
    if (!last_page || word / PAGE != last_number) {
        std::unique_ptr<Page>& page = pages[last_number = word / PAGE];
        if (!page) page.reset((Page*)new Cell[PAGE]());
        last_page = page.get();
    }
    return (*last_page)[word % PAGE];
}
static void touch(const void* where, size_t size, Kind kind, const void* code)
{
    const uintptr_t address = (uintptr_t)where;
    if (!watching || inside(address, stack_begin, stack_end)) return;
    now.code = (uint32_t)((const char*)code - __ehdr_start);
    for (uintptr_t word = address / 4; word <= (address + size - 1) / 4; word++) {
        Cell& cell = cell_of(word);
        if (of_other_memory(cell, word * 4)) cell = Cell();
        compare(cell.write, WRITE, kind, word * 4);
        if (kind != READ) compare(cell.sets[0], READ, kind, word * 4);
        if (kind != ATOMIC) compare(cell.sets[1], ATOMIC, kind, word * 4);
        if (kind != WRITE) add(cell.sets[kind == ATOMIC]);
        if (kind == WRITE) {
            cell = Cell();
            cell.write = now;
        }
    }
}
void begin_launch()
{
    pages.clear();
    last_page = nullptr;
    found = Found();
    now.grid_epoch = 0;
}
void begin_block(unsigned number, size_t n_threads, const char* dynamic_shared, size_t bytes)
{
    now = {now.grid_epoch, number, 0, 0, 0, 1, 0};
    memset(warp_epochs, 0, sizeof warp_epochs);
    dynamic_begin = dynamic_shared;
    dynamic_end = dynamic_shared + bytes;
}
void begin_thread(unsigned number, const char* stack, size_t bytes)
{
    now.thread = number;
    now.warp_epoch = warp_epochs[number / WARP];
    stack_begin = stack;
    stack_end = stack + bytes;
    watching = true;
}
void pass_grid_barrier() { now.grid_epoch++; }
void pass_block_barrier() { now.epoch++; }
void pass_warp_barrier(unsigned warp) { warp_epochs[warp]++; }
void touch_copy(const void* place, size_t size, bool writes, const void* code)
{
    touch(place, size, writes ? WRITE : READ, code);
}
bool in_shared_memory(const void* place, size_t size)
{
    const uintptr_t first = (uintptr_t)place, last = first + size - 1;
    return (inside(first, dynamic_begin, dynamic_end) && inside(last, dynamic_begin, dynamic_end)) ||
           (inside(first, __start_shared_memory, __stop_shared_memory) &&
            inside(last, __start_shared_memory, __stop_shared_memory));
}
void touch_atomic(const void* place, size_t size, const void* code) { touch(place, size, ATOMIC, code); }
}  // namespace races

extern "C" {
const races::Found* races_found() { return &races::found; }
unsigned long long static_shared_begin() { return (unsigned long long)__start_shared_memory; }
unsigned long long dynamic_shared_begin() { return (unsigned long long)races::found_begin; }
unsigned long long dynamic_shared_end() { return (unsigned long long)races::found_end; }

#define ACCESSES(size)                                                                                              \
    void __tsan_read##size(void* p) { races::touch(p, size, races::READ, __builtin_return_address(0)); }            \
    void __tsan_write##size(void* p) { races::touch(p, size, races::WRITE, __builtin_return_address(0)); }          \
    void __tsan_unaligned_read##size(void* p) { races::touch(p, size, races::READ, __builtin_return_address(0)); }  \
    void __tsan_unaligned_write##size(void* p) { races::touch(p, size, races::WRITE, __builtin_return_address(0)); }
ACCESSES(1) ACCESSES(2) ACCESSES(4) ACCESSES(8) ACCESSES(16)
void __tsan_read_range(void* p, size_t size) { races::touch(p, size, races::READ, __builtin_return_address(0)); }
void __tsan_write_range(void* p, size_t size) { races::touch(p, size, races::WRITE, __builtin_return_address(0)); }
void __tsan_init() {}
}
