// Bank conflicts: shared memory read and written at a stride.

// Writes at one stride, reads at another; element (i * stride) mod size of an array of `size` elements.
template <typename T>
__global__ void strides(const T* x, T* y, int write_stride, int read_stride, int size)
{
    extern __shared__ __align__(16) unsigned char bytes[];
    T* tile = reinterpret_cast<T*>(bytes);
    int i = threadIdx.x;
    tile[i * write_stride % size] = x[blockIdx.x * blockDim.x + i];
    __syncthreads();
    y[blockIdx.x * blockDim.x + i] = tile[i * read_stride % size];
}

// Groups of `lanes` neighbouring threads read the same word; groups are `stride` words apart.
__global__ void broadcast(const float* x, float* y, int lanes, int stride)
{
    __shared__ float tile[1024];
    int i = threadIdx.x;
    tile[i] = x[blockIdx.x * blockDim.x + i];
    __syncthreads();
    y[blockIdx.x * blockDim.x + i] = tile[i / lanes * stride];
}

// A column of a matrix of 16-byte elements, then a row.
__global__ void float4_columns(const float4* x, float4* y)
{
    __shared__ float4 tile[8][8];
    int row = threadIdx.x / 8, column = threadIdx.x % 8;
    tile[row][column] = x[blockIdx.x * 64 + threadIdx.x];
    __syncthreads();
    y[blockIdx.x * 64 + threadIdx.x] = tile[column][row];
}

// Lanes read any element: lanes that read the same word share it, other words of one bank take turns.
template <typename T>
__global__ void gather_shared(const T* x, const int* index, T* y)
{
    __shared__ T tile[256];
    int i = threadIdx.x;
    tile[i] = x[i];
    __syncthreads();
    int from = index[blockIdx.x * blockDim.x + i];
    y[blockIdx.x * blockDim.x + i] = tile[from];
}

// Lanes write any element, each its own.
template <typename T>
__global__ void scatter_shared(const T* x, const int* index, T* y)
{
    __shared__ T tile[256];
    int i = threadIdx.x;
    int to = index[i];
    tile[to] = x[blockIdx.x * blockDim.x + i];
    __syncthreads();
    y[blockIdx.x * blockDim.x + i] = tile[i];
}
