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
  auto u = std::bit_cast<uint32_t>(value);
  round_to_bf16(u, is_nan_f32(u));
  to->bits = static_cast<uint16_t>(u);
}

}  // namespace dlpipe::engine::cpu
