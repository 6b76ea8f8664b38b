// A function of one bf16 has 65,536 answers. Looking one up takes a quarter of the time of a formula of fifty operations
// (docs/decisions/058-bf16-tables.md); the bits are the formula's.
#pragma once

#include <cstdint>
#include <vector>

#include "dlpipe/engine/core/isa.h"
#include "dlpipe/engine/cpu/loops/one_element.h"
#include "dlpipe/engine/ops/elementwise.h"

namespace dlpipe::engine::cpu {

/// F's answer to each bf16, by its bits: 128 KiB, made by whoever asks first, kept.
template <CostlyFormula F>
const BFloat16* bf16_table() {
  static const std::vector<BFloat16> kTable = [] {
    std::vector<BFloat16> table(size_t{1} << 16);
    on_best_isa([to = table.data()]() DLPIPE_INLINE {
      for (uint32_t i = 0; i < (1u << 16); ++i) {
        BFloat16 x;
        x.bits = static_cast<uint16_t>(i);
        store_one(to + i, F::template forward<float>(load_one(&x), typename F::Attrs{}));
      }
    });
    return table;
  }();
  return kTable.data();
}

}  // namespace dlpipe::engine::cpu
