// The same operations as loops that a programmer would write first, for the compiler that also compiles the kernels.
#include <cmath>
#include <vector>

extern "C" {

void vector_add(const float* x, const float* y, float* out, int n) {
    for (int i = 0; i < n; ++i) out[i] = x[i] + y[i];
}

void transpose(const float* x, float* out, int n) {
    for (int row = 0; row < n; ++row)
        for (int column = 0; column < n; ++column) out[column * n + row] = x[row * n + column];
}

void layer_norm(const float* x, const float* weight, const float* bias, float* out, int rows, int n, float eps) {
    for (int row = 0; row < rows; ++row, x += n, out += n) {
        float total = 0.0f, squares = 0.0f;
        for (int i = 0; i < n; ++i) total += x[i];
        const float mean = total / n;
        for (int i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
        const float rstd = 1.0f / std::sqrt(squares / n + eps);
        for (int i = 0; i < n; ++i) out[i] = (x[i] - mean) * rstd * weight[i] + bias[i];
    }
}

void softmax(const float* x, float* out, int rows, int n) {
    for (int row = 0; row < rows; ++row, x += n, out += n) {
        float largest = x[0], total = 0.0f;
        for (int i = 1; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
        for (int i = 0; i < n; ++i) total += out[i] = std::exp(x[i] - largest);
        for (int i = 0; i < n; ++i) out[i] /= total;
    }
}

void matmul(const float* a, const float* b, float* c, int n) {
    for (int row = 0; row < n; ++row) {
        for (int column = 0; column < n; ++column) c[row * n + column] = 0.0f;
        for (int k = 0; k < n; ++k)
            for (int column = 0; column < n; ++column) c[row * n + column] += a[row * n + k] * b[k * n + column];
    }
}

void attention(const float* q, const float* k, const float* v, float* out, int heads, int s, int d, float scale) {
    std::vector<float> score(s);
    for (int head = 0; head < heads; ++head, q += s * d, k += s * d, v += s * d, out += s * d)
        for (int query = 0; query < s; ++query) {
            float largest = -INFINITY, total = 0.0f;
            for (int key = 0; key < s; ++key) {
                score[key] = 0.0f;
                for (int i = 0; i < d; ++i) score[key] += q[query * d + i] * k[key * d + i];
                score[key] *= scale;
                largest = score[key] > largest ? score[key] : largest;
            }
            for (int i = 0; i < d; ++i) out[query * d + i] = 0.0f;
            for (int key = 0; key < s; ++key) {
                const float weight = std::exp(score[key] - largest);
                total += weight;
                for (int i = 0; i < d; ++i) out[query * d + i] += weight * v[key * d + i];
            }
            for (int i = 0; i < d; ++i) out[query * d + i] /= total;
        }
}
}
