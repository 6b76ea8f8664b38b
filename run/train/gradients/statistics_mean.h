// A model's buffers (batch norms' running statistics) over a step whose batches are cut into grains: every grain
// begins with those that the step began with, and the step ends with the mean of what the grains made of them, summed
// along the same tree as the gradients. So they don't depend on which process computed which grain. What isn't a
// floating number (counts of batches) ends as one grain leaves it; all leave it alike.
//
// With one grain in one process it does nothing. Belongs to the training thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dlpipe/engine/collective/collective.h"
#include "dlpipe/engine/layers/module.h"

namespace dlpipe::run {

class StatisticsMean {
 public:
  /// Buffers of one device, but for what isn't f32, which is the host's; `ranks` null: this process is alone.
  StatisticsMean(std::vector<engine::NamedTensor> buffers, int64_t grains, engine::Collective* ranks);

  void begin_step(int64_t step);
  /// Puts into the buffers what the grain left in the batch before.
  void begin(int64_t grain);
  void end(int64_t grain);
  /// Throws where another rank doesn't answer.
  /// Waits for a device.
  void finish();

 private:
  /// All buffers' values: those that are f32 one after another, where the buffers are.
  struct Values {
    engine::Tensor numbers = {};
    std::vector<std::byte> others = {};
  };
  void read(Values& to) const;
  void write(const Values& from);

  std::vector<engine::NamedTensor> buffers_;
  Device* device_ = &cpu_device();  // of those that are f32
  int64_t numbers_ = 0;             // in all of these
  engine::Collective* ranks_;
  std::vector<Values> lanes_;  // one per grain; none: nothing is to be done
  int64_t step_ = 0;
};

}  // namespace dlpipe::run
