// What cuda_host.cc gives to hardware.cc: of the thread that runs.
#include <stddef.h>

#include <deque>
#include <string>

namespace host {
const size_t WARP = 32, MOST_SHARED = 24;  // bytes that a lane shows to the others of its warp
struct Copy {  // from main memory to shared memory, which has not arrived
    void* to;
    const void* from;
    size_t size;
    const void* code;
    bool ends_group;  // no copy, but the end of those before it
};
typedef std::deque<Copy> Copies;

Copies& copies();
bool copies_run();  // whether this thread has any that have not arrived; forgets its empty groups
[[noreturn]] void fail(const std::string& text);  // ends the launch
void share(const char* file, int line, const void* value, size_t size);
const void* shared_by(int lane);  // what that lane has shared, null if the warp has none
}  // namespace host
