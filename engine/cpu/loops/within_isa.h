// Limits Highway kernels to kernel_isa(), like all other kernels. HWY_DYNAMIC_DISPATCH would use the best target of the
// CPU, and any call of hwy::SupportedTargets() undoes hwy::DisableTargets.
#pragma once

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

#include "engine/core/kernel_table.h"

namespace dlpipe::engine::cpu {

/// The index of kernel_isa()'s target in HWY_EXPORT tables, which list better targets first. 0 allows all targets: from
/// AVX-512 on it is 0, because all targets with AVX-512 give the same bits.
inline size_t first_within_isa() {
  static const size_t first = []() -> size_t {
#if HWY_ARCH_X86
    if (kernel_isa() >= KernelIsa::kAvx512) return 0;
    hwy::ChosenTarget best;
    best.Update(kernel_isa() == KernelIsa::kAvx2 ? HWY_AVX2 : HWY_SSE4);
    return best.GetIndex();
#else
    return 0;
#endif
  }();
  return first;
}

/// Like HWY_DYNAMIC_DISPATCH(NAME), but uses the best target within kernel_isa(). `table` is HWY_DISPATCH_TABLE(NAME).
template <class Function, size_t kTargets>
Function& dispatch_within_isa(Function* const (&table)[kTargets]) {
  if constexpr (kTargets == 1) return *table[0];
  hwy::ChosenTarget& chosen = hwy::GetChosenTarget();
  if (!chosen.IsInitialized()) chosen.Update(hwy::SupportedTargets());  // as the table's first function does
  return *table[std::max(chosen.GetIndex(), first_within_isa())];
}

}  // namespace dlpipe::engine::cpu
