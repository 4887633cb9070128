// The same bits as a value of another type.
#pragma once

namespace kernels {

template <class To, class From>
inline To bits(From value) {
    static_assert(sizeof(To) == sizeof(From), "");
    To result;
    memcpy((void*)&result, &value, sizeof(To));
    return result;
}

}  // namespace kernels
