// One element of a tensor that is f32 or bf16 in memory and f32 where it is computed. For bodies of on_best_isa().
#pragma once

#include <bit>
#include <cstdint>

#include "dlpipe/base/dtype.h"
#include "dlpipe/engine/ops/elementwise.h"

namespace dlpipe::engine::cpu {

DLPIPE_FORMULA float load_one(const float* from) {
  return *from;
}
DLPIPE_FORMULA float load_one(const BFloat16* from) {
  return std::bit_cast<float>(static_cast<uint32_t>(from->bits) << 16);
}
DLPIPE_FORMULA void store_one(float* to, float value) {
  *to = value;
}
DLPIPE_FORMULA void store_one(BFloat16* to, float value) {
  // BFloat16(value) without a branch.
  const auto u = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const uint32_t nan = (u >> 16) | 0x40u;
  to->bits = static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

}  // namespace dlpipe::engine::cpu
