// As kernels inside a tensor library are written: accessors, aligned vectors, loops by macro, checks that say where.

typedef long long int64;

#define CUDA_KERNEL_LOOP(i, n) \
    for (int64 i = blockIdx.x * static_cast<int64>(blockDim.x) + threadIdx.x; i < (n); i += blockDim.x * static_cast<int64>(gridDim.x))

#define CHECK_INDEX(i, n)                                                                                   \
    do {                                                                                                    \
        if ((i) < 0 || (i) >= (n)) {                                                                        \
            printf("%s:%d: index %d is not in [0, %d)\n", __func__, __LINE__, static_cast<int>(i), (int)(n)); \
            __trap();                                                                                       \
        }                                                                                                   \
    } while (0)

namespace detail {

// Any strides, by value.
template <typename T, int DIM>
struct TensorAccessor {
    T* data;
    int64 sizes[DIM];
    int64 strides[DIM];

    template <typename... I>
    __host__ __device__ T& operator()(I... index) const
    {
        static_assert(sizeof...(I) == DIM, "as many indices as dimensions");
        const int64 at[] = {static_cast<int64>(index)...};
        int64 offset = 0;
#pragma unroll
        for (int d = 0; d < DIM; ++d) offset += at[d] * strides[d];
        return data[offset];
    }
};

template <typename scalar_t, int vec_size>
struct alignas(sizeof(scalar_t) * vec_size) aligned_vector {
    scalar_t val[vec_size];
};

template <typename T> struct MulAdd {
    T scale;
    __device__ __forceinline__ T operator()(T a, T b) const { return a * scale + b; }
};

}  // namespace detail

// out[i] = f(a[i], b[i]) with vec_size elements a load where a block's part is whole, one by one where not.
template <int vec_size, typename scalar_t, typename func_t, int kWork = 4>
__global__ void vectorized_elementwise_kernel(int N, func_t f, scalar_t* out, const scalar_t* a, const scalar_t* b)
{
    using vec_t = detail::aligned_vector<scalar_t, vec_size>;
    const int block_work = kWork * blockDim.x, first = block_work * blockIdx.x, remaining = N - first;
    if (remaining < block_work) {
        for (int i = threadIdx.x; i < remaining; i += blockDim.x) out[first + i] = f(a[first + i], b[first + i]);
        return;
    }
#pragma unroll
    for (int i = 0; i < kWork / vec_size; ++i) {
        const int index = threadIdx.x + i * blockDim.x;
        const vec_t va = reinterpret_cast<const vec_t*>(a + first)[index];
        const vec_t vb = *(reinterpret_cast<const vec_t*>(b + first) + index);
        vec_t result;
#pragma unroll
        for (int j = 0; j < vec_size; ++j) result.val[j] = f(va.val[j], vb.val[j]);
        reinterpret_cast<vec_t*>(out + first)[index] = result;
    }
}

// Picks one row of a strided matrix for each index.
template <typename scalar_t>
__global__ void index_select(detail::TensorAccessor<const scalar_t, 2> src, detail::TensorAccessor<scalar_t, 2> dst, const int64* index)
{
    CUDA_KERNEL_LOOP(linear, dst.sizes[0] * dst.sizes[1]) {
        const int64 row = linear / dst.sizes[1], col = linear % dst.sizes[1];
        CHECK_INDEX(index[row], src.sizes[0]);
        dst(row, col) = src(index[row], col);
    }
}

// A three-dimensional grid of three-dimensional blocks: the cross product of two fields of vectors, components first.
__global__ void cross_field(const float* u, const float* v, float* w, dim3 size)
{
    const unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y,
                   z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= size.x || y >= size.y || z >= size.z) return;
    const unsigned volume = size.x * size.y * size.z, at = (z * size.y + y) * size.x + x;
    const auto field = [=](const float* f) { return float3{f[at], f[at + volume], f[at + 2 * volume]}; };
    const float3 a = field(u), b = field(v);
    w[at] = a.y * b.z - a.z * b.y;
    w[at + volume] = a.z * b.x - a.x * b.z;
    w[at + 2 * volume] = a.x * b.y - a.y * b.x;
}

// More shared memory than a block has unless it asks: counts of 20,000 values.
__global__ void large_histogram(const int* values, int n, unsigned* counts, int bins)
{
    extern __shared__ __align__(16) unsigned local_counts[];
    for (int i = threadIdx.x; i < bins; i += blockDim.x) local_counts[i] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd_block(&local_counts[values[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < bins; i += blockDim.x) counts[i] = local_counts[i];
}
