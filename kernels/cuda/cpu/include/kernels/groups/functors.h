// The operations of reductions and scans. Without a type, they take what comes.
#pragma once

#define KERNELS_FUNCTOR(NAME, RESULT)                                         \
    template <class T = void>                                                 \
    struct NAME {                                                             \
        T operator()(T a, T b) const { return RESULT; }                       \
    };                                                                        \
    template <>                                                               \
    struct NAME<void> {                                                       \
        template <class T>                                                    \
        T operator()(T a, T b) const { return RESULT; }                       \
    };

namespace cooperative_groups {
KERNELS_FUNCTOR(plus, a + b)
KERNELS_FUNCTOR(less, b < a ? b : a)
KERNELS_FUNCTOR(greater, a < b ? b : a)
KERNELS_FUNCTOR(bit_and, a & b)
KERNELS_FUNCTOR(bit_or, a | b)
KERNELS_FUNCTOR(bit_xor, a ^ b)
}  // namespace cooperative_groups
#undef KERNELS_FUNCTOR
