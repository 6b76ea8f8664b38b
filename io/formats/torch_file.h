// Weights as torch.save writes them: a zip archive around a pickle or, before PyTorch 1.6, pickles followed by the numbers.
// They are read without Python and without running code.
//
// The tensors are those of the state dict: of the file itself, or of its "state_dict", "model" and so on; if there are averaged
// weights next to others, the averaged ones. Reading accepts any bytes: every size and offset is checked before it is used. The
// zip archive's checksums are verified, a storage's when its first tensor is read; a checksum of 0, as
// torch.serialization.set_crc32_options(False) writes it, means none. Memory: the pickle's; while a tensor is read, at most
// four times its bytes plus 2 MiB; all tensors together are at most four times the file, which contains each storage once. A
// TorchFile owns its descriptor; its const functions may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "dlpipe/dtype.h"
#include "dlpipe/error.h"
#include "io/formats/safetensors.h"

namespace dlpipe::formats {

/// The part of Python's pickle that torch.save writes for tensors: numbers, strings, tuples, lists, dicts, and tensors over
/// named storages. Nothing is ever called: the Python names in the table of torch_file.cpp have a known meaning, and any other
/// name in a pickle is kUnsupported.
///
/// A TorchPickle borrows the bytes that it was parsed from. Memory: at most 64 bytes for each byte of the pickle and 200 MiB in
/// all, because there may be at most kMostValues values. No recursion. One thread.
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

  /// The pickle at the start of `bytes`. kCorrupt if it is not a pickle or is truncated.
  static Result<TorchPickle> parse(std::string_view bytes);

  const Value& root() const { return values_[root_]; }
  const Value& operator[](Id id) const { return values_[id]; }
  size_t count() const { return values_.size(); }
  /// The value of `key` in a dict, the last of several; null if there is none.
  const Value* find(const Value& dict, std::string_view key) const;
  /// How many of the bytes it is.
  size_t size() const { return size_; }

  /// The element type of a storage type such as torch.FloatStorage.
  struct ElementType {
    std::string_view text;  // as safetensors calls it: "F32"
    uint64_t bytes = 0;
    std::optional<DType> dtype;  // nullopt: dlpipe has no such type
  };
  /// nullopt if `name` is not a storage type.
  static std::optional<ElementType> element_type(const Value& name);

 private:
  friend class TorchUnpickler;
  std::vector<Value> values_;
  Id root_ = 0;
  size_t size_ = 0;
};

/// Whether a file with these first bytes may have been written by torch.save.
bool begins_as_torch(std::string_view begin);

class TorchFile {
 public:
  /// kUnsupported names what in it is not tensors.
  static Result<TorchFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  /// In the order of the state dict; of equal names the last, as in a Python dict. begin and end are as if the tensors followed
  /// each other.
  std::span<const SafetensorsEntry> entries() const { return entries_; }
  /// The key of the dict that contains them; "" if the file itself is one.
  const std::string& part() const { return part_; }
  /// Copies one tensor, row-major; `to` has entry.size_bytes().
  Status read(const SafetensorsEntry& entry, std::span<std::byte> to) const;

 private:
  struct Storage {
    uint64_t begin = 0;  // in the file
    uint64_t bytes = 0;
    uint32_t checksum = 0;            // 0: none
    mutable bool is_checked = false;  // read and written as an atomic
  };
  /// Where the elements of a tensor are: in a storage, from `first` on.
  struct Place {
    const Storage* storage = nullptr;  // one of storages_
    uint64_t first = 0;                // of its elements
    uint64_t bytes = 0;                // of one
    std::vector<int64_t> strides;
  };
  /// For a zip archive.
  struct Member {
    uint64_t header = 0;  // where it begins
    uint64_t bytes = 0;
    uint32_t checksum = 0;
    bool is_compressed = false;
  };
  using Members = std::map<std::string, Member, std::less<>>;  // by their names

  TorchFile(std::string path, RegularFile file) : path_(std::move(path)), file_(std::move(file)) {}
  Result<std::string> read_text(uint64_t begin, uint64_t count) const;
  Status read_at(uint64_t offset, std::span<std::byte> to) const;
  Status corrupt(std::string_view what) const;
  Result<Storage> zip_directory() const;
  Result<Members> zip_members(std::string_view directory) const;
  Result<Storage> data_of(const Member& member) const;
  Status check(const Storage& storage) const;
  Status open_zip();
  Status open_pickles();
  Status find_numbers(std::string_view text, size_t at, const TorchPickle& pickle);
  Status add_state_dict(const TorchPickle& pickle);
  Status add_tensor(const TorchPickle& pickle, std::string_view name, const TorchPickle::Value& tensor);

  std::string path_;
  RegularFile file_;
  std::map<std::string, Storage, std::less<>> storages_;  // by their keys
  std::string part_;
  std::vector<SafetensorsEntry> entries_;
  std::vector<Place> places_;  // of entries_
  uint64_t total_ = 0;         // bytes of entries_
};

}  // namespace dlpipe::formats
