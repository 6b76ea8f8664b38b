// What the files of SampleWriter share. Internal to run/ingest.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/base/counter.h"
#include "dlpipe/base/error.h"
#include "dlpipe/io/data/dataset_writer.h"
#include "dlpipe/io/data/duplicates.h"
#include "dlpipe/io/data/partial_directory.h"
#include "dlpipe/run/ingest/files.h"
#include "dlpipe/run/ingest/image_worker.h"
#include "dlpipe/run/ingest/ordered_workers.h"
#include "dlpipe/run/ingest/publish.h"
#include "dlpipe/run/ingest/sample_writer.h"
#include "dlpipe/run/ingest/sample_writer_state.h"

namespace dlpipe::ingest {

struct SampleWriter::Impl {
  static constexpr uint64_t kAllOfIt = std::numeric_limits<uint64_t>::max();

  /// One sample on its way to its record.
  struct Item {
    uint64_t number = 0;
    size_t split = 0;
    int64_t label = -1;
    std::vector<std::vector<std::byte>> values;
    std::string problem = {};
  };

  /// Samples that workers take at once, and where commits lie among them.
  struct Portion {
    struct Border {
      size_t items = 0;       // that come before
      uint64_t position = 0;  // of the next sample
    };
    std::vector<Item> items;
    std::vector<Border> borders;
    uint64_t bytes = 0;
  };

  struct Split {
    std::string name;
    uint64_t done = 0;                            // samples below this number stand in its environment
    std::unique_ptr<data::DatasetWriter> writer;  // null: its first sample wasn't taken yet
  };

  Impl(const SampleWriterOptions& given, Paths paths_in, data::PartialDirectory partial_in)
      : options(given), paths(std::move(paths_in)), partial(std::move(partial_in)) {}

  SampleWriterOptions options;
  Paths paths;
  data::PartialDirectory partial;
  SampleWriterState state;
  SampleWriterState saved;
  bool is_saved = false;
  bool is_sealed = false;  // provenance stands, only the rename is missing
  bool is_over = false;
  Status failure;
  std::optional<size_t> image_field, label_field, path_field;

  std::vector<Split> splits;
  uint64_t next = 0;  // number of the next sample
  uint64_t bytes_since_border = 0;
  int64_t samples_since_border = 0;
  Portion filling;
  Portion working;
  std::vector<std::unique_ptr<ImageWorker>> image_workers;
  std::unique_ptr<OrderedWorkers> workers;  // of `working`
  WorkCounters counters;
  data::StoredImages images;  // of this writer, by the numbers of state.splits
  int64_t write_ns = 0;
  int64_t begin_ns = now_ns();
  bool is_resumed = false;

  // Opening: sample_writer.cpp.
  Status begin();
  Status resume();
  Status resume_sealed();
  Status refuse_difference(const std::string& difference) const;

  // Labels: sample_writer_labels.cpp.
  Result<int64_t> number_of(const NewSample::Label& label);
  /// The label's number; those of labels fields become their values. What is wrong with the other values is found, too.
  Result<int64_t> number_labels(NewSample& sample);

  // Taking samples: sample_writer_samples.cpp.
  Status check(const NewSample& sample) const;
  size_t split_of(const std::string& name);
  Status add(NewSample&& sample);
  void note_border(uint64_t bytes);
  Status turn();
  void start_workers();
  Status drain();
  void decide_packing(const std::vector<OrderedWorkers::Outcome>& outcomes);
  std::string name_of(const Item& item) const;
  Status take(const Item& item, const OrderedWorkers::Outcome& outcome);

  // The splits' environments: sample_writer_splits.cpp.
  /// Notes the split in the state, too: a saved state names no split whose samples come behind its commit.
  Status open_writer(Split& split);
  Status commit(uint64_t position);
  Status save();
  Status finish_splits();
  Result<IngestReport> publish();
};

}  // namespace dlpipe::ingest
