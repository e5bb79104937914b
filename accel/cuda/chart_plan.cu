// The pruned charts of a batch from a parser's scores, and what the passes over them read. Three kernels: a block a
// sentence plays the game of merges; one block numbers the nodes; a block a sentence writes what is known of its nodes.
// Nodes are the N words, then the cells by step, within a step by sentence, within a sentence shorter spans first, then
// from the left. Row 0 of what is kept by step is that of the words; T rows, the longest sentence has T words.
#include "support/warp.cu"

#define THREAD (threadIdx.y * 32 + threadIdx.x)
#define THREADS (blockDim.y * 32)
#define NUMBERING 1024  // threads, as in chart_plan.py

#define SENTENCES const Long *offsets, Long B, Long W, Long T
// The spans of all sentences as they were made; of a word room for 2 W + 1 of them, and for 3 W (W + 1) / 2 splits. A
// part is a word, or N + a span.
#define SPANS                                                                                                         \
    int *first, int *longer, int *step, Long *first_splits, int *left_parts, int *right_parts, int *ranked,           \
        int *place, int *uses, Long *needed

__device__ Long least(Long a, Long b) { return a < b ? a : b; }

// Standard Gumbel noise for the element of that number, as `gumbel` of accel/models/gpst/parser.py.
__device__ REAL gumbel(Bits seed, Long number)
{
    const double u = ((double)(mixed(seed, (Bits)number) >> 12) + 0.5) / 4503599627370496.0;
    return REAL(-log(-log(u)));
}

// By one thread: the spans of a sentence of n words in the order in which they have W splits, from `count` and `split`
// on; in the end only those that the root needs keep their steps. Returns the last span + 1. before, after [n + 1]: the
// units beside the one that begins with a word; table [n, W + 1]: the spans of 1 to W + 1 units from a word on.
__device__ Long play(
    const int* order, int* before, int* after, int* table, Long start, Long n, Long N, Long W, Long count, Long split,
    int* first, int* longer, int* step, Long* first_splits, int* left_parts, int* right_parts)
{
    const Long width = least(W, n - 1) + 1, first_span = count;
    for (Long i = 0; i <= n; i++) {
        before[i] = i - 1;
        after[i] = i + 1;
    }
    for (Long i = 0; i < n; i++) table[i * width] = start + i;
    for (Long m = 1; m < width; m++)
        for (Long i = 0; i < n - m; i++) {
            first[count] = i;
            longer[count] = step[count] = m;
            first_splits[count] = split;
            for (Long k = 0; k < m; k++, split++) {
                left_parts[split] = table[i * width + k];
                right_parts[split] = table[(i + k + 1) * width + m - 1 - k];
            }
            table[i * width + m] = N + count++;
        }
    for (Long merge = 0; merge < n - width; merge++) {
        const Long gone = order[merge] + 1, unit = before[gone], follower = after[gone];
        after[unit] = follower;
        before[follower] = unit;
        Long followers = 0, distance = 0;  // distance: from the unit that begins with x to the new one
        for (Long y = follower; y < n && followers < width - 1; y = after[y]) followers++;
        for (Long x = unit; x >= 0 && distance < width; x = before[x], distance++) {
            int* entry = table + x * width;
            for (Long m = distance; m < width - 1; m++) entry[m] = entry[m + 1];
            if (width - 1 - distance > followers) continue;
            first_splits[count] = split;
            int latest = 0;
            Long y = x;
            for (Long k = 0; k < width - 1; k++, split++) {
                y = after[y];
                const int left = entry[k], right = table[y * width + width - 2 - k];
                left_parts[split] = left;
                right_parts[split] = right;
                if (left >= N && step[left - N] > latest) latest = step[left - N];
                if (right >= N && step[right - N] > latest) latest = step[right - N];
            }
            first[count] = x;
            longer[count] = after[y] - 1 - x;
            step[count] = latest + 1;
            entry[width - 1] = N + count++;
        }
    }
    // a span that a larger one needs has its step negated, from the root down, until its own turn
    const Long end = count;
    if (n > 1) step[count - 1] = -step[count - 1];
    while (count-- > first_span) {
        const Long begin = first_splits[count];
        if (step[count] < 0)
            for (Long k = begin; k < split; k++) {
                const int parts[2] = {left_parts[k], right_parts[k]};
                for (int side = 0; side < 2; side++)
                    if (parts[side] >= N && step[parts[side] - N] > 0)
                        step[parts[side] - N] = -step[parts[side] - N];
            }
        step[count] = step[count] < 0 ? -step[count] : 0;
        split = begin;
    }
    return end;
}

// Also sets, for every sentence and step, how many nodes there are, and how many pairs read them, counts and use_counts
// [T, B]. begins_word [N] is read if `with_atoms`; a seed of noise if `noise`.
extern "C" __global__ void play_sentences(
    const REAL* scores, const int* begins_word, Long with_atoms, Bits seed, Bits noise, SENTENCES, REAL* keys,
    int* order, int* table, int* links, SPANS, Long* counts, Long* use_counts)
{
    __shared__ Long last;
    read_seed(seed, noise);
    const Long b = blockIdx.x, N = offsets[B], start = offsets[b], n = offsets[b + 1] - start, begin = (2 * W + 1) * start;
    int *words = order + start - b, *links_of = links + start + b;
    REAL* key = keys + start - b;
    for (Long i = THREAD; i < n - 1; i += THREADS) {
        const REAL score = scores[start - b + i] + (noise ? gumbel(seed, start + i) : REAL(0));
        key[i] = score == score ? score : REAL(0);  // a NaN is an error, which is reported elsewhere
    }
    for (Long t = THREAD; t < T; t += THREADS) counts[t * B + b] = use_counts[t * B + b] = 0;
    __syncthreads();
    for (Long i = THREAD; i < n - 1; i += THREADS) {
        const bool is_inner = with_atoms && !begins_word[start + i + 1];
        Long rank = 0;
        for (Long j = 0; j < n - 1; j++) {
            const bool other = with_atoms && !begins_word[start + j + 1];
            rank += other != is_inner ? other : key[j] < key[i] || (key[j] == key[i] && j < i);
        }
        words[rank] = i;
    }
    __syncthreads();
    if (THREAD == 0)
        last = play(words, links_of, links_of + N + B, table + (W + 1) * start, start, n, N, W, begin,
                    3 * W * (W + 1) / 2 * start, first, longer, step, first_splits, left_parts, right_parts);
    __syncthreads();
    for (Long i = THREAD; i < n + last - begin; i += THREADS) {
        const Long c = begin + i - n, part = i < n ? start + i : N + c;
        if (i >= n && step[c] == 0) continue;
        Long rank = 0, all = 0, earlier = 0, together = 0, used = 0;
        for (Long other = begin; other < last; other++) {
            if (step[other] == 0) continue;
            for (Long k = first_splits[other]; k < first_splits[other] + least(longer[other], W); k++)
                used += (left_parts[k] == part) + (right_parts[k] == part);
            if (i < n) continue;
            const bool before = longer[other] != longer[c] ? longer[other] < longer[c] : first[other] < first[c];
            rank += step[other] != step[c] ? step[other] < step[c] : before;
            together += step[other] == step[c];
            earlier += step[other] == step[c] && before;
            all++;
        }
        uses[part] = used;
        if (i < n) continue;
        ranked[begin + rank] = c;
        place[c] = earlier;
        if (earlier == 0) counts[step[c] * B + b] = together;
        if (rank == all - 1) needed[b] = all;
    }
    if (THREAD == 0) counts[b] = n;
    if (THREAD == 0 && n == 1) needed[b] = 0;
    __syncthreads();
    for (Long i = THREAD; i < n + last - begin; i += THREADS) {
        const Long c = begin + i - n;
        if (i == 0 ? false : i < n || step[c] == 0 || place[c] > 0) continue;
        Long sum = 0;
        if (i == 0)
            for (Long w = start; w < start + n; w++) sum += uses[w];
        else
            for (Long other = begin; other < last; other++)
                if (step[other] == step[c]) sum += uses[N + other];
        use_counts[(i == 0 ? 0 : step[c]) * B + b] = sum;
    }
}

// By one block: where the nodes of every step and sentence begin, and the pairs that read them, starts and use_starts
// [T, B]; and of every step, with the end of all, [T + 1] nodes, the pairs that read them, their own pairs.
extern "C" __global__ void number_nodes(
    const Long* counts, const Long* use_counts, Long B, Long W, Long T, Long* starts, Long* use_starts, Long* steps)
{
    __shared__ Long sums[2][NUMBERING];
    const Long per = (T * B + NUMBERING - 1) / NUMBERING, stop = least((THREAD + 1) * per, T * B);
    Long nodes = 0, used = 0;
    for (Long i = THREAD * per; i < stop; i++) {
        nodes += counts[i];
        used += use_counts[i];
    }
    sums[0][THREAD] = nodes;
    sums[1][THREAD] = used;
    __syncthreads();
    if (THREAD < 2) {
        Long before = 0;
        for (int i = 0; i < NUMBERING; i++) {
            const Long sum = sums[THREAD][i];
            sums[THREAD][i] = before;
            before += sum;
        }
        steps[THREAD * (T + 1) + T] = before;
    }
    __syncthreads();
    nodes = sums[0][THREAD];
    used = sums[1][THREAD];
    for (Long i = THREAD * per; i < stop; i++) {
        starts[i] = nodes;
        use_starts[i] = used;
        if (i % B == 0) {
            steps[i / B] = nodes;
            steps[T + 1 + i / B] = used;
        }
        nodes += counts[i];
        used += use_counts[i];
    }
    __syncthreads();
    for (Long t = THREAD; t <= T; t += THREADS) {
        Long pairs = 0;
        for (Long s = 1; s < t && s < W; s++) pairs += (steps[s + 1] - steps[s]) * s;
        steps[2 * (T + 1) + t] = pairs + (t > W ? (steps[t] - steps[W]) * W : 0);
    }
}

// What is written of the nodes: their first and last words; whether they are roots; where the pairs that read a node
// begin, [M + 1]; those of a cell, [M - N + 1], and twice that of every node, [M + 1]; M is the room for nodes.
#define OF_NODES                                                                                                      \
    int *first_words, int *last_words, int *is_root, Long *use_offsets, Long *split_offsets, Long *parent_offsets,    \
        int *roots
// What a pass reads of its pairs: two rows each, and what scores them. uses: the rows that read every node.
#define INNER int *inner_rows, int *inner_roles, int *inner_left, int *inner_right, int *inner_uses
#define OUTER int *outer_rows, int *outer_roles, int *outer_left, int *outer_right, int *parent_uses, int *sibling_uses

// number: the nodes of parts; entries [2 P]: scratch.
extern "C" __global__ void list_pairs(
    SENTENCES, Long M, SPANS, const Long* starts, const Long* use_starts, const Long* steps, int* number,
    Long* entries, OF_NODES, INNER, OUTER)
{
    const Long b = blockIdx.x, N = offsets[B], start = offsets[b], n = offsets[b + 1] - start, begin = (2 * W + 1) * start;
    const Long count = needed[b], *pairs = steps + 2 * (T + 1);
    for (Long i = THREAD; i < n + count; i += THREADS) {
        const Long c = i < n ? 0 : ranked[begin + i - n], t = i < n ? 0 : step[c];
        const Long node = i < n ? start + i : starts[t * B + b] + place[c];
        Long before = use_starts[t * B + b];
        for (Long j = i - 1; i < n ? j >= 0 : j >= n && step[ranked[begin + j - n]] == t; j--)
            before += uses[i < n ? start + j : N + ranked[begin + j - n]];
        const Long offset = i < n ? 0 : pairs[t] + (node - steps[t]) * least(t, W);
        number[i < n ? node : N + c] = node;
        first_words[node] = i < n ? node : start + first[c];
        last_words[node] = i < n ? node : start + first[c] + longer[c];
        is_root[node] = i == n + count - 1;
        use_offsets[node] = before;
        parent_offsets[node] = 2 * offset;
        if (i >= n) split_offsets[node - N] = offset;
        if (i == n + count - 1) roots[b] = node;
    }
    for (Long m = steps[T] + THREAD; b == 0 && m <= M; m += THREADS) {  // room that no node takes
        use_offsets[m] = steps[2 * T + 1];
        parent_offsets[m] = 2 * pairs[T];
        split_offsets[m - N] = pairs[T];
        if (m < M) is_root[m] = first_words[m] = last_words[m] = 0;
    }
    __syncthreads();
    for (Long i = THREAD; i < n + count; i += THREADS) {
        const Long part = i < n ? start + i : N + ranked[begin + i - n], node = number[part];
        for (Long k = 0; i >= n && k < least(step[part - N], W); k++) {
            const Long p = split_offsets[node - N] + k, split = first_splits[part - N] + k;
            const int left = number[left_parts[split]], right = number[right_parts[split]];
            inner_rows[2 * p] = inner_left[p] = left;
            inner_rows[2 * p + 1] = right;
            inner_right[p] = M + right;
            inner_roles[2 * p] = 0;
            inner_roles[2 * p + 1] = 1;
        }
        Long q = use_offsets[node];
        for (int side = 0; side < 2; side++)
            for (Long r = 0; r < count; r++) {
                const Long c = ranked[begin + r], parent = number[N + c];
                for (Long k = 0; k < least(step[c], W); k++) {
                    const Long split = first_splits[c] + k, p = split_offsets[parent - N] + k;
                    if ((side ? right_parts : left_parts)[split] != part) continue;
                    const int sibling = number[(side ? left_parts : right_parts)[split]];
                    outer_rows[2 * q] = outer_left[q] = parent;
                    outer_rows[2 * q + 1] = M + sibling;
                    outer_right[q] = (side ? 0 : M) + sibling;
                    outer_roles[2 * q] = 0;
                    outer_roles[2 * q + 1] = side ? 1 : 2;
                    inner_uses[q] = 2 * p + side;
                    entries[2 * p + side] = q++;
                }
            }
    }
    __syncthreads();
    for (Long r = THREAD; r < count; r += THREADS) {
        const Long c = ranked[begin + r], offset = split_offsets[number[N + c] - N];
        for (Long i = 2 * offset; i < 2 * (offset + least(step[c], W)); i++) {
            parent_uses[i] = 2 * entries[i];
            sibling_uses[entries[i]] = 2 * entries[i ^ 1] + 1;
        }
    }
}
