// What a loader is asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dlpipe/augment/chain.h"
#include "dlpipe/base/coef_batch.h"
#include "dlpipe/base/device/device.h"
#include "dlpipe/base/dtype.h"
#include "dlpipe/base/error.h"
#include "dlpipe/base/named_values.h"
#include "dlpipe/pipeline/plan/sampler.h"

namespace dlpipe::pipeline {

enum class LastBatch : uint8_t { kDrop, kKeep };
enum class Decode : uint8_t { kAuto, kHost, kDevice };
/// What --decode may be.
inline constexpr Named<Decode> kDecodeNames[] = {
    {"auto", Decode::kAuto}, {"host", Decode::kHost}, {"device", Decode::kDevice}};
enum class OnBadRecord : uint8_t { kSubstitute, kDrop, kStop };  // kDrop: weight 0 (validation)

struct LoaderOptions {
  std::string data;     // dataset directory
  std::string augment;  // expression; empty: the dataset's images must all have one size
  int64_t batch = 64;   // samples per batch on this rank (all ranks: batch x world)
  int threads = 0;      // 0: what the process may use (affinity, cgroup quota)
  int slots = 3;        // batches in flight, the one lent included; prefetch depth
  /// As many as grow() may bring them to; 0: `slots`, -1: as many as fit half of the machine's memory (16 on a device).
  int slots_max = 0;
  uint64_t seed = 0;
  bool shuffle = true;
  LastBatch last = LastBatch::kDrop;
  int64_t epochs = -1;           // -1: endless
  SampleList samples = nullptr;  // use these alone, by number; null: all
  int64_t limit = -1;            // use `limit` of them, a subset by `seed` (plan/sampler.h); -1: all
  int rank = 0;
  int world = 1;
  /// With kKeep: an incomplete batch is as large on every rank, and what a rank repeats for that has weight 0; else a rank's part
  /// may be empty. Not with grains.
  bool pad_last = false;
  /// Of each sample so many in a batch, one behind the other, each augmented by draws of its own: `batch` samples become
  /// batch x views places, and all that counts samples counts these. Not with mixup, cutmix and grains.
  int64_t views = 1;
  /// Equal parts of a global batch (batch x world) that ranks own whole, a multiple of `world`; 1: there are none.
  /// With them partners of mixup, borders of an incomplete batch and the chain are a grain's, so that any number of
  /// ranks up to the grains sees the same ones.
  int64_t grains = 1;
  int channels = 3;
  /// What batches hold, by name; empty: all that the dataset has but `path` (data::read_ragged_field reads it).
  std::vector<std::string> fields = {};
  /// What masks hold where the picture shows what is outside of the source, and where a sample has no mask.
  int mask_fill = 0;
  /// kU8, or kF32, kF16, kBF16: pictures leave the loader normalised, and mixed where mixing is on; BatchPrep
  /// has nothing left to do.
  DType image_dtype = DType::kU8;
  /// alpha of mixup and of CutMix (plan/mixing.h); 0: off. Partners are of this rank's batch.
  double mixup = 0;
  double cutmix = 0;
  OnBadRecord on_bad = OnBadRecord::kSubstitute;
  int64_t max_bad = -1;  // distinct bad samples before the stream ends with an error; -1: max(10, 0.1 %)
  int64_t max_pixels = 178'956'970;
  /// The most that the process may take with the loader's slots, scratch and dataset pages; 0: no ceiling of
  /// its own. The page cache counts: pages of batches that are over leave it.
  int64_t memory_bytes = 0;
  std::string quarantine_file =
      {};  // bad samples are appended here when their batch is lent; empty: not written
  /// Of a linked dataset: a folder of its own in which coefficient records of its JPEGs are kept, made in time that the loader's
  /// threads don't use and read in place of the files from then on (cache_filler.h); empty: none is. Batches are the same.
  std::string cache = {};
  uint64_t cache_bytes = 0;  // the most that it may take; 0: what leaves 1 GiB of its disk free
  bool hash_pixels = false;  // the chain covers pixels too (--receipt pixels, tests)
  Device* device = nullptr;  // null: the CPU, batches handed over as they are
  /// Page-locks the slots, for a consumer that copies batches of the CPU to this device itself; null: they aren't.
  Device* pinned_for = nullptr;
  /// Decodes packed coefficients on `device`; null: nothing does (the engine's device_code has CUDA's).
  coef::CoefDecode coef_decode = nullptr;
  /// Where the device's images are decoded: kAuto: there where it can be (device_decode.h). Pixels are the
  /// same.
  Decode decode = Decode::kAuto;
  const augment::OpRegistry* ops = nullptr;  // null: built in
  /// Called before a record is read, with its sample number; an error it answers is treated as an I/O error
  /// (tests).
  std::function<Status(int64_t sample)> inject_read_error = {};
};

}  // namespace dlpipe::pipeline
