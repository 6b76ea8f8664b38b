// How much memory a source may spend on what it reads: a multiple of its bytes, and a constant, which all inputs of an ingest
// share. Small files can speak of millions
// of samples, columns and cells, and name one piece of theirs as often; whoever makes something for each of these asks here first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/sources/source.h"

namespace dlpipe::data {

class ReadBudget {
 public:
  /// What people have takes less: a sample makes an entry of some 300 bytes, and hardly any has fewer than eight of its own.
  static constexpr uint64_t kPerByte = 128;
  static constexpr uint64_t kBase = uint64_t{64} << 20;

  static uint64_t most(uint64_t input_bytes);

  /// `name`: of the source, for messages. Its bytes are those at rest: of a packed file the packed ones.
  ReadBudget(const SourceOptions& options, std::string name, uint64_t input_bytes);

  /// Of one more file.
  void add_input(uint64_t bytes);

  /// kUnsupported where `times` pieces of `bytes` are more than is left; `what` is what they are, as "the entries of its 9 samples".
  Status take(uint64_t bytes, uint64_t times, std::string_view what);
  /// The same for entries of so many fields, with their paths and the names of their classes, without the fields' bytes.
  Status take_entries(uint64_t entries, uint64_t fields);

 private:
  bool spend(uint64_t bytes, uint64_t times);
  Status too_much(std::string_view what) const;

  std::string name_;
  uint64_t input_bytes_ = 0;
  uint64_t left_ = 0;               // of kPerByte times them
  std::shared_ptr<uint64_t> base_;  // what is left of kBase
};

/// kUnsupported for more fields than a dataset has, before anything is made for each of them and each sample.
Status check_field_count(const std::string& name, uint64_t fields);

}  // namespace dlpipe::data
