// The best labelled trees of sentences: a block a sentence, spans of one length side by side, a thread a span.
// A span has two lists of its best derivations: as a child (a constituent or a bare word), and as a row of two children
// or more. They are numbered by span, shorter ones first, all children before all rows. The next derivation comes from a
// heap of neighbours of those before.
#include "support/warp.cu"

// Of a child: edge = label, or the number of labels for a bare word; b = place in the list of its row. Of a row: edge =
// 2 k + 1 for two children, the first up to word k, and 2 k where a row follows it; a, b = their places.
struct Derivation {
    REAL score;
    int edge, a, b;
};

struct Sentence {
    const REAL* scores;
    Long n, n_labels, most;  // most: the length of a list
    Derivation* lists;
    int* sizes;
};

struct Heap {
    Derivation* entries;
    Long size;
};

__device__ Long child(const Sentence& x, Long i, Long j)
{
    return (j - i) * x.n - (j - i) * (j - i - 1) / 2 + i;
}

__device__ Long row(const Sentence& x, Long i, Long j)
{
    return x.n * (x.n + 1) / 2 + child(x, i, j);
}

// Higher scores first; of equal ones, lower numbers.
__device__ bool before(const Derivation& x, const Derivation& y)
{
    if (x.score != y.score) return x.score > y.score;
    if (x.edge != y.edge) return x.edge < y.edge;
    return x.a != y.a ? x.a < y.a : x.b < y.b;
}

__device__ void push(Heap& heap, const Derivation& entry)
{
    Long place = heap.size++;
    for (; place > 0 && before(entry, heap.entries[(place - 1) / 2]); place = (place - 1) / 2)
        heap.entries[place] = heap.entries[(place - 1) / 2];
    heap.entries[place] = entry;
}

__device__ Derivation pop(Heap& heap)
{
    const Derivation best = heap.entries[0], last = heap.entries[--heap.size];
    Long place = 0;
    for (Long next = 1; next < heap.size; next = 2 * place + 1) {
        if (next + 1 < heap.size && before(heap.entries[next + 1], heap.entries[next])) next++;
        if (!before(heap.entries[next], last)) break;
        heap.entries[place] = heap.entries[next];
        place = next;
    }
    heap.entries[place] = last;
    return best;
}

__device__ void fill_row(const Sentence& x, Derivation* entries, Long i, Long j)
{
    Heap heap = {entries, 0};
    for (Long k = i; k < j; k++)
        for (Long last = 0; last < 2; last++) {
            const Long left = child(x, i, k), right = last ? child(x, k + 1, j) : row(x, k + 1, j);
            if (x.sizes[left] && x.sizes[right]) {
                const REAL score = x.lists[left * x.most].score + x.lists[right * x.most].score;
                push(heap, {score, int(2 * k + last), 0, 0});
            }
        }
    const Long own = row(x, i, j);
    Long count = 0;
    while (heap.size && count < x.most) {
        const Derivation next = pop(heap);
        x.lists[own * x.most + count++] = next;
        const Long k = next.edge / 2, left = child(x, i, k);
        const Long right = next.edge % 2 ? child(x, k + 1, j) : row(x, k + 1, j);
        const Derivation *lefts = x.lists + left * x.most, *rights = x.lists + right * x.most;
        if (next.b + 1 < x.sizes[right])
            push(heap, {lefts[next.a].score + rights[next.b + 1].score, next.edge, next.a, next.b + 1});
        if (next.b == 0 && next.a + 1 < x.sizes[left])
            push(heap, {lefts[next.a + 1].score + rights[0].score, next.edge, next.a + 1, 0});
    }
    x.sizes[own] = int(count);
}

__device__ void fill_child(const Sentence& x, Derivation* entries, Long i, Long j)
{
    const Long own = child(x, i, j), below = row(x, i, j);
    const REAL* labels = x.scores + own * x.n_labels;
    const Derivation* rows = x.lists + below * x.most;
    Heap heap = {entries, 0};
    for (Long label = 0; label < x.n_labels && (i == j || x.sizes[below]); label++)
        if (labels[label] > minus_infinity())
            push(heap, {labels[label] + (i < j ? rows[0].score : REAL(0)), int(label), 0, 0});
    if (i == j && x.n > 1) push(heap, {0, int(x.n_labels), 0, 0});
    Long count = 0;
    while (heap.size && count < x.most) {
        const Derivation next = pop(heap);
        x.lists[own * x.most + count++] = next;
        if (next.b + 1 < x.sizes[below])
            push(heap, {labels[next.edge] + rows[next.b + 1].score, next.edge, 0, next.b + 1});
    }
    x.sizes[own] = int(count);
}

__device__ Sentence find_sentence(
    const REAL* scores, const Long* offsets, const Long* begins, REAL* lists, int* sizes, Long b, Long n_labels,
    Long most)
{
    const Long first = begins[b];
    Derivation* own = (Derivation*)lists + 2 * first * most;
    return {scores + first * n_labels, offsets[b + 1] - offsets[b], n_labels, most, own, sizes + 2 * first};
}

// heaps: room for `heap_size` derivations a word.
extern "C" __global__ void grow_lists(
    const REAL* scores, const Long* offsets, const Long* begins, REAL* lists, int* sizes, REAL* heaps,
    Long n_labels, Long most, Long heap_size)
{
    const Sentence x = find_sentence(scores, offsets, begins, lists, sizes, blockIdx.x, n_labels, most);
    Derivation* room = (Derivation*)heaps + (offsets[blockIdx.x] - offsets[0]) * heap_size;
    for (Long longer = 0; longer < x.n; longer++) {
        for (Long i = threadIdx.x; i < x.n - longer; i += blockDim.x) {
            fill_row(x, room + i * heap_size, i, i + longer);
            fill_child(x, room + i * heap_size, i, i + longer);
        }
        __syncthreads();
    }
}

// What is left of a tree: derivation `place` of words i to j, as a row or as a child.
struct Task {
    int i, j, is_row, place;
};

// A thread a tree: its score and its constituents, [width, 3], in pre-order. stacks: room for `depth` tasks a tree.
extern "C" __global__ void unfold_trees(
    const REAL* scores, const Long* offsets, const Long* begins, REAL* lists, int* sizes, const Long* tree_offsets,
    REAL* tree_scores, Long* tree_sizes, int* constituents, int* stacks,
    Long sentences, Long n_labels, Long most, Long width, Long depth)
{
    const Long tree = (Long)blockIdx.x * blockDim.x + threadIdx.x;
    if (tree >= tree_offsets[sentences]) return;
    const Long b = find_part(tree_offsets, sentences, tree);
    const Sentence x = find_sentence(scores, offsets, begins, lists, sizes, b, n_labels, most);
    Task* stack = (Task*)stacks + tree * depth;
    int* out = constituents + tree * width * 3;
    Long waiting = 0, found = 0;
    stack[waiting++] = {0, int(x.n - 1), 0, int(tree - tree_offsets[b])};
    tree_scores[tree] = x.lists[child(x, 0, x.n - 1) * most + stack[0].place].score;
    while (waiting) {
        const Task now = stack[--waiting];
        const Long list = now.is_row ? row(x, now.i, now.j) : child(x, now.i, now.j);
        const Derivation here = x.lists[list * most + now.place];
        if (now.is_row) {
            const int k = here.edge / 2;
            stack[waiting++] = {k + 1, now.j, here.edge % 2 == 0, here.b};
            stack[waiting++] = {now.i, k, 0, here.a};
            continue;
        }
        if (here.edge < n_labels) {
            out[3 * found] = now.i;
            out[3 * found + 1] = now.j;
            out[3 * found++ + 2] = here.edge;
        }
        if (now.i < now.j) stack[waiting++] = {now.i, now.j, 1, here.b};
    }
    tree_sizes[tree] = found;
}
