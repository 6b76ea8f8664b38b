// The part of Python's pickle that torch.save writes for tensors: numbers, texts, tuples, lists, dicts, and tensors over named
// storages. Nothing is ever called: of the names of Python's that a pickle may hold, those in the table of torch_pickle.cpp are
// known by what they stand for, and each other one is kUnsupported by its name.
//
// A TorchPickle borrows the bytes that it was parsed of. Memory: at most 64 bytes for each byte of the pickle and 200 MiB in all, as
// there may be no more than kMostValues values. No recursion. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "dlpipe/base/dtype.h"
#include "dlpipe/base/error.h"

namespace dlpipe::formats {

class TorchPickle {
 public:
  static constexpr size_t kMostBytes = size_t{64} << 20;
  static constexpr size_t kMostValues = 1'000'000;

  using Id = uint32_t;  // of a value
  enum class Kind : uint8_t { kOther, kInt, kText, kTuple, kList, kDict, kName, kStorage, kTensor };
  struct Value {
    Kind kind = Kind::kOther;
    int64_t number = 0;     // kInt; kName: its row in the table
    std::string_view text;  // kText
    std::vector<Id> items =
        {};  // kTuple, kList; kDict: keys and values in turns; kStorage: "storage", type, key, device,
             // elements; kTensor: storage, offset, sizes, strides
  };

  /// The pickle that `bytes` begins with. kCorrupt for what is none, or is cut short.
  static Result<TorchPickle> parse(std::string_view bytes);

  const Value& root() const { return values_[root_]; }
  const Value& operator[](Id id) const { return values_[id]; }
  size_t count() const { return values_.size(); }
  /// The value of `key` in a dict, the last of several; null: there is none.
  const Value* find(const Value& dict, std::string_view key) const;
  /// How many of the bytes it is.
  size_t size() const { return size_; }

  /// Of a storage's type, as torch.FloatStorage.
  struct ElementType {
    std::string_view text;  // as safetensors calls it: "F32"
    uint64_t bytes = 0;
    std::optional<DType> dtype;  // nothing: dlpipe has none for it
  };
  /// Nothing where `name` is no storage's type.
  static std::optional<ElementType> element_type(const Value& name);

 private:
  friend class TorchUnpickler;
  std::vector<Value> values_;
  Id root_ = 0;
  size_t size_ = 0;
};

}  // namespace dlpipe::formats
