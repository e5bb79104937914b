// What cuda_host.cc tells the race detector.
#include <stddef.h>

namespace races {
extern bool watching;  // while a thread of a kernel runs
void begin_launch();
void pass_grid_barrier();
void touch_copy(const void* place, size_t size, bool writes, const void* code);
bool in_shared_memory(const void* place, size_t size);
void begin_block(unsigned number, size_t n_threads, const char* dynamic_shared, size_t bytes);
void begin_thread(unsigned number, const char* stack, size_t bytes);
void pass_block_barrier();
void pass_warp_barrier(unsigned warp);
void touch_atomic(const void* place, size_t size, const void* code);
}  // namespace races
