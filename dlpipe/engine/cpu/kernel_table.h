// Which kernel, slice size and layout an op of a given shape runs with: one table for the process, so that a
// run can write its choices down (kernels.json), hash them into receipt and checkpoint, and a resumed run or
// another machine of the same ISA can repeat them bit for bit.
//
// A choice is a pure function of the key (op, pass, shape, dtype, ISA): what the table holds, or the built-in
// rule, whose answer the table then remembers. Nothing here measures time. All functions may be called from
// any thread; load() before the first step of a run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "dlpipe/base/error.h"

namespace dlpipe::engine {

/// Instruction sets that the kernel choices tell apart, as oneDNN may use them here (DNNL_MAX_CPU_ISA
/// counts).
enum class KernelIsa : uint8_t { kSse41, kAvx2, kAvx512, kAvx512Bf16, kAmx };
KernelIsa kernel_isa();
/// "sse41", "avx2", "avx512", "avx512_bf16", "amx".
std::string_view isa_name(KernelIsa isa);

struct KernelChoice {
  std::string kernel;  // "direct", "winograd", ...: the op's names
  int64_t images = 1;  // a slice is this many images
  int64_t parts = 1;   // or a part of one image, when above 1: channels or rows
  friend bool operator==(const KernelChoice&, const KernelChoice&) = default;
};

class KernelTable {
 public:
  /// The choice under `key`; where there is none, `rule`'s, which is kept.
  KernelChoice find_or_add(const std::string& key, const std::function<KernelChoice()>& rule);
  /// Sets a choice, e.g. one that was measured to be better.
  void set(const std::string& key, const KernelChoice& choice);
  /// Adds the entries of `json`, replacing equal keys. kCorrupt or kUnsupported names what is wrong with it,
  /// and nothing is taken.
  Status load(std::string_view json);
  /// All entries, sorted: {"version":1,"isa":"avx2","choices":{KEY:{"kernel":..,"images":..,"parts":..}}}.
  std::string save() const;
  void clear();
  size_t size() const;
  /// Grows with every change other than a rule's answer: plans made before are stale.
  uint64_t generation() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, KernelChoice> choices_;
  uint64_t generation_ = 0;
};

/// The table that the kernels of this process use.
KernelTable& kernel_table();

}  // namespace dlpipe::engine
