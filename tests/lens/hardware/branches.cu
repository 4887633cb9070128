// Lanes that differ: conditions, tails, early returns, loops of a lane's own length.

// Every `period`-th lane works.
__global__ void every(const float* x, float* y, int period, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && i % period == 0) {
        float value = x[i];
        y[i] = value;
    }
}

// Lanes below and above a border read different arrays.
__global__ void either(const float* a, const float* b, float* y, int border, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value;
    if (threadIdx.x % 32 < border) {
        value = a[i];
    } else {
        value = b[2 * i];
    }
    y[i] = value;
}

// A condition on what was read: lanes with a negative value read a second array and write.
__global__ void negative(const float* x, const float* other, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value = x[i];
    if (value < 0.0f) {
        float instead = other[i];
        y[i] = instead;
    }
}

// Lane i sums i % period elements.
__global__ void own_length(const float* x, float* y, int period, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int length = i % period;
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < length; ++k) {
        sum += x[i + k * 32];
    }
    y[i] = sum;
}

// The same, unrolled as the compiler likes.
__global__ void own_length_unrolled(const float* x, float* y, int period, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int length = i % period;
    float sum = 0.0f;
#pragma unroll 4
    for (int k = 0; k < length; ++k) {
        sum += x[i + k * 32];
    }
    y[i] = sum;
}

// Sparse matrix times vector, one thread a row: rows have lengths of their own.
__global__ void csr(const int* starts, const int* columns, const float* values, const float* x, float* y, int rows)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    int start = starts[row];
    int end = starts[row + 1];
    float sum = 0.0f;
#pragma unroll 1
    for (int k = start; k < end; ++k) {
        int column = columns[k];
        float value = values[k];
        sum += value * x[column];
    }
    y[row] = sum;
}

// A search: each lane halves its own interval until it is empty.
__global__ void lower_bound(const float* sorted, const float* wanted, int* found, int n, int m)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m) return;
    float value = wanted[i];
    int low = 0, high = n;
#pragma unroll 1
    while (low < high) {
        int middle = (low + high) / 2;
        float element = sorted[middle];
        if (element < value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    found[i] = low;
}

// A loop that a lane leaves when it has found what it looks for, and goes on where its value is odd.
__global__ void first_at_least(const int* x, int* y, int least, int steps, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int found = -1;
#pragma unroll 1
    for (int k = 0; k < steps; ++k) {
        int value = x[k * n + i];
        if (value % 2) continue;
        if (value >= least) {
            found = k;
            break;
        }
    }
    y[i] = found;
}
