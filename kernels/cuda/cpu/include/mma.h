// nvcuda::wmma (CUDA C++ Programming Guide, "Warp Matrix Functions"): every documented shape and type but the experimental
// sub-byte ones. Where an element of a matrix lies in a fragment is unspecified by CUDA and differs from any GPU's here.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/fragment.h"

namespace nvcuda {
namespace wmma {

using kernels::wmma::accumulator;
using kernels::wmma::col_major;
using kernels::wmma::fragment;
using kernels::wmma::layout_t;
using kernels::wmma::matrix_a;
using kernels::wmma::matrix_b;
using kernels::wmma::mem_col_major;
using kernels::wmma::mem_row_major;
using kernels::wmma::row_major;
namespace precision = kernels::wmma::precision;

// Rounds to 10 bits of mantissa, to nearest with ties away from zero, as cvt.rna.tf32 does.
inline float __float_to_tf32(float x) {
    const uint32_t bits = kernels::bits<uint32_t>(x);
    return (bits >> 23 & 0xff) == 0xff ? x : kernels::bits<float>((bits + 0x1000u) & ~0x1fffu);
}

template <class Fragment>
inline void fill_fragment(Fragment& fragment, const typename Fragment::storage_element_type& value) {
    for (int i = 0; i < fragment.num_elements; ++i) fragment.x[i] = value;
}

// `stride`: elements from one row to the next (row_major) or one column to the next, a multiple of 16 bytes.
template <class Use, int m, int n, int k, class T, class Layout>
inline void load_matrix_sync(fragment<Use, m, n, k, T, Layout>& to,
                             const typename fragment<Use, m, n, k, T, Layout>::storage_element_type* from,
                             unsigned stride, KERNELS_SITE) {
    static_assert(!std::is_void<Layout>::value, "load_matrix_sync of an accumulator takes mem_row_major or mem_col_major");
    kernels::wmma::load(to, from, stride, std::is_same<Layout, row_major>::value, "load_matrix_sync", {file, line});
}
template <int m, int n, int k, class T>
inline void load_matrix_sync(fragment<accumulator, m, n, k, T>& to, const T* from, unsigned stride, layout_t layout,
                             KERNELS_SITE) {
    kernels::wmma::load(to, from, stride, layout == mem_row_major, "load_matrix_sync", {file, line});
}
// Another lane's elements are there after a __syncwarp or __syncthreads.
template <int m, int n, int k, class T>
inline void store_matrix_sync(T* to, const fragment<accumulator, m, n, k, T>& from, unsigned stride, layout_t layout,
                              KERNELS_SITE) {
    kernels::wmma::arrive("store_matrix_sync", to, stride, {file, line});
    const int lane = int(kernels::self.running % 32);
    for (int i = 0; i < from.num_elements; ++i) {
        const int element = lane * from.num_elements + i, row = element / n, column = element % n;
        to[layout == mem_row_major ? row * stride + column : column * stride + row] = from.x[i];
    }
}

// d = a·b + c. The products are exact and summed in float (int, double), one after another; a GPU sums in another order.
template <int m, int n, int k, class T, class LayoutA, class LayoutB, class D, class C>
inline void mma_sync(fragment<accumulator, m, n, k, D>& d, const fragment<matrix_a, m, n, k, T, LayoutA>& a,
                     const fragment<matrix_b, m, n, k, T, LayoutB>& b, const fragment<accumulator, m, n, k, C>& c,
                     bool satf = false, KERNELS_SITE) {
    kernels::wmma::multiply(d, a, b, c, satf, {file, line});
}

}  // namespace wmma
}  // namespace nvcuda
