// Where the nodes and the pairs of charts lie. Of no use alone: what includes it has warp.cu before.
// A sentence has its nodes and its pairs row by row, and its place among the sentences sorted by length, longest first.
// Nodes that have a parent also have a row in height order, starts[h - 1] and further for those of h tokens: the
// longer sentences come first, so these are the first of their height.

struct Sentence {
    Long first, n, token, node, pair;  // among all tokens as sorted; length; among all tokens, nodes and pairs as given
};

struct Node {
    Sentence sentence;
    Long number, start;  // of the sentence as sorted; first token in it
};

// Node `number` among those of h tokens, which `active` sentences have.
__device__ Node find_node(const Long* sentences, Long active, Long h, Long number)
{
    const Sentence* all = (const Sentence*)sentences;
    Long low = 0, high = active;
    while (high - low > 1) {
        const Long middle = (low + high) / 2;
        if (all[middle].first - middle * (h - 1) <= number) low = middle;
        else high = middle;
    }
    return {all[low], low, number - all[low].first + low * (h - 1)};
}

// The row in height order of the child of h tokens at `start` in the node's sentence.
__device__ Long child_row(const Node& node, const Long* starts, Long h, Long start)
{
    return starts[h - 1] + node.sentence.first - node.number * (h - 1) + start;
}

// Where the node of h tokens at `start` stands among all nodes, and its first pair among all pairs.
__device__ Long node_row(const Sentence& sentence, Long h, Long start)
{
    return sentence.node + (h - 1) * sentence.n - (h - 1) * (h - 2) / 2 + start;
}

__device__ Long first_pair(const Sentence& sentence, Long h, Long start)
{
    const Long sum = (h - 1) * (h - 2) / 2;
    return sentence.pair + sum * sentence.n - sum * (2 * h - 3) / 3 + start * (h - 1);
}

// The gradient of a vector: of a node of which no kernel before this one added what goes through its parents, in parts.
struct Gradient { const REAL *x, *left, *right; };

__device__ REAL at(const Gradient& gradient, Long u)
{
    return gradient.left ? gradient.x[u] + (gradient.left[u] + gradient.right[u]) : gradient.x[u];
}

// Of the node at `row`, number `number` of its height; the first n_through of these have parents.
__device__ Gradient gradient_of(
    const REAL* d_nodes, const REAL* left, const REAL* right, Long row, Long number, Long n_through, Long d)
{
    const bool inner = number < n_through;
    return {d_nodes + row * d, inner ? left + number * d : nullptr, inner ? right + number * d : nullptr};
}
