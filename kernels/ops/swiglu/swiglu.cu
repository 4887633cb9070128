// Level 5: SwiGLU and GeGLU in CUDA C, y = activation(gate) * up, and their backward, for M rows of N columns.
//
// A thread has SIZE neighbouring columns of one row, by one load of each tensor. A block is (columns / SIZE, rows) threads, and
// `across` blocks side by side cover a row. Rows are whole packs of SIZE, except that a matrix of one row may end with a part:
// its columns have a thread each, so that none waits for another.

#include "activations.cuh"
#include "packs.cuh"

template <typename T, int SIZE, int ACTIVATION>
__global__ void swiglu_packs(const T* gate, const T* up, T* y, long long gate_stride, long long up_stride, long long M,
                             long long N, int across)
{
    const long long i = (long long)(blockIdx.x / across) * blockDim.y + threadIdx.y;
    const long long pack = (long long)(blockIdx.x % across) * blockDim.x + threadIdx.x, packs = N / SIZE;
    if (i >= M) return;
    gate += i * gate_stride;
    up += i * up_stride;
    y += i * N;
    if (pack < packs) {
        const long long j = pack * SIZE;
        Floats<SIZE> gates = load_floats<SIZE>(gate + j), ups = load_floats<SIZE>(up + j);
        for (int k = 0; k < SIZE; ++k) gates.at[k] = activated<T, ACTIVATION>(gates.at[k]).value * ups.at[k];
        store_floats(y + j, gates);
    } else if (const long long j = pack + packs * (SIZE - 1); j < N) {
        y[j] = (T)(activated<T, ACTIVATION>((float)gate[j]).value * (float)up[j]);
    }
}

// dgate = dy * up * activation'(gate), dup = dy * activation(gate). The same launch.
template <typename T, int SIZE, int ACTIVATION>
__global__ void swiglu_backward_packs(const T* dy, const T* gate, const T* up, T* dgate, T* dup, long long dy_stride,
                                      long long gate_stride, long long up_stride, long long M, long long N, int across)
{
    const long long i = (long long)(blockIdx.x / across) * blockDim.y + threadIdx.y;
    const long long pack = (long long)(blockIdx.x % across) * blockDim.x + threadIdx.x, packs = N / SIZE;
    if (i >= M) return;
    dy += i * dy_stride;
    gate += i * gate_stride;
    up += i * up_stride;
    dgate += i * N;
    dup += i * N;
    if (pack < packs) {
        const long long j = pack * SIZE;
        Floats<SIZE> dys = load_floats<SIZE>(dy + j), gates = load_floats<SIZE>(gate + j), ups = load_floats<SIZE>(up + j);
        for (int k = 0; k < SIZE; ++k) {
            Activated activated_gate = activated<T, ACTIVATION>(gates.at[k]);
            gates.at[k] = dys.at[k] * ups.at[k] * activated_gate.slope;
            ups.at[k] = dys.at[k] * activated_gate.value;
        }
        store_floats(dgate + j, gates);
        store_floats(dup + j, ups);
    } else if (const long long j = pack + packs * (SIZE - 1); j < N) {
        const float dy_value = (float)dy[j], up_value = (float)up[j];
        const Activated activated_gate = activated<T, ACTIVATION>((float)gate[j]);
        dgate[j] = (T)(dy_value * up_value * activated_gate.slope);
        dup[j] = (T)(dy_value * activated_gate.value);
    }
}
