// Each thread adds up `loads` (a multiple of 32) values of a table in shared memory; neighbouring threads read `stride`
// floats apart. The table holds its own indices, and the sums tell which were read.

__global__ void shared_stride(int* sums, int stride, int loads)
{
    __shared__ int table[2048 + 32];
    for (int i = threadIdx.x; i < 2048 + 32; i += blockDim.x) {
        table[i] = i;
    }
    __syncthreads();
    int sum = 0, first = threadIdx.x % 32 * stride;
#pragma unroll 1
    for (int done = 0; done < loads; done += 32) {
        const int* at = table + (first + done) % 2048;
#pragma unroll
        for (int k = 0; k < 32; ++k) {
            sum += at[k];
        }
    }
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// As many values, neighbouring threads 4 apart, but four of them at a time: a quarter of the loads.
__global__ void shared_vectors(int* sums, int loads)
{
    __shared__ int4 table[512 + 8];
    for (int i = threadIdx.x; i < 512 + 8; i += blockDim.x) {
        table[i] = make_int4(4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3);
    }
    __syncthreads();
    int sum = 0, first = threadIdx.x % 32;
#pragma unroll 1
    for (int done = 0; done < loads / 4; done += 8) {
        const int4* at = table + (first + done) % 512;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            int4 four = at[k];
            sum += four.x + four.y + four.z + four.w;
        }
    }
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
