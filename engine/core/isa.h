// Compiles one loop for several instruction sets and chooses the best at run time. The loop is plain C++
// that the compiler vectorises. Without fused multiply-add (-ffp-contract=off) and with sums in fixed lanes,
// it computes the same bits on every instruction set. tests/engine/check_op.cpp tests this for the cpu's
// kernels, except those without Kernels::same_bits_on_every_isa.
//
// Thread-safe; the choice is one relaxed load.
#pragma once

#include <cstdint>

// For the body of on_best_isa and what it calls: inlined, so that it is compiled for the caller's target.
#define DLPIPE_INLINE __attribute__((always_inline))

namespace dlpipe::engine::cpu {

enum class Isa : uint8_t { kBaseline = 0, kAvx2 = 1, kAvx512 = 2 };

/// The best instruction set that this machine has and kernel_isa() includes: a limit for oneDNN also applies here. The first
/// call lets oneDNN detect the CPU.
Isa isa();

/// While an object lives, isa() is at most `limit` in all threads. For tests that compare instruction sets.
class LimitIsa {
 public:
  explicit LimitIsa(Isa limit);
  ~LimitIsa();
  LimitIsa(const LimitIsa&) = delete;
  LimitIsa& operator=(const LimitIsa&) = delete;

 private:
  Isa former_;
};

// Sanitizers need only one version: compiling the same C++ three times would triple the compile time.
#if defined(__x86_64__) && !defined(DLPIPE_ONE_ISA)
#define DLPIPE_MANY_ISAS 1
#else
#define DLPIPE_MANY_ISAS 0
#endif

#if DLPIPE_MANY_ISAS
template <class Body>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd"))) void run_avx512(const Body& body) {
  const Body local = body;  // its captures in registers
  local();
}
template <class Body>
__attribute__((target("avx2"))) void run_avx2(const Body& body) {
  const Body local = body;  // its captures in registers
  local();
}
#endif

/// Runs body() in the version for isa(). `body` is a lambda marked DLPIPE_INLINE:
///   on_best_isa([=]() DLPIPE_INLINE { for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor; });
template <class Body>
void on_best_isa(const Body& body) {
#if DLPIPE_MANY_ISAS
  switch (isa()) {
    case Isa::kAvx512:
      return run_avx512(body);
    case Isa::kAvx2:
      return run_avx2(body);
    case Isa::kBaseline:
      break;
  }
#endif
  body();
}

}  // namespace dlpipe::engine::cpu
