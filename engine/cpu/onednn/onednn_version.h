// What differs between oneDNN 2 (2.6: Debian 12) and oneDNN 3 (3.7: Debian 13): how a primitive is described
// and how a memory descriptor is read. Only this header asks for the major version. Internal to engine/cpu.
//
// oneDNN 3 is without Winograd (kHasWinograd).
#pragma once

#include <dnnl.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace dlpipe::engine::onednn {

#if DNNL_VERSION_MAJOR > 3 || DNNL_VERSION_MAJOR < 2
#error "dlpipe knows oneDNN 2.6 and later releases of 2 and 3"
#endif

inline constexpr bool kHasWinograd = DNNL_VERSION_MAJOR == 2;

/// "oneDNN 2.6.3": of the library that this process runs with. Two versions give different bits.
inline std::string version() {
  const dnnl_version_t* v = dnnl_version();
  return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
         std::to_string(v->patch);
}

/// The description of a forward or other self-contained primitive: `arguments` as oneDNN's constructors take
/// them, without engine and attributes.
template <class Kind, class... Arguments>
typename Kind::primitive_desc describe(const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
                                       const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR == 2
  return typename Kind::primitive_desc(typename Kind::desc(arguments...), attributes, engine);
#else
  return typename Kind::primitive_desc(engine, arguments..., attributes);
#endif
}

/// The description of a backward primitive; `hint` is its forward's.
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

/// How a tensor lies in memory: strides of its axes (elements, from block to block), and blocks of some of
/// the axes inside.
struct Blocking {
  bool strided = false;  // false: a format that only oneDNN knows; the rest is empty
  dnnl::memory::dims strides, padded;
  std::vector<int64_t> inner_axes, inner_blocks;

  /// The product of the inner blocks of `axis`: ranges along it must be multiples of that.
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
  // The extra flags are those of int8 and recurrent weights, which nothing here has.
  made.strided = desc.get_format_kind() == dnnl::memory::format_kind::blocked;
  if (!made.strided) return made;
  made.strides = desc.get_strides();
  made.padded = desc.get_padded_dims();
  made.inner_axes = desc.get_inner_idxs();
  made.inner_blocks = desc.get_inner_blks();
#endif
  return made;
}

}  // namespace dlpipe::engine::onednn
