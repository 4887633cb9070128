// Level 5: SwiGLU and GeGLU in CUDA C, y = activation(gate) * up, and their backward, for M rows of N columns.
//
// A thread has SIZE neighbouring columns of one row, by one load of each tensor. A block is (columns / SIZE, rows) threads, and
// `across` blocks side by side cover a row. Rows are whole packs of SIZE, except that a matrix of one row may end with a part.

#include "activations.cuh"
#include "packs.cuh"

template <typename T, int SIZE, int ACTIVATION>
__global__ void swiglu_packs(const T* gate, const T* up, T* y, long long gate_stride, long long up_stride, long long M,
                             long long N, int across)
{
    const long long i = (long long)(blockIdx.x / across) * blockDim.y + threadIdx.y;
    long long j = ((long long)(blockIdx.x % across) * blockDim.x + threadIdx.x) * SIZE;
    if (i >= M) return;
    gate += i * gate_stride;
    up += i * up_stride;
    y += i * N;
    if (j + SIZE <= N) {
        Floats<SIZE> gates = load_floats<SIZE>(gate + j), ups = load_floats<SIZE>(up + j);
        for (int k = 0; k < SIZE; ++k) gates.at[k] = activated<T, ACTIVATION>(gates.at[k]).value * ups.at[k];
        store_floats(y + j, gates);
    } else {
        for (; j < N; ++j) y[j] = (T)(activated<T, ACTIVATION>((float)gate[j]).value * (float)up[j]);
    }
}

// dgate = dy * up * activation'(gate), dup = dy * activation(gate). The same launch.
template <typename T, int SIZE, int ACTIVATION>
__global__ void swiglu_backward_packs(const T* dy, const T* gate, const T* up, T* dgate, T* dup, long long dy_stride,
                                      long long gate_stride, long long up_stride, long long M, long long N, int across)
{
    const long long i = (long long)(blockIdx.x / across) * blockDim.y + threadIdx.y;
    long long j = ((long long)(blockIdx.x % across) * blockDim.x + threadIdx.x) * SIZE;
    if (i >= M) return;
    dy += i * dy_stride;
    gate += i * gate_stride;
    up += i * up_stride;
    dgate += i * N;
    dup += i * N;
    if (j + SIZE <= N) {
        Floats<SIZE> dys = load_floats<SIZE>(dy + j), gates = load_floats<SIZE>(gate + j), ups = load_floats<SIZE>(up + j);
        for (int k = 0; k < SIZE; ++k) {
            Activated of_gate = activated<T, ACTIVATION>(gates.at[k]);
            gates.at[k] = dys.at[k] * ups.at[k] * of_gate.slope;
            ups.at[k] = dys.at[k] * of_gate.value;
        }
        store_floats(dgate + j, gates);
        store_floats(dup + j, ups);
    } else {
        for (; j < N; ++j) {
            Activated of_gate = activated<T, ACTIVATION>((float)gate[j]);
            dgate[j] = (T)((float)dy[j] * (float)up[j] * of_gate.slope);
            dup[j] = (T)((float)dy[j] * of_gate.value);
        }
    }
}
