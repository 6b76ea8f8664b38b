// The passes of a step on the host, forward and backward, recorded once and replayed from then on (engine/replay): for
// --compile. A pass is one batch, or one grain of one.
//
// The first pass of a step is recorded, and that of the next step; where the two are the same, the passes that follow on
// inputs of that form are replayed, with the same bits. Where they are not, or something in them can't be replayed,
// reason() says what, and passes are run as they are. A few forms are kept (images of another size, mixed batches).
//
// Belongs to the training thread. Owns the arena of the form replayed last; refers to the model, which lives longer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dlpipe/engine/layers/module.h"
#include "dlpipe/engine/replay/replay.h"
#include "dlpipe/run/input/batch_input.h"
#include "dlpipe/run/train/step/host_counters.h"
#include "dlpipe/run/train/step/train_step.h"

namespace dlpipe::run {

class HostReplay {
 public:
  static constexpr size_t kMostForms = 4;

  /// With `reason`, passes are never recorded, and that is why.
  HostReplay(engine::Module& model, std::string reason);

  /// Before a step's first pass.
  void begin_step();
  /// The loss of a pass on `input`: what `work` answers, or answered when it was recorded.
  engine::Tensor forward(const BatchInput& input, const std::function<engine::Tensor()>& work);
  /// Behind it, and before the next; gradients arrive at the parameters.
  void backward(const std::function<void()>& work);

  /// Until the next pass.
  void release_memory();

  /// Why passes aren't replayed; empty where they are, or will be.
  const std::string& reason() const { return reason_; }
  /// Of the form replayed last.
  const ReplayMemory& memory() const { return memory_; }

 private:
  using Inputs = std::vector<engine::Tensor>;
  /// Inputs of one form, on the way from the first recording to the replay.
  struct Form {
    std::vector<engine::TensorSpec> specs;
    std::unique_ptr<engine::replay::Recording> recording = {};  // the first
    HostCounters::Values counts = {};
    std::unique_ptr<engine::replay::Replay> replay = {};
    size_t eager_bytes = 0;
    int64_t recorded_step = -1;
  };
  enum class Pass : uint8_t { kEager, kRecorded, kReplayed };
  /// What a replay takes for granted of the model.
  struct Sight {
    std::vector<const void*> memory;
    std::vector<bool> states;  // requires_grad of each tensor, is_training of each module
    friend bool operator==(const Sight&, const Sight&) = default;
  };

  Sight look(const std::vector<engine::Module::Named>& modules) const;
  void give_up(std::string reason);
  void forget_forms();
  Form* form_of(const Inputs& inputs);
  engine::Tensor record(const Inputs& inputs, const std::function<engine::Tensor()>& work);
  void end_recording();

  engine::Module& model_;
  std::string reason_;
  HostCounters counters_;
  std::vector<engine::Tensor> lasting_;
  std::vector<Form> forms_;
  Sight sight_;
  int64_t step_ = 0;
  ReplayMemory memory_;
  engine::replay::Replay* last_ = nullptr;  // whose arena is there
  // Of the pass under way:
  Pass pass_ = Pass::kEager;
  Form* form_ = nullptr;
  std::unique_ptr<engine::replay::Recording> recording_;
  HostCounters::Values counts_before_;
};

}  // namespace dlpipe::run
