// Text and bits.

extern "C" __global__ void toUpper(char *str, int len)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < len; i += gridDim.x * blockDim.x) {
        char c = str[i];
        switch (c) {
        case '\t':
        case '\n': str[i] = ' '; break;
        default:
            if (c >= 'a' && c <= 'z') str[i] = c - 'a' + 'A';
        }
    }
}

// Where a pattern begins in a text; the pattern in shared memory.
__global__ void find_pattern(const char* text, int text_len, const char* pattern, int pattern_len, unsigned char* match)
{
    extern __shared__ char p[];
    for (int i = threadIdx.x; i < pattern_len; i += blockDim.x) p[i] = pattern[i];
    __syncthreads();
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= text_len) return;
    bool same = at + pattern_len <= text_len;
    for (int j = 0; same && j < pattern_len; ++j) same = text[at + j] == p[j];
    match[at] = same;
}

// FNV-1a of each row of bytes, 64 bits.
__global__ void fnv1a(const unsigned char* data, unsigned long long* hashes, int rows, int length)
{
    const int row = threadIdx.x + blockIdx.x * blockDim.x;
    if (row >= rows) return;
    unsigned long long h = 0xcbf29ce484222325ULL;
    for (int i = 0; i < length; i++) {
        h ^= data[row * length + i];
        h *= 0x100000001b3ULL;
    }
    hashes[row] = h;
}

// Bits of differing words, and the position of the highest: population counts, leading zeros, reversals.
__global__ void bit_facts(const unsigned* a, const unsigned* b, int4* facts, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) facts[i] = make_int4(__popc(a[i] ^ b[i]), 31 - __clz(a[i]), __ffs(b[i]), (int)__brev(a[i]));
}

// Words of words: bytes turned round and averaged four at once.
__global__ void byte_lanes(const unsigned* a, const unsigned* b, unsigned* swapped, unsigned* mean, unsigned* shifted, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    swapped[i] = __byte_perm(a[i], 0, 0x0123);
    mean[i] = __vavgu4(a[i], b[i]);
    shifted[i] = __funnelshift_l(a[i], b[i], i & 31);
}

// Levenshtein distance of two words, a diagonal of the table at a time, a pair of words a block.
__global__ void edit_distance(const char* a, const char* b, int* distance, int n)
{
    extern __shared__ int diag[];  // three of n + 1
    int *d0 = diag, *d1 = diag + n + 1, *d2 = diag + 2 * (n + 1);
    a += blockIdx.x * n;
    b += blockIdx.x * n;
    for (int d = 0; d <= 2 * n; ++d) {
        for (int i = threadIdx.x; i <= n; i += blockDim.x) {
            const int j = d - i;
            if (j < 0 || j > n) continue;
            if (i == 0 || j == 0) d2[i] = i + j;
            else d2[i] = min(min(d1[i - 1], d1[i]) + 1, d0[i - 1] + (a[i - 1] != b[j - 1]));
        }
        __syncthreads();
        int* t = d0; d0 = d1; d1 = d2; d2 = t;
    }
    if (threadIdx.x == 0) distance[blockIdx.x] = d1[n];
}
