#include "divisions.h"

#include <stdint.h>
#include <string.h>

namespace kernels {

#if defined(__x86_64__)

namespace {

// In the order in which instructions number them.
constexpr int registers[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                             REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

struct Division {
    unsigned bits = 0;  // 0: not a division
    uint64_t divisor = 0;
    unsigned length = 0;  // of the instruction
};

// div and idiv: F6 /6, F6 /7 for bytes, F7 for wider operands, of one operand in a register or in memory.
Division decoded(const greg_t* values) {
    const uint8_t* const start = reinterpret_cast<const uint8_t*>(values[REG_RIP]);
    const uint8_t* code = start;
    const bool narrow = *code == 0x66;
    code += narrow;
    const uint8_t rex = (*code & 0xf0) == 0x40 ? *code++ : 0;
    const uint8_t opcode = *code++, form = *code++;
    if ((opcode | 1) != 0xf7 || (form >> 3 & 6) != 6) return {};
    Division found;
    found.bits = opcode == 0xf6 ? 8 : rex & 8 ? 64 : narrow ? 16 : 32;
    const auto value = [&](unsigned number) { return uint64_t(values[registers[number]]); };
    const unsigned mode = form >> 6, low = form & 7;
    if (mode == 3) {
        const bool upper_byte = found.bits == 8 && !rex && low >= 4;  // ah, ch, dh, bh
        found.divisor = upper_byte ? value(low - 4) >> 8 : value(low | (rex & 1) << 3);
    } else {
        uint64_t address = 0;
        bool far = mode == 2;
        if (low == 4) {
            const uint8_t scaled = *code++;
            const unsigned base = scaled & 7, index = (scaled >> 3 & 7) | (rex & 2) << 2;
            if (index != 4) address += value(index) << (scaled >> 6);
            if (base == 5 && mode == 0) far = true;
            else address += value(base | (rex & 1) << 3);
        } else if (low == 5 && mode == 0) {  // from the next instruction
            far = true;
            address += uint64_t(code) + 4;
        } else {
            address += value(low | (rex & 1) << 3);
        }
        int32_t distance = 0;
        if (far) memcpy(&distance, code, 4), code += 4;
        else if (mode == 1) distance = int8_t(*code++);
        memcpy(&found.divisor, reinterpret_cast<const void*>(address + int64_t(distance)), found.bits / 8);
    }
    if (found.bits < 64) found.divisor &= (uint64_t(1) << found.bits) - 1;
    found.length = unsigned(code - start);
    return found;
}

// NVIDIA's compiler makes all bits of a quotient and of a remainder 1 where the divisor is zero, of 32 bits where both
// operands fit there; and what overflows comes round.
uint64_t result_of(const Division& division, uint64_t dividend, bool remainder) {
    if (division.divisor) return remainder ? 0 : dividend;
    return division.bits == 64 && dividend >> 32 ? ~uint64_t(0) : 0xffffffff;
}

}  // namespace

bool divided_as_a_gpu_does(ucontext_t& at) {
    greg_t* const values = at.uc_mcontext.gregs;
    const Division division = decoded(values);
    if (!division.bits) return false;
    const uint64_t dividend = uint64_t(values[REG_RAX]);
    const uint64_t quotient = result_of(division, dividend, false), remainder = result_of(division, dividend, true);
    if (division.bits == 8) {
        values[REG_RAX] = greg_t((dividend & ~uint64_t(0xffff)) | (remainder & 0xff) << 8 | (quotient & 0xff));
    } else if (division.bits == 16) {
        values[REG_RAX] = greg_t((dividend & ~uint64_t(0xffff)) | (quotient & 0xffff));
        values[REG_RDX] = greg_t((uint64_t(values[REG_RDX]) & ~uint64_t(0xffff)) | (remainder & 0xffff));
    } else {
        values[REG_RAX] = greg_t(division.bits == 32 ? quotient & 0xffffffff : quotient);
        values[REG_RDX] = greg_t(division.bits == 32 ? remainder & 0xffffffff : remainder);
    }
    values[REG_RIP] += division.length;
    return true;
}

#else  // an aarch64 does not refuse them

bool divided_as_a_gpu_does(ucontext_t&) { return false; }

#endif

}  // namespace kernels
