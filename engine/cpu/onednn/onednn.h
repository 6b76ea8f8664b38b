// oneDNN for slices: what every kernel that calls it needs. Internal to engine/cpu; the only header that
// shows oneDNN's types.
//
// Rules that hold for each primitive (design: a Winograd primitive made in one thread and run in another
// crashes otherwise): user scratchpad, made and executed under one OpenMP thread, executed on the calling
// worker's own stream, with signals blocked (Primitive::run is the only place that executes one). Primitives may be executed
// by many threads at once; they are made once and kept by their users in an LruCache.
#pragma once

#include <dnnl.hpp>

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "dlpipe/base/mutex.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/cpu/onednn/onednn_version.h"

namespace dlpipe::engine::onednn {

/// Scratch slot of worker_scratch() that oneDNN's scratchpads use: no body may hold it across run().
inline constexpr int kScratchpadSlot = 0;

const dnnl::engine& cpu_engine();

/// Attributes with the user scratchpad: pass them to every primitive_desc.
const dnnl::primitive_attr& user_scratchpad();

/// A primitive with what it takes to run it.
class Primitive {
 public:
  Primitive() = default;
  template <class PrimitiveKind, class Desc>
  static Primitive make(const Desc& desc) {
    Primitive made;
    made.primitive_ = PrimitiveKind(desc);
    made.scratchpad_ = desc.scratchpad_desc();
    made.implementation_ = desc.impl_info_str();
    return made;
  }

  struct Argument {
    int index;  // DNNL_ARG_...
    const dnnl::memory::desc* desc;
    const void* data;
  };
  /// Runs on the calling thread with its stream and scratch; returns when done. Throws Error.
  void run(std::initializer_list<Argument> arguments) const;

  const std::string& implementation() const { return implementation_; }
  size_t scratchpad_bytes() const { return scratchpad_.get_size(); }

 private:
  dnnl::primitive primitive_;
  dnnl::memory::desc scratchpad_;
  std::string implementation_;
};

/// Turns a dnnl::error into Error "[onednn] what: ...".
template <class Work>
auto translate_errors(const char* what, const Work& work) -> decltype(work());
[[noreturn]] void throw_translated(const char* what, const dnnl::error& error);

/// Copies one dense tensor to another memory format, or part of it: ranges along the axis that lies outermost
/// in the blocked format, so that several workers can share the work.
class FormatCopy {
 public:
  FormatCopy() = default;
  /// At most `parts` ranges; one where the formats don't split.
  FormatCopy(const dnnl::memory::desc& from, const dnnl::memory::desc& to, int64_t parts);

  int64_t parts() const { return parts_; }
  /// Copies range `part` of `from` to the same range of `to`; both are the bases of the whole tensors.
  void run(int64_t part, const void* from, void* to) const;
  /// All ranges, in parallel.
  void run(const void* from, void* to) const;

 private:
  Primitive primitive_;
  dnnl::memory::desc from_, to_;  // of one range
  int64_t parts_ = 1;
  size_t from_step_bytes_ = 0, to_step_bytes_ = 0;
};

/// A hash of plain-old-data keys without padding.
template <class Key>
struct BytesHash {
  static_assert(std::has_unique_object_representations_v<Key>, "keys are hashed by their bytes");
  size_t operator()(const Key& key) const {
    uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
    const auto* bytes = reinterpret_cast<const unsigned char*>(&key);
    for (size_t i = 0; i < sizeof(Key); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
  }
};

/// Keeps the `capacity` values used last. Any thread; a value outlives its place here while someone holds it.
template <class Key, class Value>
class LruCache {
 public:
  explicit LruCache(size_t capacity) : capacity_(capacity) {}

  template <class Make>
  std::shared_ptr<const Value> find_or_make(const Key& key, const Make& make) {
    const MutexLock lock(mutex_);
    if (const auto found = places_.find(key); found != places_.end()) {
      values_.splice(values_.begin(), values_, found->second);
      return found->second->second;
    }
    values_.emplace_front(key, std::make_shared<const Value>(make()));
    places_[key] = values_.begin();
    std::shared_ptr<const Value> value = values_.front().second;
    if (values_.size() > capacity_) {
      places_.erase(values_.back().first);
      values_.pop_back();
    }
    return value;
  }
  void clear() {
    const MutexLock lock(mutex_);
    values_.clear();
    places_.clear();
  }
  size_t size() const {
    const MutexLock lock(mutex_);
    return values_.size();
  }

 private:
  using Entry = std::pair<Key, std::shared_ptr<const Value>>;
  mutable Mutex mutex_;
  const size_t capacity_;
  std::list<Entry> values_ DLPIPE_GUARDED_BY(mutex_);
  std::unordered_map<Key, typename std::list<Entry>::iterator, BytesHash<Key>> places_
      DLPIPE_GUARDED_BY(mutex_);
};

template <class Work>
auto translate_errors(const char* what, const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const dnnl::error& error) {
    throw_translated(what, error);
  }
}

}  // namespace dlpipe::engine::onednn
