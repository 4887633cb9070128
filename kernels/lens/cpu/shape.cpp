#include "shape.h"

#include <string.h>

namespace kernels {
namespace lens {

bool Shape::is_of(const Request& request) const {
    if (request.lanes != lanes) return false;
    uint64_t different = 0;
    if (lanes == 32) {  // which the compiler makes vectors of
        for (uint32_t i = 0; i < 32; ++i) different |= (request.address[i] - request.address[0]) ^ distance[i];
        return !different;
    }
    for (uint32_t i = 0; i < lanes; ++i) different |= (request.address[i] - request.address[0]) ^ distance[i];
    return !different && !memcmp(lane, request.lane, lanes);
}

void Shape::take(const Request& request) {
    lanes = request.lanes;
    memcpy(lane, request.lane, lanes);
    for (uint32_t i = 0; i < lanes; ++i) distance[i] = request.address[i] - request.address[0];
    memset(found, 0, sizeof found);
    distinct = distinct_bytes(request);
}

uint32_t Shape::units(const Request& request, Space space) {
    uint16_t& units = found[request.address[0] % 32];
    if (!units)
        units = uint16_t(space == Space::shared         ? wavefronts(request)
                         : request.kind == Kind::atomic ? atomic_sectors(request)
                                                        : sectors(request));
    return units;
}

}  // namespace lens
}  // namespace kernels
