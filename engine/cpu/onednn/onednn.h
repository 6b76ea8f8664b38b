// Wraps oneDNN for kernels that run it slice by slice. Internal to engine/cpu; the only header that shows oneDNN's types.
//
// Rules for each primitive: it has a user scratchpad, it is made and executed under one OpenMP thread, and it is executed
// on the calling worker's own stream with signals blocked (only Primitive::run executes primitives). Without these rules, a
// Winograd primitive made in one thread and run in another crashes. Many threads may execute a primitive at once. Callers
// create a primitive once and keep it in an LruCache.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <dnnl.hpp>
#include <initializer_list>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "engine/core/parallel.h"

namespace dlpipe::engine::onednn {

// The differences between oneDNN 2 (2.6: Debian 12) and oneDNN 3 (3.7: Debian 13): how a primitive is described and how a
// memory descriptor is read. No other code depends on the major version.
//
// oneDNN 3 has no Winograd (kHasWinograd).

#if DNNL_VERSION_MAJOR > 3 || DNNL_VERSION_MAJOR < 2
#error "dlpipe supports oneDNN 2.6 and later releases of 2 and 3"
#endif

inline constexpr bool kHasWinograd = DNNL_VERSION_MAJOR == 2;

/// "oneDNN 2.6.3": the version of the library loaded by this process. Different versions compute different bits.
inline std::string version() {
  const dnnl_version_t* v = dnnl_version();
  return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
         std::to_string(v->patch);
}

/// The description of a forward primitive, or of one that has no backward primitive. `arguments` are those of oneDNN's
/// constructors, without engine and attributes.
template <class Kind, class... Arguments>
typename Kind::primitive_desc describe(const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
                                       const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR == 2
  return typename Kind::primitive_desc(typename Kind::desc(arguments...), attributes, engine);
#else
  return typename Kind::primitive_desc(engine, arguments..., attributes);
#endif
}

/// The description of a backward primitive; `hint` is the description of its forward primitive.
template <class Kind, class Hint, class... Arguments>
typename Kind::primitive_desc describe_backward(const dnnl::engine& engine,
                                                const dnnl::primitive_attr& attributes, const Hint& hint,
                                                const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR == 2
  return typename Kind::primitive_desc(typename Kind::desc(arguments...), attributes, engine, hint);
#else
  return typename Kind::primitive_desc(engine, arguments..., hint, attributes);
#endif
}

inline dnnl::memory::dims dims_of(const dnnl::memory::desc& desc) {
#if DNNL_VERSION_MAJOR == 2
  return desc.dims();
#else
  return desc.get_dims();
#endif
}

inline dnnl::memory::data_type data_type_of(const dnnl::memory::desc& desc) {
#if DNNL_VERSION_MAJOR == 2
  return desc.data_type();
#else
  return desc.get_data_type();
#endif
}

/// A tensor's memory format: strides of its axes (in elements, from block to block), and inner blocks of some of
/// the axes.
struct Blocking {
  bool strided = false;  // false: a format internal to oneDNN; the rest is empty
  dnnl::memory::dims strides, padded;
  std::vector<int64_t> inner_axes, inner_blocks;

  /// The product of the inner blocks of `axis`. Ranges along `axis` must be multiples of it.
  int64_t inner_block(int axis) const {
    int64_t block = 1;
    for (size_t i = 0; i < inner_axes.size(); ++i) {
      if (inner_axes[i] == axis) block *= inner_blocks[i];
    }
    return block;
  }
};

inline Blocking blocking_of(const dnnl::memory::desc& desc) {
  Blocking made;
#if DNNL_VERSION_MAJOR == 2
  const auto& data = desc.data;
  made.strided = data.format_kind == dnnl_blocked && data.extra.flags == dnnl_memory_extra_flag_none;
  if (!made.strided) return made;
  const dnnl_blocking_desc_t& blocking = data.format_desc.blocking;
  made.strides.assign(blocking.strides, blocking.strides + data.ndims);
  made.padded.assign(data.padded_dims, data.padded_dims + data.ndims);
  made.inner_axes.assign(blocking.inner_idxs, blocking.inner_idxs + blocking.inner_nblks);
  made.inner_blocks.assign(blocking.inner_blks, blocking.inner_blks + blocking.inner_nblks);
#else
  // Extra flags are only for int8 and recurrent weights, which are not used here.
  made.strided = desc.get_format_kind() == dnnl::memory::format_kind::blocked;
  if (!made.strided) return made;
  made.strides = desc.get_strides();
  made.padded = desc.get_padded_dims();
  made.inner_axes = desc.get_inner_idxs();
  made.inner_blocks = desc.get_inner_blks();
#endif
  return made;
}

/// The slot of worker_scratch() for oneDNN's scratchpads. A slice's body must not use it across run().
inline constexpr int kScratchpadSlot = 0;

const dnnl::engine& cpu_engine();

/// Attributes with the user scratchpad: pass them to every primitive_desc.
const dnnl::primitive_attr& user_scratchpad();

/// A primitive with everything needed to run it.
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

/// Copies a dense tensor to another memory format, all of it or one range. Ranges are along the outermost axis of the
/// blocked format, so that several workers can share the copy.
class FormatCopy {
 public:
  FormatCopy() = default;
  /// Makes at most `parts` ranges, and only one if the formats can't be split.
  FormatCopy(const dnnl::memory::desc& from, const dnnl::memory::desc& to, int64_t parts);

  int64_t parts() const { return parts_; }
  /// Copies range `part` of `from` to the same range of `to`; both point to whole tensors.
  void run(int64_t part, const void* from, void* to) const;
  /// Copies all ranges, in parallel.
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

/// Keeps the `capacity` most recently used values. Thread-safe; an evicted value stays alive while someone holds it.
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
