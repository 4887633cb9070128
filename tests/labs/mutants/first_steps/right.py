"""Drills solved in another way."""


def _kernel(parameters: str, body: str) -> str:
    name = parameters.partition("(")[0]
    return f"__global__ void {name}{parameters.removeprefix(name)}\n{{\n{body}\n}}\n"


_I = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
_BOTH = "int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;"

_DRILLS = {
    "written the other way round": ("map(float* to, const float* from)", "to[threadIdx.x] = 10 + from[threadIdx.x];"),
    "in one line": ("zip(float* y, float* a, float* b)", "y[threadIdx.x] = b[threadIdx.x] * a[threadIdx.x];"),
    "a loop as the guard": (
        "guard(float* y, float* x, int n)",
        "for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = x[i] * x[i];",
    ),
    "stored in reverse": ("blocks(float* y, float* x, int n)", f"{_I} if (i < n) y[n - 1 - i] = x[i];"),
    "a value that is chosen": (
        "triangle(float* y, float* x, int M, int N)",
        f"{_BOTH} if (i >= M || j >= N) return; y[i * N + j] = j > i ? 0 : x[i * N + j];",
    ),
    "by a row's address": (
        "broadcast(float* y, float* a, float* b, int M, int N)",
        f"{_BOTH} if (i < M && j < N) {{ float* row = y + i * N; row[j] = b[j] + a[i]; }}",
    ),
    "four floats at once": (
        "pool(float* y, float* x, int n)",
        f"{_I} if (i < n) {{ float4 v = ((float4*)x)[i]; y[i] = fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)); }}",
    ),
    "backwards": (
        "convolution(float* y, float* x, float* w, int n, int K)",
        f"{_I} if (i < n) {{ float sum = 0; for (int k = K; k-- > 0;) sum += x[i + k] * w[k]; y[i] = sum; }}",
    ),
    "a shuffle": (
        "shared(float* y, float* x, int n)",
        f"{_I} float own = i < n ? x[i] : 0, before = __shfl_up_sync(~0u, own, 1);\n"
        "if (i < n) y[i] = threadIdx.x ? own - before : own;",
    ),
    "sums of warps by shuffles": (
        "dot(float* y, float* a, float* b, int n)",
        "__shared__ float of[4]; int t = threadIdx.x; float sum = t < n ? a[t] * b[t] : 0;\n"
        "for (int half = 16; half; half /= 2) sum += __shfl_down_sync(~0u, sum, half);\n"
        "if (t % 32 == 0) of[t / 32] = sum; __syncthreads(); if (t == 0) y[0] = of[0] + of[1] + of[2] + of[3];",
    ),
    "neighbours first": (
        "axis_sum(float* y, float* x, int N)",
        "__shared__ float part[64]; int t = threadIdx.x; float sum = 0;\n"
        "for (int j = t; j < N; j += 64) sum += x[blockIdx.x * N + j];\n"
        "part[t] = sum; __syncthreads(); for (int step = 1; step < 64; step *= 2) {\n"
        "    if (t % (2 * step) == 0) part[t] += part[t + step]; __syncthreads();\n"
        "}\nif (t == 0) y[blockIdx.x] = part[0];",
    ),
    "two arrays in turn": (
        "prefix_sum(float* y, float* x, int n)",
        "__shared__ float sum[2][128]; int t = threadIdx.x, at = 0; sum[0][t] = t < n ? x[t] : 0; __syncthreads();\n"
        "for (int step = 1; step < 128; step *= 2, at = 1 - at) {\n"
        "    sum[1 - at][t] = sum[at][t] + (t < step ? 0 : sum[at][t - step]); __syncthreads();\n"
        "}\nif (t < n) y[t] = sum[at][t];",
    ),
    "exponentials kept": (
        "softmax_row(float* y, float* x, int N)",
        "__shared__ float row[64], of[64]; int j = threadIdx.x, i = blockIdx.x * N; float most = -1e30f, sum = 0;\n"
        "row[j] = j < N ? x[i + j] : most; __syncthreads();\n"
        "for (int k = 0; k < 64; k++) most = fmaxf(most, row[k]);\n"
        "of[j] = expf(row[j] - most); __syncthreads(); for (int k = 0; k < N; k++) sum += of[k];\n"
        "if (j < N) y[i + j] = of[j] / sum;",
    ),
    "a tile that is stored transposed, padded": (
        "transpose(float* y, float* x, int M, int N)",
        "__shared__ float tile[16][17]; int r = threadIdx.y, c = threadIdx.x, I = blockIdx.y * 16, J = blockIdx.x * 16;\n"
        "if (I + r < M && J + c < N) tile[c][r] = x[(I + r) * N + J + c]; __syncthreads();\n"
        "if (J + r < N && I + c < M) y[(J + r) * M + I + c] = tile[r][c];",
    ),
    "smaller steps along k": (
        "tile(float* y, float* a, float* b, int M, int N, int K)",
        "__shared__ float p[16][8], q[8][16]; int r = threadIdx.y, c = threadIdx.x; float sum = 0;\n"
        "int i = blockIdx.y * 16 + r, j = blockIdx.x * 16 + c;\n"
        "for (int k = 0; k < K; k += 8) {\n"
        "    if (c < 8) p[r][c] = i < M && k + c < K ? a[i * K + k + c] : 0;\n"
        "    if (r < 8) q[r][c] = k + r < K && j < N ? b[(k + r) * N + j] : 0;\n"
        "    __syncthreads(); for (int l = 0; l < 8; l++) sum += p[r][l] * q[l][c]; __syncthreads();\n"
        "}\nif (i < M && j < N) y[i * N + j] = sum;",
    ),
}

ACCEPTED = {
    parameters.partition("(")[0]: {way: _kernel(parameters, body)} for way, (parameters, body) in _DRILLS.items()
}
