// Plans of a library (cuDNN, cublasLt), kept by what they are for, so many at most: where one more comes, the
// one that was asked for longest ago goes. One thread's.
#pragma once

#include <cstddef>
#include <iterator>
#include <list>
#include <map>
#include <utility>

#include "dlpipe/base/error.h"

namespace dlpipe::engine::cuda {

template <class Key, class Plan>
class PlanCache {
 public:
  /// `bound`: plans kept, at least 1.
  explicit PlanCache(size_t bound) : bound_(bound) {}

  /// Null where there is none; valid until the next insert. `pins`: it stays whatever comes, since a captured
  /// graph goes on using what belongs to it.
  Plan* find(const Key& key, bool pins = false) {
    const auto found = places_.find(key);
    if (found == places_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    Entry& entry = entries_.front();
    entry.pinned = entry.pinned || pins;
    return &entry.plan;
  }

  /// Of a key that isn't there. Where all are pinned, none goes.
  Plan& insert(const Key& key, Plan plan) {
    if (is_full()) drop_one();
    entries_.push_front({key, std::move(plan), false});
    places_.emplace(key, entries_.begin());
    return entries_.front().plan;
  }

  /// Whether the next insert drops one.
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
  std::list<Entry> entries_;  // what was asked for last comes first
  std::map<Key, typename std::list<Entry>::iterator> places_;
};

/// What build() answers, kept for a key that isn't there: a plan, or that the library has none (kUnsupported). Any other error is
/// thrown and not kept, as the same call may succeed later. Where memory ran short build() is called once more if
/// release_memory(), which answers how many bytes, found some.
template <class Key, class Plan, class Build, class Release>
const Result<Plan>& insert_built(PlanCache<Key, Result<Plan>>& plans, const Key& key, const Build& build,
                                 const Release& release_memory) {
  Result<Plan> built = build();
  if (built.status().code() == ErrorCode::kOutOfMemory && release_memory() > 0) built = build();
  if (!built.ok() && built.status().code() != ErrorCode::kUnsupported) throw Error(built.status());
  return plans.insert(key, std::move(built));
}

}  // namespace dlpipe::engine::cuda
