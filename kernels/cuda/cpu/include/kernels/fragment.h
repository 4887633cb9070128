// A warp's matrices in fragments of its lanes: element i of lane l is element l·num_elements + i of the matrix in row-major
// order, from the start again where a fragment has room for more.
#pragma once

namespace kernels {
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32;
}

// For the type of a and b: how it is stored, what it is computed in, and the number of elements in fragments of a and b.
template <class T> struct Multiplied;
template <> struct Multiplied<__half> {
    using Stored = __half;
    using Computed = float;
    static constexpr int elements(int, int) { return 16; }
};
template <> struct Multiplied<__nv_bfloat16> {
    using Stored = __nv_bfloat16;
    using Computed = float;
    static constexpr int elements(int rows, int columns) { return rows * columns / 32; }
};
template <> struct Multiplied<precision::tf32> {
    using Stored = float;
    using Computed = float;
    static constexpr int elements(int rows, int columns) { return rows * columns / 32; }
};
template <> struct Multiplied<double> {
    using Stored = double;
    using Computed = double;
    static constexpr int elements(int rows, int columns) { return rows * columns / 32; }
};
template <> struct Multiplied<signed char> {
    using Stored = signed char;
    using Computed = int;
    static constexpr int elements(int rows, int columns) { return rows * columns / 32; }
};
template <> struct Multiplied<unsigned char> {
    using Stored = unsigned char;
    using Computed = int;
    static constexpr int elements(int rows, int columns) { return rows * columns / 32; }
};

constexpr bool wide_shape(int m, int n, int k) { return k == 16 && m * n == 256 && (m == 8 || m == 16 || m == 32); }
template <class T>
constexpr bool has_shape(int m, int n, int k) {
    if (std::is_same<T, double>::value) return m == 8 && n == 8 && k == 4;
    if (std::is_same<T, precision::tf32>::value) return m == 16 && n == 16 && k == 8;
    return wide_shape(m, n, k);
}

template <class Use, int m, int n, int k, class T, class Layout = void>
struct fragment {
    static_assert(has_shape<T>(m, n, k), "nvcuda::wmma has no fragment of this shape and type");
    static_assert(!std::is_void<Layout>::value, "a fragment of matrix_a or matrix_b takes row_major or col_major");
    static constexpr int rows = std::is_same<Use, matrix_a>::value ? m : k;
    static constexpr int columns = std::is_same<Use, matrix_a>::value ? k : n;
    static constexpr int num_elements = Multiplied<T>::elements(rows, columns);
    static constexpr int num_storage_elements = num_elements;
    using element_type = T;
    using storage_element_type = typename Multiplied<T>::Stored;
    storage_element_type x[num_elements];
};
template <int m, int n, int k, class T>
struct fragment<accumulator, m, n, k, T, void> {
    static_assert(std::is_same<T, double>::value ? has_shape<T>(m, n, k)
                                                 : wide_shape(m, n, k) || (has_shape<precision::tf32>(m, n, k) &&
                                                                           std::is_same<T, float>::value),
                  "nvcuda::wmma has no accumulator of this shape and type");
    static constexpr int rows = m, columns = n, num_elements = m * n / 32, num_storage_elements = num_elements;
    using element_type = T;
    using storage_element_type = T;
    T x[num_elements];
};

// All 32 lanes are here before any goes on.
inline void meet(const char* name, Site site) {
    if (self.running / 32 * 32 + 32 > self.count) fail(name, " in a warp of fewer than 32 threads", site);
    collective(Collective::sync, 0xffffffffu, 0, {site.file, site.line, name});
}

template <class T>
inline void arrive(const char* name, const T* memory, unsigned stride, Site site) {
    if (stride * sizeof(T) % 16) fail(name, " with a stride that is no multiple of 16 bytes", site);
    if (uintptr_t(memory) % 16) fail(name, " with a pointer that is not aligned to 16 bytes", site);
    meet(name, site);
}

template <class Fragment, class T>
inline void load(Fragment& to, const T* from, unsigned stride, bool by_rows, const char* name, Site site) {
    arrive(name, from, stride, site);
    const int lane = int(self.running % 32);
    for (int i = 0; i < to.num_elements; ++i) {
        const int element = (lane * to.num_elements + i) % (to.rows * to.columns);
        const int row = element / to.columns, column = element % to.columns;
        to.x[i] = from[by_rows ? row * stride + column : column * stride + row];
    }
}

inline float widened(__half x, __half*) { return __half2float(x); }
inline float widened(__nv_bfloat16 x, __nv_bfloat16*) { return __bfloat162float(x); }
inline float widened(float x, precision::tf32*) { return bits<float>(bits<uint32_t>(x) & ~0x1fffu); }
template <class T>
inline T widened(T x, T*) { return x; }

template <class T> inline void narrow(float from, T& to, bool saturating) {
    if (saturating) {
        const float most = std::is_same<T, __half>::value ? 65504.0f : 3.402823466e38f;
        from = from != from ? 0.0f : from > most ? most : from < -most ? -most : from;
    }
    to = T(from);
}
inline void narrow(double from, double& to, bool) { to = from; }
inline void narrow(long long from, int& to, bool saturating) { to = saturating ? saturate<int>(double(from)) : int(from); }

// Where the lanes of each warp exchange a and b. Two halves taken in turn: a lane that is a product ahead writes to the one
// that no one reads.
template <class T, int size>
inline thread_local T exchanged[max_threads / 32][2][size];
inline thread_local unsigned char turn[max_threads];

template <class D, class A, class B, class C>
inline void multiply(D& d, const A& a, const B& b, const C& c, bool saturating, Site site) {
    using T = typename A::element_type;
    using Computed = typename Multiplied<T>::Computed;
    using Sum = typename std::conditional<std::is_same<Computed, int>::value, long long, Computed>::type;
    constexpr int m = A::rows, k = A::columns, n = B::columns, held = D::num_elements;
    static_assert(std::is_same<Computed, float>::value ? !std::is_integral<typename D::element_type>::value
                                                       : std::is_same<Computed, typename D::element_type>::value,
                  "mma_sync has no accumulator of this type for these factors");
    const int lane = int(self.running % 32);
    Computed* factors = exchanged<Computed, m * k + k * n>[self.running / 32][turn[self.running] ^= 1];
    if (lane * a.num_elements < m * k)
        for (int i = 0; i < a.num_elements; ++i) factors[lane * a.num_elements + i] = widened(a.x[i], (T*)nullptr);
    if (lane * b.num_elements < k * n)
        for (int i = 0; i < b.num_elements; ++i) factors[m * k + lane * b.num_elements + i] = widened(b.x[i], (T*)nullptr);
    meet("mma_sync", site);
    const int row = lane * held / n, column = lane * held % n;
    Sum sums[held];
    for (int i = 0; i < held; ++i) sums[i] = Sum(widened(c.x[i], (typename C::element_type*)nullptr));
    for (int inner = 0; inner < k; ++inner) {
        const Computed factor = factors[row * k + inner];
        const Computed* others = factors + m * k + inner * n + column;
        for (int i = 0; i < held; ++i) sums[i] += factor * others[i];
    }
    for (int i = 0; i < held; ++i) narrow(sums[i], d.x[i], saturating);
}

}  // namespace wmma
}  // namespace kernels
