// cuDNN 9, loaded when first asked for, as cuBLAS is: a program that trains on the CPU carries none of it,
// and one that finds none goes on without. Descriptors own what cuDNN made for them; they and handles belong
// to one thread at a time, all else here may be called from any. Host code: no CUDA headers.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/engine/cuda/cudnn/cudnn_api.h"

namespace dlpipe::engine::cuda {

/// One line for people: cuDNN's version, or why there is none. Loads it and makes a handle: some ms, and
/// memory of the first device.
std::string cudnn_summary();

namespace cudnn {

/// The library's functions, or why there are none: kUnsupported with what dlopen or dlsym said. The first
/// call loads it ("libcudnn.so.9" where the dynamic loader looks) and all answer the same.
const Result<Functions>& library();
/// "[cuda] cuDNN: WHAT: CODE: what cuDNN added". Of a library that is there.
Status status_of(Code code, std::string_view what);

struct CloseHandle {
  void operator()(Context* handle) const;
};
using Handle = std::unique_ptr<Context, CloseHandle>;
/// On the calling thread's current device. An error where the library isn't there or doesn't take the device.
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

/// What an attribute's elements are as an array.
template <class T>
concept AttributeElement = requires {
  AttributeTypeOf<T>::value;
};

/// A backend descriptor. The first call that fails is kept and makes the later ones do nothing: set
/// everything, finalize, then ask for status().
class Descriptor {
 public:
  /// Of a library that is there.
  explicit Descriptor(DescriptorType type);

  template <AttributeElement T>
  Descriptor& set(Attribute name, const T& value) {
    return set_elements(name, AttributeTypeOf<T>::value, 1, &value);
  }
  template <AttributeElement T>
  Descriptor& set(Attribute name, std::span<const T> values) {
    return set_elements(name, AttributeTypeOf<T>::value, static_cast<int64_t>(values.size()), values.data());
  }
  /// Keep it alive as long as this one.
  Descriptor& set(Attribute name, const Descriptor& value) { return set(name, value.get()); }
  Descriptor& finalize();

  /// One element.
  template <AttributeElement T>
  T get(Attribute name) {
    T value{};
    get_elements(name, AttributeTypeOf<T>::value, 1, &value);
    return value;
  }
  /// All of them.
  template <AttributeElement T>
  std::vector<T> get_all(Attribute name) {
    std::vector<T> values(static_cast<size_t>(get_elements(name, AttributeTypeOf<T>::value, 0, nullptr)));
    const auto count = static_cast<int64_t>(values.size());
    if (count > 0) values.resize(get_filled(name, AttributeTypeOf<T>::value, count, values.data()));
    return values;
  }
  /// All of them, of `type`. Descriptors are filled in by cuDNN and final.
  std::vector<Descriptor> get_descriptors(Attribute name, DescriptorType type);

  const Status& status() const { return status_; }
  Backend* get() const { return backend_.get(); }

 private:
  struct Destroy {
    void operator()(Backend* backend) const;
  };

  Descriptor& set_elements(Attribute name, AttributeType type, int64_t count, const void* elements);
  /// How many there are; at most `wanted` of them come.
  int64_t get_elements(Attribute name, AttributeType type, int64_t wanted, void* elements);
  /// How many came.
  size_t get_filled(Attribute name, AttributeType type, int64_t wanted, void* elements);

  DescriptorType type_;
  std::unique_ptr<Backend, Destroy> backend_;
  Status status_;
};

}  // namespace cudnn
}  // namespace dlpipe::engine::cuda
