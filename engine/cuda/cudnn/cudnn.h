// cuDNN 9, loaded at first use, like cuBLAS. So a program that trains on the CPU doesn't load it, and without
// it dlpipe uses its own kernels. Descriptors own their cuDNN objects. Descriptors and handles belong to one
// thread at a time; all other functions may be called from any thread. Host code: no CUDA headers.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "dlpipe/error.h"
#include "engine/cuda/cudnn/cudnn_api.h"

namespace dlpipe::engine::cuda {

/// One line for users: cuDNN's version, or why it can't be used. Loads it and creates a handle, which takes
/// some ms and memory of the first device.
std::string cudnn_summary();

namespace cudnn {

/// The library's functions, or kUnsupported with the error of dlopen or dlsym. The first call loads it
/// ("libcudnn.so.9" on the dynamic loader's path), and all calls return the same result.
const Result<Functions>& library();
/// "[cuda] cuDNN: WHAT: CODE: what cuDNN added". Requires that the library is loaded.
Status status_of(Code code, std::string_view what);

struct CloseHandle {
  void operator()(Context* handle) const;
};
using Handle = std::unique_ptr<Context, CloseHandle>;
/// Creates a handle on the calling thread's current device. Fails if the library is missing or doesn't support the device.
Result<Handle> make_handle();

template <class T>
struct AttributeTypeOf;
template <AttributeType kType>
struct AttributeTypeIs {
  static constexpr AttributeType value = kType;
};
template <>
struct AttributeTypeOf<Context*> : AttributeTypeIs<AttributeType::kHandle> {};
template <>
struct AttributeTypeOf<DataType> : AttributeTypeIs<AttributeType::kDataType> {};
template <>
struct AttributeTypeOf<bool> : AttributeTypeIs<AttributeType::kBoolean> {};
template <>
struct AttributeTypeOf<int64_t> : AttributeTypeIs<AttributeType::kInt64> {};
template <>
struct AttributeTypeOf<float> : AttributeTypeIs<AttributeType::kFloat> {};
template <>
struct AttributeTypeOf<void*> : AttributeTypeIs<AttributeType::kPointer> {};
template <>
struct AttributeTypeOf<ConvolutionMode> : AttributeTypeIs<AttributeType::kConvolutionMode> {};
template <>
struct AttributeTypeOf<HeuristicsMode> : AttributeTypeIs<AttributeType::kHeuristicsMode> {};
template <>
struct AttributeTypeOf<NumericalNote> : AttributeTypeIs<AttributeType::kNumericalNote> {};
template <>
struct AttributeTypeOf<PointwiseMode> : AttributeTypeIs<AttributeType::kPointwiseMode> {};
template <>
struct AttributeTypeOf<ReductionMode> : AttributeTypeIs<AttributeType::kReductionMode> {};
template <>
struct AttributeTypeOf<NanPropagation> : AttributeTypeIs<AttributeType::kNanPropagation> {};
template <>
struct AttributeTypeOf<Backend*> : AttributeTypeIs<AttributeType::kDescriptor> {};

/// A type that attributes can have as elements.
template <class T>
concept AttributeElement = requires {
  AttributeTypeOf<T>::value;
};

/// A backend descriptor. It keeps the first error, and later calls then do nothing. So set everything,
/// finalize, then check status().
class Descriptor {
 public:
  /// Requires that the library is loaded.
  explicit Descriptor(DescriptorType type);

  template <AttributeElement T>
  Descriptor& set(Attribute name, const T& value) {
    return set_elements(name, AttributeTypeOf<T>::value, 1, &value);
  }
  template <AttributeElement T>
  Descriptor& set(Attribute name, std::span<const T> values) {
    return set_elements(name, AttributeTypeOf<T>::value, static_cast<int64_t>(values.size()), values.data());
  }
  /// `value` must outlive this descriptor.
  Descriptor& set(Attribute name, const Descriptor& value) { return set(name, value.get()); }
  Descriptor& finalize();

  /// Returns one element; 0 after an error.
  template <AttributeElement T>
  T get(Attribute name) {
    T value{};
    get_elements(name, AttributeTypeOf<T>::value, 1, &value);
    return value;
  }
  /// Returns all elements.
  template <AttributeElement T>
  std::vector<T> get_all(Attribute name) {
    std::vector<T> values(static_cast<size_t>(get_elements(name, AttributeTypeOf<T>::value, 0, nullptr)));
    const auto count = static_cast<int64_t>(values.size());
    if (count > 0) values.resize(get_filled(name, AttributeTypeOf<T>::value, count, values.data()));
    return values;
  }
  /// Returns all descriptors, which have type `type`. cuDNN fills them in; they are final.
  std::vector<Descriptor> get_descriptors(Attribute name, DescriptorType type);

  const Status& status() const { return status_; }
  Backend* get() const { return backend_.get(); }

 private:
  struct Destroy {
    void operator()(Backend* backend) const;
  };

  Descriptor& set_elements(Attribute name, AttributeType type, int64_t count, const void* elements);
  /// Copies at most `wanted` elements. Returns how many the attribute has.
  int64_t get_elements(Attribute name, AttributeType type, int64_t wanted, void* elements);
  /// Copies at most `wanted` elements. Returns how many it copied.
  size_t get_filled(Attribute name, AttributeType type, int64_t wanted, void* elements);

  DescriptorType type_;
  std::unique_ptr<Backend, Destroy> backend_;
  Status status_;
};

}  // namespace cudnn
}  // namespace dlpipe::engine::cuda
