// Processes one sample: a SampleWorker takes a planned portion of samples from record to slot, and draws substitutes for bad
// records. Its parts are the stages of one thread, in the order of processing: reader, box planner, field mover, decoder,
// augmenter (augment's Chain).
//
// An object of any class here belongs to one thread at a time and keeps its scratch; the graph gives each thread of its pool
// one worker.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "augment/moving.h"
#include "dlpipe/augment.h"
#include "dlpipe/codec.h"
#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "dlpipe/image.h"
#include "io/data/codec/mask.h"
#include "pipeline/plan/plan.h"
#include "pipeline/plan/setup.h"
#include "pipeline/plan/slot.h"
#include "pipeline/plan/stage_counters.h"
#include "pipeline/stages/device_decode.h"
#include "pipeline/stages/prefault.h"

namespace dlpipe::pipeline {

/// Which records have been checked since the loader was opened: one bit per sample, so that each record's checksum is computed
/// once per run. Any thread, no lock; a thread that sees a bit set also sees everything written before.
class TouchedBits {
 public:
  explicit TouchedBits(int64_t samples) : words_(static_cast<size_t>((samples + 63) / 64)) {}
  bool test(int64_t sample) const {
    return (words_[static_cast<size_t>(sample / 64)].load(std::memory_order_acquire) >> (sample % 64)) & 1;
  }
  void set(int64_t sample) {
    words_[static_cast<size_t>(sample / 64)].fetch_or(uint64_t{1} << (sample % 64),
                                                      std::memory_order_release);
  }

 private:
  std::vector<std::atomic<uint64_t>> words_;
};

/// Checksums computed so far in this run. A corrupt record stays corrupt: it is refused at every access, so that a batch does
/// not depend on what was read before it.
struct ChecksumState {
  explicit ChecksumState(int64_t samples) : checked(samples), damaged(samples) {}
  TouchedBits checked;
  TouchedBits damaged;
};

/// The stage "reader": a record's bytes in the map, checked once per run. Nothing is copied. It uses its thread's transaction;
/// the bits of checked records are shared.
class RecordReader {
 public:
  RecordReader(data::Dataset::Reader& reader, ChecksumState& checksums)
      : reader_(reader), checksums_(checksums) {}

  /// The bytes of a prefaulted record: in the map, or for a compressed dataset in scratch until the next call. kCorrupt: the
  /// checksum or the record's structure is wrong.
  Result<std::span<const std::byte>> read(const PlannedRecord& planned);

 private:
  data::Dataset::Reader& reader_;
  ChecksumState& checksums_;
};

/// Part of planning: if an op of the chain draws depending on the image's boxes (augment's BoxedOp), the
/// chain is planned here, when the record has been read. Random numbers are still those of the plan's key.
class BoxPlanner {
 public:
  BoxPlanner(const Setup& setup, const Planner& planner, RecordReader& reader)
      : setup_(setup), planner_(planner), reader_(reader), pastes_(setup.chain.find_paste() != nullptr) {}

  /// Plans plan.chain if the planner has deferred it. *at_fault: which of the plan's records is bad, if any.
  Status complete(SamplePlan& plan, size_t* at_fault);

 private:
  const Setup& setup_;
  const Planner& planner_;
  RecordReader& reader_;
  bool pastes_;
  std::vector<std::unique_ptr<RecordObjects>> objects_;  // [image]
};

/// Part of the stage "augmenter": copies a sample's fields other than its image from the record into the slot. Boxes and points
/// move with the image; values of a dropped box are dropped with it (augment/moving.h has the rules).
class FieldMover {
 public:
  explicit FieldMover(const Setup& setup);

  /// kCorrupt if a field does not have the size of its schema. For a joined plan, called once for each image, in order: boxes,
  /// points, their values, masks and multi-labels are combined; everything else is the sample's own.
  Status put(const SamplePlan& plan, size_t image, std::span<const std::byte> record, Slot& slot, int64_t i);
  size_t scratch_bytes() const { return masks_.scratch_bytes(); }

 private:
  Status put_mask(size_t field, std::span<const std::byte> bytes, const SamplePlan& plan, size_t image,
                  Slot& slot, int64_t i);
  Status put_ragged(size_t field, std::span<const std::byte> bytes, const SamplePlan& plan, size_t image,
                    Slot& slot, int64_t i);
  /// Whether a joined sample combines the field from all images.
  bool is_gathered(size_t field) const;

  const Setup& setup_;
  std::vector<size_t> order_;               // of the schema's fields: boxes first, without image and label
  std::vector<int> boxes_of_;               // [schema] the field of boxes that it belongs to; -1: none
  bool moves_ = false;                      // there is an image, and fields that move with it
  std::vector<std::vector<uint8_t>> kept_;  // [schema] for boxes: which rows remain
  std::vector<std::byte> rows_;             // of one image
  std::vector<float> numbers_;
  data::MaskDecoder masks_;
};

/// The stage "decoder": only the pixels of the region that the plan needs.
class RegionDecoder {
 public:
  explicit RegionDecoder(const Setup& setup);

  /// chain.source_region of `image`, the image of `record`. The result is in this object's scratch, or in the record itself if
  /// raw pixels can be used unchanged, or is `out` if the chain has nothing left to do.
  Result<ConstImageView> decode(const PlannedRecord& record, const augment::ChainPlan& chain,
                                std::span<const std::byte> image, const ImageView& out);
  size_t scratch_bytes() const { return decoder_.scratch_bytes() + pixels_.capacity(); }

 private:
  int channels_;
  int64_t max_pixels_;
  data::ImageDecoder decoder_;
  std::vector<uint8_t> pixels_;
};

/// Shared by all workers of a loader.
struct WorkerShared {
  const Setup& setup;
  const Planner& planner;
  const MappedFile& file;
  ChecksumState& checksums;
  PipelineCounters& counters;
  data::CoefficientCache* cache = nullptr;
};

/// process() never throws. It never blocks, except to read a substitute's record from disk.
class SampleWorker {
 public:
  static Result<std::unique_ptr<SampleWorker>> create(const WorkerShared& shared);

  /// Fills the portion's samples of `slot`; errors are stored in the slot. Returns the time it took in nanoseconds.
  /// `expected_sample_ns` only tunes how often the clock is read.
  int64_t process(Slot& slot, const Portion& portion, double expected_sample_ns) noexcept;
  /// Bytes of scratch held between portions; any thread.
  int64_t scratch_bytes() const { return scratch_bytes_.load(std::memory_order_relaxed); }

  static constexpr int32_t kMaxAttempts = 8;  // substitutes tried for one position

 private:
  SampleWorker(const WorkerShared& shared, std::unique_ptr<data::Dataset::Reader> reader);
  Status do_sample(Slot& slot, int64_t i);
  /// *at_fault: which of the plan's records is bad, if any.
  Status produce(SamplePlan& plan, Slot& slot, int64_t i, size_t* at_fault);
  Status produce_image(const SamplePlan& plan, std::span<const std::byte> record, Slot& slot, int64_t i);
  Status produce_joined(const SamplePlan& plan, Slot& slot, int64_t i, size_t* at_fault);
  /// False: the host must decode it.
  bool send(const SamplePlan& plan, std::span<const std::byte> image, Slot& slot, int64_t i);
  Status replace(Slot& slot, int64_t i, size_t at_fault, Status reason);
  void drop(Slot& slot, int64_t i, size_t at_fault, const Status& reason);
  /// Where the image's bytes are written: in the slot or in bytes_.
  ImageView image(const Slot& slot, int64_t i);
  void finish_sample(const SamplePlan& plan, Slot& slot, int64_t i);

  WorkerShared shared_;
  std::unique_ptr<data::Dataset::Reader> dataset_reader_;
  Prefault prefault_;
  RecordReader reader_;
  BoxPlanner box_planner_;
  std::unique_ptr<TileSender> sender_;  // null: the host decodes everything
  RegionDecoder decoder_;
  augment::ChainScratch chain_scratch_;  // the augmenter's
  FieldMover fields_;
  StageClock clock_;
  SamplePlan substitute_;
  std::vector<uint8_t> bytes_;  // of one image, if it is converted to numbers immediately
  // For the current portion:
  bool on_host_ = false;
  int64_t read_bytes_ = 0;
  int64_t from_cache_ = 0;  // records, of all portions
  int64_t sent_ = 0;        // samples
  int64_t sent_bytes_ = 0;
  int64_t decoded_bytes_ = 0;
  std::atomic<int64_t> scratch_bytes_{0};
};

/// Whether the record is unusable, in contrast to a run that can't continue: corrupt or unsupported bytes are permanent, while
/// I/O errors and wrong calls are not the record's fault.
bool is_bad_record(const Status& status);

}  // namespace dlpipe::pipeline
