// A cache of what kernels and conversions compute from constants: packed and transformed weights, weights in a low dtype.
//
// Code that uses the same constants many times (engine/graph; the parts of a training step) owns a cache and sets it with
// UseConstantCache while ops run. Kernels call cached_or(), which computes the value again for tensors that aren't constants
// and if no cache is set. It is called by the thread that calls ops, outside of slices; inside them only while the cache is
// frozen. Results have the same bits with and without a cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <unordered_set>

#include "dlpipe/tensor.h"

namespace dlpipe::engine {

class ConstantCache {
 public:
  /// The cache's owner keeps constants alive and doesn't write to them meanwhile.
  void add_constant(const Tensor& constant) { constants_.insert(constant.impl()); }
  bool is_constant(const Tensor& tensor) const { return constants_.contains(tensor.impl()); }

  /// The result of make() for this constant in this form, computed once. `form`: a unique number among the forms of the
  /// same memory.
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

/// While an object lives, several threads may use the cache, and nothing is added: missing entries are computed for each call.
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

/// While an object lives, this thread's ops use the given cache (null: none).
using UseConstantCache = ScopedValue<thread_state::constant_cache>;

/// The cached result of make(), or a new one if `tensor` isn't a constant of the current cache.
template <class Make>
Tensor cached_or(const Tensor& tensor, uint64_t form, const Make& make) {
  ConstantCache* const cache = thread_state::constant_cache();
  return cache != nullptr && cache->is_constant(tensor) ? cache->find_or_make(tensor, form, make) : make();
}

/// Numbers of forms. Plans and kernels get theirs from next_constant_form() when they are created; those below are for ops.
enum class ConstantForm : uint64_t {
  kCast = 1,
  kWinograd = 64,
  kPanels = 66,
  kPixelProduct = 68,
  kTaps = 70,
  kFirstFree = 1024
};
uint64_t next_constant_form();

}  // namespace dlpipe::engine
