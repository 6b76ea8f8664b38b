// Making a dataset of samples that a program has in its memory, with what `dlpipe ingest` does to files: each picture is
// decoded whole and re-coded where the options ask for it, everything is written into DST.partial, and DST appears by
// one rename in finish().
//
// Killed or abandoned, it leaves what it committed. Opened again with Interrupted::kResume it goes on: the caller hands
// over the samples from position() on, in the same order, and gets the same bytes as without the kill. A sample's number
// is its place in this order, over all splits.
//
// Threads: a SampleWriter belongs to one thread at a time and starts `jobs` workers. add() answers at once most of the
// time; what is wrong with a picture is answered by a later add() or by finish(). Memory: two portions of 16 MiB of
// samples, what was added since the last commit, and one decoded picture per worker. In a forked child nothing is allowed, not
// even destruction, which would remove the parent's files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/run/ingest/ingest.h"

namespace dlpipe::ingest {

/// What to do about the partial dataset that an interrupted writer left.
enum class Interrupted : uint8_t { kRefuse, kResume, kRestart };

Result<Interrupted> parse_interrupted(const std::string& name);  // refuse, resume, restart

struct SampleWriterOptions {
  /// Of these: destination, on_error, resize_max, quality, store, jpeg, trust, zstd, jobs, map_bytes, max_pixels and where
  /// commits lie (bytes of values as they are handed over).
  IngestOptions ingest;
  /// At most one image and one label; any number of tensors, bytes, labels, boxes and points. Empty: image, label, path.
  std::vector<data::Field> fields;
  std::vector<std::string> classes;  // empty: names in the order in which they come, or the numbers that come
  std::string source;  // what the samples are, in the caller's words; a resumed writer must say the same
  Interrupted interrupted = Interrupted::kRefuse;
};

struct NewSample {
  using Label = std::variant<std::monostate, int64_t, std::string>;  // nothing or -1: no class
  /// One for each field, in the schema's order: of an image JPEG, PNG or raw pixels (io/data/codec/raw.h); of a tensor its
  /// elements, little-endian; of boxes and points their rows; of a label and of labels nothing, they stand below.
  std::vector<std::vector<std::byte>> values;
  Label label;
  std::string split;                            // "train", "val", ...; "" when there is one dataset
  std::vector<std::vector<Label>> labels = {};  // of each labels field, in the schema's order
  /// Why the image can't be read, where that is so: `on_error` says what is done, as about a file that can't be decoded.
  std::string problem = {};
};

class SampleWriter {
 public:
  static Result<std::unique_ptr<SampleWriter>> open(const SampleWriterOptions& options);
  /// Does what abandon() does.
  ~SampleWriter();
  SampleWriter(const SampleWriter&) = delete;
  SampleWriter& operator=(const SampleWriter&) = delete;

  const std::vector<data::Field>& fields() const;
  /// Samples that stand already, or were added since: the number of the next one.
  int64_t position() const;
  /// kMisuse: this sample is not taken, others may follow. Other errors end the writer.
  Status add(NewSample sample);
  /// Everything becomes DST. No call follows.
  Result<IngestReport> finish();
  /// Leaves what is committed to a later writer, and nothing where nothing is. No call follows.
  void abandon();

  struct Impl;

 private:
  explicit SampleWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlpipe::ingest
