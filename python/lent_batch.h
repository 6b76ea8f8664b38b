// A batch on loan as Python sees it: arrays over the memory that it was made in, of the CPU or of a device.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dlpipe/io/data/dataset.h"
#include "dlpipe/pipeline/feed.h"
#include "dlpipe/python/arrays.h"

namespace dlpipe::python {

/// What all batches of a loader are handed out as.
struct BatchForm {
  Framework framework = Framework::kNumpy;
  bool channels_first = false;
  int image_field = -1;
  int label_field = -1;
  std::vector<size_t> order;  // of the batch's fields, as the arrays stand
  std::shared_ptr<const data::Dataset> dataset;
  Device* device = nullptr;      // where batches are; null: the CPU
  Device* pinned_for = nullptr;  // page-locked for copies to this one
};

/// One lent batch. Arrays over its memory keep it; those of few bytes per sample are copies.
class LentBatch {
 public:
  LentBatch(std::shared_ptr<pipeline::Feed::Lent> lent, const BatchForm& form);

  const Batch& batch() const { return lent_->batch(); }
  const BatchForm& form() const { return form_; }
  const std::vector<int64_t>& partner_labels() const { return partner_labels_; }
  const std::vector<float>& own_weights() const { return own_weights_; }
  /// The consumer's stream, by its number (cudaStream_t): what it does from now on finds the batch there, and its memory is
  /// filled again only after that.
  /// `device`: the number of the stream's GPU; -1: the batch's own.
  void read_on(uintptr_t stream, int device = -1) const;
  /// Keeps the batch.
  Memory memory() const { return lent_; }

 private:
  std::shared_ptr<pipeline::Feed::Lent> lent_;
  BatchForm form_;
  // where samples are mixed, [count]: the partners' labels, and the weight of the samples' own
  std::vector<int64_t> partner_labels_;
  std::vector<float> own_weights_;
};

void bind_lent_batch(nanobind::module_& module);

}  // namespace dlpipe::python
