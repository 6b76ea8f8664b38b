// Weights as torch.save writes them, a zip archive around a pickle or, before PyTorch 1.6, pickles with the numbers behind them,
// read without Python and without running anything (torch_pickle.h).
//
// The tensors are those of the state dict: of the file itself, or of what it holds as "state_dict", "model" and so on; where averaged
// weights stand beside others, the averaged ones. Reading takes any bytes: every size and offset is checked before it is used.
// The checksums of the zip archive are compared, that of a storage when the first tensor of it is read; a checksum of 0, as
// torch.serialization.set_crc32_options(False) writes it, is none.
// Memory: the pickle's; while a tensor is read at most four times its bytes and 2 MiB; all tensors together are at most four times the
// file, which holds each storage once. A TorchFile owns its descriptor; its const functions may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/regular_file.h"
#include "dlpipe/io/formats/safetensors.h"
#include "dlpipe/io/formats/torch_pickle.h"

namespace dlpipe::formats {

/// Whether a file of these first bytes may be one of torch.save's.
bool begins_as_torch(std::string_view begin);

class TorchFile {
 public:
  /// kUnsupported names what in it isn't tensors.
  static Result<TorchFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  /// In the order of the state dict, of equal names the last, as in a dict of Python's; begin and end count as if the tensors lay behind each other.
  std::span<const SafetensorsEntry> entries() const { return entries_; }
  /// The key of the dict that holds them; "" where the file is one itself.
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
  /// Where the elements of a tensor lie: those of a storage, from `first` on.
  struct Place {
    const Storage* storage = nullptr;  // one of storages_
    uint64_t first = 0;                // of its elements
    uint64_t bytes = 0;                // of one
    std::vector<int64_t> strides;
  };
  /// Of a zip archive.
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
