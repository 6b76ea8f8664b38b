// A shared library that is loaded at first use and stays loaded. So a program that trains on the CPU loads none of CUDA's
// libraries, and a missing library is reported. Below are caches for the plans that such libraries make. Internal to engine/cuda.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <list>
#include <map>
#include <type_traits>
#include <utility>

#include "dlpipe/error.h"

namespace dlpipe::engine::cuda {

class LoadedLibrary {
 public:
  /// Loads the first of `names` that the dynamic loader finds.
  explicit LoadedLibrary(std::initializer_list<const char*> names);

  /// Sets `to` to the function called `name`; null if the library or the function is missing.
  template <class Function>
  void find(const char* name, Function& to) {
    to = reinterpret_cast<Function>(symbol(name));
  }
  /// kUnsupported with the loader's error, or with the first missing function.
  const Status& status() const { return status_; }

 private:
  void* symbol(const char* name);

  void* library_ = nullptr;
  const char* name_ = "";
  Status status_;
};

// An LRU cache of a library's plans (cuDNN, cublasLt). For one thread.

template <class Key, class Plan>
class PlanCache {
 public:
  /// `bound`: the number of plans to keep, at least 1.
  explicit PlanCache(size_t bound) : bound_(bound) {}

  /// The plan for a key, or null; valid until the next insert. `pins`: never evict the plan, because a captured graph still
  /// uses its resources. The cache does not see when a graph ends, so pinned plans stay, even if they are more than the bound.
  Plan* find(const Key& key, bool pins = false) {
    const auto found = places_.find(key);
    if (found == places_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    Entry& entry = entries_.front();
    entry.pinned = entry.pinned || pins;
    return &entry.plan;
  }

  /// Inserts a new key. If the cache is full, evicts the least recently used plan that isn't pinned, if there is one.
  Plan& insert(const Key& key, Plan plan) {
    if (is_full()) drop_one();
    entries_.push_front({key, std::move(plan), false});
    places_.emplace(key, entries_.begin());
    return entries_.front().plan;
  }

  /// Whether the next insert evicts a plan (unless all are pinned).
  bool is_full() const { return places_.size() >= bound_; }
  size_t size() const { return places_.size(); }

 private:
  struct Entry {
    Key key;
    Plan plan;
    bool pinned;
  };
  void drop_one() {
    for (auto last = entries_.end(); last != entries_.begin();) {
      --last;
      if (last->pinned) continue;
      places_.erase(last->key);
      entries_.erase(last);
      return;
    }
  }

  size_t bound_;
  std::list<Entry> entries_;  // most recently used first
  std::map<Key, typename std::list<Entry>::iterator> places_;
};

/// Inserts the result of build() for a new key: a plan, or kUnsupported if the library has none. Any other error is thrown
/// and not cached, because the same call may succeed later. If memory runs out and release_memory(), which returns the
/// number of bytes that it freed, freed any, build() is called once more.
template <class Key, class Plan, class Build, class Release>
const Result<Plan>& insert_built(PlanCache<Key, Result<Plan>>& plans, const Key& key, const Build& build,
                                 const Release& release_memory) {
  Result<Plan> built = build();
  if (built.status().code() == ErrorCode::kOutOfMemory && release_memory() > 0) built = build();
  if (!built.ok() && built.status().code() != ErrorCode::kUnsupported) throw Error(built.status());
  return plans.insert(key, std::move(built));
}

}  // namespace dlpipe::engine::cuda
