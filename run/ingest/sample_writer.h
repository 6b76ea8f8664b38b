// Makes a dataset from samples in a program's memory, like `dlpipe ingest`: each image is decoded whole and recoded if the
// options require it, everything is written into DST.partial, and DST appears by one rename in finish().
//
// If it is killed or abandoned, committed samples remain. Opened again with Interrupted::kResume it continues: the caller
// passes the samples from position() on, in the same order, and gets the same bytes as without the interruption. A sample's
// number is its place in this order, over all splits.
//
// Threads: a SampleWriter belongs to one thread at a time and starts `jobs` workers. add() usually returns at once; errors in
// an image are returned by a later add() or by finish(). Memory: two portions of 16 MiB of samples, what was added since the
// last commit, and one decoded image per worker. A forked child must not use it, not even destroy it, which would remove the
// parent's files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "dlpipe/ingest.h"

namespace dlpipe::ingest {

/// What to do with the partial dataset of an interrupted writer.
enum class Interrupted : uint8_t { kRefuse, kResume, kRestart };

Result<Interrupted> parse_interrupted(const std::string& name);  // refuse, resume, restart

struct SampleWriterOptions {
  /// Only these are used: destination, on_error, resize_max, quality, store, jpeg, trust, zstd, jobs, map_bytes, max_pixels and
  /// the intervals of commits (in bytes of passed values).
  IngestOptions ingest;
  /// At most one image and one label; any number of tensors, bytes, labels, boxes and points. Empty: image, label, path.
  std::vector<data::Field> fields;
  std::vector<std::string> classes;  // empty: names in order of appearance, or the numbers used
  std::string source;  // the caller's description of the samples; a resumed writer must give the same
  Interrupted interrupted = Interrupted::kRefuse;
};

struct NewSample {
  using Label = std::variant<std::monostate, int64_t, std::string>;  // nothing or -1: no class
  /// One for each field, in the schema's order. Image: JPEG, PNG or raw pixels (io/data/codec/bitmaps.h); tensor: its elements,
  /// little-endian; boxes and points: their rows; label and labels: empty, see below.
  std::vector<std::vector<std::byte>> values;
  Label label;
  std::string split;                            // "train", "val", ...; "" when there is one dataset
  std::vector<std::vector<Label>> labels = {};  // of each labels field, in the schema's order
  /// Why the image can't be used, if so: `on_error` applies, as for a file that can't be decoded.
  Status problem = {};
};

class SampleWriter {
 public:
  static Result<std::unique_ptr<SampleWriter>> open(const SampleWriterOptions& options);
  /// Same as abandon().
  ~SampleWriter();
  SampleWriter(const SampleWriter&) = delete;
  SampleWriter& operator=(const SampleWriter&) = delete;

  const std::vector<data::Field>& fields() const;
  /// The number of samples that are committed or were added since then, which is the number of the next one.
  int64_t position() const;
  /// kMisuse: this sample is rejected, others may follow. Other errors end the writer.
  Status add(NewSample sample);
  /// Writes what is left and renames the result to DST. Call nothing afterwards.
  Result<IngestReport> finish();
  /// Leaves committed samples for a later writer, or nothing if there are none. Call nothing afterwards.
  void abandon();

  struct Impl;

 private:
  explicit SampleWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlpipe::ingest
