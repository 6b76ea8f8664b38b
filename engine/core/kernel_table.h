// Which kernel, slice size and layout an op of a given shape runs with: one table for a run, which can write its
// choices down (kernels.json), hash them into receipt and checkpoint, and a resumed run or another machine of
// the same ISA can repeat them bit for bit.
//
// A choice is what the table holds under a key (op, pass, shape, dtype, ISA), or, where the table has
// measurements to ask (measured_kernels.h), what is fastest on this machine, or the built-in rule. The table
// remembers it: a key has one answer for the rest of the run. Nothing in this file measures time. All
// functions may be called from any thread; load() and measure_with() before the first step of a run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "dlpipe/base/error.h"
#include "dlpipe/base/mutex.h"
#include "dlpipe/base/named_values.h"
#include "dlpipe/base/scoped_value.h"

namespace dlpipe::engine {

/// Instruction sets that the kernel choices tell apart, as oneDNN may use them here (DNNL_MAX_CPU_ISA
/// counts); all kernels of the engine are held to it. engine/cpu says which it is.
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
/// "oneDNN 2.6.3": the library that part of the kernels are from. Another one gives other bits and other
/// speeds, so that choices belong to it.
std::string kernel_library();

struct KernelChoice {
  std::string kernel;    // "direct", "winograd", ...: the op's names
  int64_t images = 1;    // a slice is this many images
  int64_t parts = 1;     // or a part of one image, when above 1: channels or rows
  std::string why = {};  // for people: what was measured; empty: a rule's
  friend bool operator==(const KernelChoice&, const KernelChoice&) = default;
};

namespace cpu {
class MeasuredKernels;
}

class KernelTable {
 public:
  /// The choice under `key`; where there is none, `rule`'s, which is kept.
  KernelChoice find_or_add(const std::string& key, const std::function<KernelChoice()>& rule);
  /// The choice under `key`, if there is one.
  std::optional<KernelChoice> find(const std::string& key) const;
  /// Sets a choice, e.g. one that is to be tried.
  void set(const std::string& key, const KernelChoice& choice);
  /// Has no choice under `key`: of those that were tried none came to an end.
  void forget(const std::string& key);
  /// What ops ask before they ask a rule; null: nothing. Until clear().
  void measure_with(std::shared_ptr<cpu::MeasuredKernels> measured);
  /// Whom to ask about a key that the table doesn't hold; may be null.
  std::shared_ptr<cpu::MeasuredKernels> measured() const;
  /// Adds the entries of `json`, replacing equal keys. kCorrupt names what is wrong with it, kUnsupported
  /// says that another version of the program or of kernel_library() wrote it; nothing is taken then.
  Status load(std::string_view json);
  /// All entries, sorted:
  /// {"version":1,"isa":"avx2","library":"oneDNN 2.6.3","choices":{KEY:{"kernel":..,"images":..,"parts":..}}},
  /// each with "why" if it was measured.
  std::string save() const;
  void clear();
  size_t size() const;
  /// Another number after every change other than a rule's answer, and no other table's: plans that were made
  /// under another number are stale.
  uint64_t generation() const;

 private:
  static uint64_t next_generation();

  mutable Mutex mutex_;
  std::map<std::string, KernelChoice> choices_ DLPIPE_GUARDED_BY(mutex_);
  uint64_t generation_ DLPIPE_GUARDED_BY(mutex_) = next_generation();
  std::shared_ptr<cpu::MeasuredKernels> measured_ DLPIPE_GUARDED_BY(mutex_);
};

/// The calling thread's variable; read and set it by what follows.
namespace thread_state {
KernelTable*& kernel_table();
}

/// The table that ops of this thread ask, and the slices that they hand to other threads: the process's own, or
/// the one of the innermost UseKernelTable.
KernelTable& kernel_table();
/// While one lives, ops of this thread ask the table given, which outlives it. A run that owns a table leaves
/// the choices of other runs in the process alone.
using UseKernelTable = ScopedValue<thread_state::kernel_table>;

}  // namespace dlpipe::engine
