// The kernel, slice size and layout that an op of a given shape runs with. A run has one table. It can save its
// choices (kernels.json) and hash them into receipt and checkpoint, so that a resumed run, or another machine
// with the same ISA, can repeat them bit for bit.
//
// A choice is the table's entry for a key (op, pass, shape, dtype, ISA). Without an entry it is the fastest
// kernel on this machine, if the table measures (measured_kernels.h), or else the built-in rule's. The table
// keeps it, so that a key has the same choice for the rest of the run. Nothing in this file measures time. All
// functions may be called from any thread; call load() and measure_with() before the first step of a run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "base/names.h"
#include "dlpipe/error.h"
#include "dlpipe/tensor.h"

namespace dlpipe::engine {

/// The instruction sets that kernel choices distinguish, as oneDNN may use them here (DNNL_MAX_CPU_ISA
/// applies). It limits all kernels of the engine. Defined by engine/cpu.
enum class KernelIsa : uint8_t { kSse41, kAvx2, kAvx512, kAvx512Bf16, kAmx };
inline constexpr Named<KernelIsa> kKernelIsaNames[] = {{"sse41", KernelIsa::kSse41},
                                                       {"avx2", KernelIsa::kAvx2},
                                                       {"avx512", KernelIsa::kAvx512},
                                                       {"avx512_bf16", KernelIsa::kAvx512Bf16},
                                                       {"amx", KernelIsa::kAmx}};
inline std::string_view isa_name(KernelIsa isa) {
  return name_of(kKernelIsaNames, isa);
}
KernelIsa kernel_isa();
/// "oneDNN 2.6.3": the library that some kernels are from. Another version computes other bits at other
/// speeds, so that choices are only valid for this one.
std::string kernel_library();

struct KernelChoice {
  std::string kernel;    // "direct", "winograd", ...: the op's names
  int64_t images = 1;    // images per slice
  int64_t parts = 1;     // if above 1: slices per image, by channels or rows
  std::string why = {};  // for users: what was measured; empty: chosen by a rule
  friend bool operator==(const KernelChoice&, const KernelChoice&) = default;
};

namespace cpu {
class MeasuredKernels;
}

class KernelTable {
 public:
  /// The choice for `key`. If there is none, adds and returns that of `rule`.
  KernelChoice find_or_add(const std::string& key, const std::function<KernelChoice()>& rule);
  /// The choice for `key`, if there is one.
  std::optional<KernelChoice> find(const std::string& key) const;
  /// Sets a choice, for example one to try.
  void set(const std::string& key, const KernelChoice& choice);
  /// Removes the choice for `key`, after all candidates failed.
  void forget(const std::string& key);
  /// Sets the measurements that ops use before a rule, until clear(); null: none.
  void measure_with(std::shared_ptr<cpu::MeasuredKernels> measured);
  /// The measurements for keys without a choice; may be null.
  std::shared_ptr<cpu::MeasuredKernels> measured() const;
  /// Adds the entries of `json`, replacing equal keys. Returns kCorrupt with what is wrong with it, or kUnsupported
  /// if another version of the program or of kernel_library() wrote it; then nothing is added.
  Status load(std::string_view json);
  /// All entries, sorted:
  /// {"version":1,"isa":"avx2","library":"oneDNN 2.6.3","choices":{KEY:{"kernel":..,"images":..,"parts":..}}},
  /// each with "why" if it was measured.
  std::string save() const;
  void clear();
  size_t size() const;
  /// A unique number among all tables that changes with every change except a choice added by a rule. Plans made
  /// with another number are stale.
  uint64_t generation() const;

 private:
  static uint64_t next_generation();

  mutable Mutex mutex_;
  std::map<std::string, KernelChoice> choices_ DLPIPE_GUARDED_BY(mutex_);
  uint64_t generation_ DLPIPE_GUARDED_BY(mutex_) = next_generation();
  std::shared_ptr<cpu::MeasuredKernels> measured_ DLPIPE_GUARDED_BY(mutex_);
};

/// The calling thread's variable. Use the declarations below to read and set it.
namespace thread_state {
KernelTable*& kernel_table();
}

/// The table that this thread's ops use, including their slices on other threads: the one of the innermost
/// UseKernelTable, or the process's.
KernelTable& kernel_table();
/// While an object lives, this thread's ops use the given table, which must outlive it. A run with its own table
/// doesn't affect the choices of other runs in the process.
using UseKernelTable = ScopedValue<thread_state::kernel_table>;

// Limits the instruction set of the CPU's kernels, for machines with different CPUs that compute one run together, or for
// a run that will be repeated on an older CPU.

/// Sets kernel_isa() for the rest of the process. It applies to all kernels of the engine: oneDNN's and dlpipe's, in Highway or
/// not. Decoding and augmenting have the same bits on every instruction set and keep using the best one. Call it before the
/// first kernel runs, from one thread. Returns kMisuse if kernels of a better instruction set have already run, or if this
/// machine doesn't have `isa`. Calling it again with the same `isa` does nothing. Implemented by engine/cpu, like kernel_isa().
Status limit_kernel_isa(KernelIsa isa);

}  // namespace dlpipe::engine
