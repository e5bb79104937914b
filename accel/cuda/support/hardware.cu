// What has an instruction and no name in CUDA C++. accel/verify/cuda_host stands in for these on the host.
#ifndef ON_HOST

// All blocks wait for each other; the launch is cooperative, so that all of them run. word: in main memory, 0 at first.
// Each block adds 1, and the first one so much that the highest bit turns over when all have come.
__device__ void grid_sync(unsigned* word)
{
    __syncthreads();
    if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
        const bool first = blockIdx.x + blockIdx.y + blockIdx.z == 0;
        const unsigned others = gridDim.x * gridDim.y * gridDim.z - 1;
        __threadfence();
        const unsigned before = atomicAdd(word, first ? 0x80000000u - others : 1u);
        while (((before ^ *(volatile unsigned*)word) & 0x80000000u) == 0) {}
        __threadfence();
    }
    __syncthreads();
}

// *to in shared memory = *from, of 4, 8 or 16 bytes, at the latest when this thread has waited for the copy's group.
template <class T> __device__ void copy_async(T* to, const T* from)
{
    const unsigned place = (unsigned)__cvta_generic_to_shared(to);
    if (sizeof(T) == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
    else asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(from), "n"(sizeof(T)) : "memory");
}

// Ends a group of this thread's copies.
__device__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until all groups of this thread's copies but the last ones have arrived; a barrier shows them to other threads.
#define wait_copies(groups) asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory")

// By one warp: d [16, 8] += a [16, 16] b [16, 8], of bfloat16 numbers, two a word. Lane 4g + t has of d the rows g and
// g + 8, columns 2t and 2t + 1; of a these rows, columns 2t, 2t + 1 and 8 more; of b these columns as rows, column g.
__device__ void mma_bf16(float* d, const unsigned* a, const unsigned* b)
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// d [16, 8] += a [16, 8] b [8, 8], of float32 numbers without their last 13 bits. Lane 4g + t has of a the rows g and
// g + 8, columns t and t + 4; of b these columns as rows, column g.
__device__ void mma_tf32(float* d, const unsigned* a, const unsigned* b)
{
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif
