// What kernels and conversions make of constants, made once: packed and transformed weights, weights in a low dtype.
//
// Who runs the same constants many times (engine/graph; the parts of a training step) owns a cache and has it stand while
// ops run. A kernel asks cached_or(); for tensors that are no constants, and where no cache stands, that makes the thing
// anew. Asked by the thread that calls ops, outside slices, and inside them while the cache is frozen. Bits are those without.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <unordered_set>

#include "dlpipe/base/scoped_value.h"
#include "dlpipe/engine/core/tensor.h"

namespace dlpipe::engine {

class ConstantCache {
 public:
  /// Constants are held by who owns the cache, and not written to meanwhile.
  void add_constant(const Tensor& constant) { constants_.insert(constant.impl()); }
  bool is_constant(const Tensor& tensor) const { return constants_.contains(tensor.impl()); }

  /// What make() answers for this constant in this form, kept from the first time on. `form`: a number that no other
  /// form of the same memory has.
  template <class Make>
  Tensor find_or_make(const Tensor& constant, uint64_t form, const Make& make) {
    const Key key(constant.impl(), constant.raw(), form);
    const auto known = made_.find(key);
    if (known != made_.end()) return known->second;
    if (is_frozen_) return make();
    const Tensor& kept = made_.emplace(key, make()).first->second;
    add_constant(kept);
    return kept;
  }

  size_t size_bytes() const;

 private:
  friend class FrozenCache;
  using Key = std::tuple<const TensorImpl*, const void*, uint64_t>;
  std::unordered_set<const TensorImpl*> constants_;
  std::map<Key, Tensor> made_;
  bool is_frozen_ = false;
};

/// While one lives, several threads may ask the cache; what isn't there is made anew for each.
class FrozenCache {
 public:
  explicit FrozenCache(ConstantCache& cache) : cache_(cache) { cache_.is_frozen_ = true; }
  ~FrozenCache() { cache_.is_frozen_ = false; }
  FrozenCache(const FrozenCache&) = delete;
  FrozenCache& operator=(const FrozenCache&) = delete;

 private:
  ConstantCache& cache_;
};

namespace thread_state {
ConstantCache*& constant_cache();
}

/// While one lives, ops of this thread take what they make of constants from the cache given (null: none).
using UseConstantCache = ScopedValue<thread_state::constant_cache>;

/// make(), or what the cache that stands has kept of it.
template <class Make>
Tensor cached_or(const Tensor& tensor, uint64_t form, const Make& make) {
  ConstantCache* const cache = thread_state::constant_cache();
  return cache != nullptr && cache->is_constant(tensor) ? cache->find_or_make(tensor, form, make) : make();
}

/// Numbers of forms: a plan's or a kernel's own, from next_constant_form() where it is made; below, those of ops.
enum class ConstantForm : uint64_t {
  kCast = 1,
  kWinograd = 64,
  kPanels = 66,
  kPixelProduct = 68,
  kFirstFree = 1024
};
uint64_t next_constant_form();

}  // namespace dlpipe::engine
