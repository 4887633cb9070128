// Sparse matrices and graphs in compressed rows.

template <typename IndexType, typename ValueType>
__global__ void csr_spmv_scalar(unsigned int n_rows, const IndexType *col_ids, const IndexType *row_ptr,
                                const ValueType *data, const ValueType *x, ValueType *y)
{
    unsigned int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n_rows) {
        ValueType sum = 0;
        for (IndexType element = row_ptr[row]; element < row_ptr[row + 1]; element++) sum += data[element] * x[col_ids[element]];
        y[row] = sum;
    }
}

// A part of a warp a row.
template <int VECTOR>
__global__ void csr_spmv_vector(int rows, const int* __restrict__ ptr, const int* __restrict__ cols,
                                const float* __restrict__ vals, const float* __restrict__ x, float* __restrict__ y)
{
    const int id = blockIdx.x * blockDim.x + threadIdx.x, row = id / VECTOR, lane = id % VECTOR;
    float sum = 0;
    if (row < rows)
        for (int j = ptr[row] + lane; j < ptr[row + 1]; j += VECTOR) sum = fmaf(vals[j], x[cols[j]], sum);
    #pragma unroll
    for (int o = VECTOR / 2; o > 0; o >>= 1) sum += __shfl_down_sync(0xffffffff, sum, o, VECTOR);
    if (row < rows && lane == 0) y[row] = sum;
}

struct CooEntry { int row, col; double value; };

__global__ void coo_spmv(const CooEntry* entries, int nnz, const double* x, double* y)
{
    for (int e = blockIdx.x * blockDim.x + threadIdx.x; e < nnz; e += blockDim.x * gridDim.x) {
        const CooEntry t = entries[e];
        atomicAdd(&y[t.row], t.value * x[t.col]);
    }
}

// One level of a breadth-first search with a frontier; a found vertex is claimed by compare-and-swap.
__global__ void bfs_level(const int *offsets, const int *edges, int *depth, const int *frontier, int frontier_size,
                          int *next, int *next_size, int level)
{
    int tid = blockIdx.x * blockDim.x + threadIdx.x;
    if (tid >= frontier_size) return;
    int vertex = frontier[tid];
    for (int e = offsets[vertex]; e < offsets[vertex + 1]; e++) {
        int neighbour = edges[e];
        if (atomicCAS(&depth[neighbour], -1, level) == -1) {
            int at = atomicAdd(next_size, 1);
            next[at] = neighbour;
        }
    }
}

// One step of Floyd and Warshall: paths through vertex k.
__global__ void floyd_warshall(unsigned short *dist, int n, int k)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    __shared__ unsigned short through;
    if (threadIdx.x == 0) through = dist[i * n + k];
    __syncthreads();
    if (j >= n) return;
    const int other = through + dist[k * n + j];
    if (other < dist[i * n + j]) dist[i * n + j] = (unsigned short)other;
}
