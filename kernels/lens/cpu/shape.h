// What requests of one shape ask for. An instruction mostly asks in the shape in which it asked last, so that this need not
// be found out again.
#pragma once
#include "request.h"

namespace kernels {
namespace lens {

// Requests of the same kind and size are of one shape when the same lanes come and their addresses have the same distances.
// All that matters beside is where in a sector, and so in a word, the first is.
class Shape {
   public:
    bool is_of(const Request&) const;
    void take(const Request&);

    // Of a request of this shape: different bytes, and sectors of global or wavefronts of shared memory.
    uint32_t distinct = 0;
    uint32_t units(const Request&, Space);

   private:
    uint32_t lanes = 0;
    uint8_t lane[32];
    uint64_t distance[32];
    uint16_t found[32];  // units by the place of the first, 0 if it has not come
};

}  // namespace lens
}  // namespace kernels
