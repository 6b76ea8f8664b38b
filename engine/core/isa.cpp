#include "engine/core/isa.h"

#include <algorithm>
#include <atomic>

#include "engine/core/kernel_table.h"

namespace dlpipe::engine::cpu {

namespace {

Isa machine_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512cd")) {
    return Isa::kAvx512;
  }
  if (__builtin_cpu_supports("avx2")) return Isa::kAvx2;
#endif
  return Isa::kBaseline;
}

Isa allowed_isa() {
  if (kernel_isa() == KernelIsa::kSse41) return Isa::kBaseline;
  return kernel_isa() == KernelIsa::kAvx2 ? Isa::kAvx2 : Isa::kAvx512;
}

std::atomic<Isa>& current() {
  static std::atomic<Isa> value = std::min(machine_isa(), allowed_isa());
  return value;
}

}  // namespace

Isa isa() {
  return current().load(std::memory_order_relaxed);
}

LimitIsa::LimitIsa(Isa limit) : former_(isa()) {
  current().store(std::min(limit, former_));
}
LimitIsa::~LimitIsa() {
  current().store(former_);
}

}  // namespace dlpipe::engine::cpu
