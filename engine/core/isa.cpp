#include "dlpipe/engine/core/isa.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>

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
  const char* text = std::getenv("DNNL_MAX_CPU_ISA");
  const std::string_view limit = text == nullptr ? "" : text;
  if (limit == "SSE41" || limit == "AVX") return Isa::kBaseline;
  if (limit == "AVX2" || limit == "AVX2_VNNI") return Isa::kAvx2;
  return Isa::kAvx512;
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
