#include "run/train/step/grains.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/tensor.h"
#include "engine/core/device_code.h"
#include "engine/core/node.h"

namespace dlpipe::run {

using engine::NamedTensor;
using engine::Tensor;

StatisticsMean::StatisticsMean(std::vector<NamedTensor> buffers, int64_t grains, engine::Collective* ranks)
    : buffers_(std::move(buffers)), ranks_(ranks) {
  if (buffers_.empty() || (grains == 1 && ranks == nullptr)) return;
  lanes_.resize(static_cast<size_t>(grains));
  for (const NamedTensor& buffer : buffers_) {
    if (buffer.tensor.dtype() != DType::kF32) continue;
    device_ = &buffer.tensor.device();
    numbers_ += buffer.tensor.elements();
  }
}

void StatisticsMean::read(Values& to) const {
  if (!to.numbers.defined())
    to.numbers = Tensor::empty({{numbers_}, DType::kF32, engine::Layout::kPlain}, *device_);
  to.others.clear();
  float* number = to.numbers.data<float>();
  for (const NamedTensor& buffer : buffers_) {
    const Tensor& tensor = buffer.tensor;
    if (tensor.dtype() == DType::kF32) {
      engine::flat_copy(*device_, number, tensor.data<float>(), tensor.elements());
      number += tensor.elements();
    } else {
      const std::span<const std::byte> bytes = bytes_of(tensor);
      to.others.insert(to.others.end(), bytes.begin(), bytes.end());
    }
  }
}

void StatisticsMean::write(const Values& from) {
  const float* number = from.numbers.data<float>();
  const std::byte* other = from.others.data();
  for (NamedTensor& buffer : buffers_) {
    Tensor& tensor = buffer.tensor;
    if (tensor.dtype() == DType::kF32) {
      engine::flat_copy(*device_, tensor.data<float>(), number, tensor.elements());
      number += tensor.elements();
    } else {
      std::memcpy(tensor.raw(), other, tensor.size_bytes());
      other += tensor.size_bytes();
    }
    tensor.bump_version();
  }
}

void StatisticsMean::begin_step(int64_t step) {
  step_ = step;
  if (lanes_.empty()) return;
  for (Values& lane : lanes_) read(lane);
}

void StatisticsMean::begin(int64_t grain) {
  if (!lanes_.empty()) write(lanes_[static_cast<size_t>(grain)]);
}

void StatisticsMean::end(int64_t grain) {
  if (!lanes_.empty()) read(lanes_[static_cast<size_t>(grain)]);
}

void StatisticsMean::finish() {
  if (lanes_.empty()) return;
  for (size_t step = 1; step < lanes_.size(); step *= 2) {
    for (size_t left = 0; left + step < lanes_.size(); left += 2 * step) {
      float* const sum = lanes_[left].numbers.data<float>();
      engine::flat_add(*device_, sum, sum, lanes_[left + step].numbers.data<float>(), numbers_);
    }
  }
  Tensor sum = lanes_.front().numbers.to(cpu_device());
  const std::span<float> values(sum.data<float>(), static_cast<size_t>(numbers_));
  size_t grains = lanes_.size();
  if (ranks_ != nullptr) {
    grains *= static_cast<size_t>(ranks_->world());
    throw_if_error(ranks_->all_reduce(values, concat("running statistics of step ", step_ + 1)).wait());
  }
  const float share = 1.0f / static_cast<float>(grains);  // exact: grains are a power of two
  for (float& value : values) value *= share;
  lanes_.front().numbers = sum.to(*device_);
  write(lanes_.front());
}

GrainTurns::GrainTurns(int64_t grains, engine::Collective* ranks)
    : grains_(grains),
      ranks_(ranks),
      given_(static_cast<size_t>(grains)),
      changed_(static_cast<size_t>(grains)),
      has_ended_(static_cast<size_t>(grains)) {
  try {
    for (int64_t grain = 0; grain + 1 < grains; ++grain)
      threads_.emplace_back([this, grain] { serve(grain); });
  } catch (const std::exception& error) {
    end_threads();
    throw Error(Status(ErrorCode::kOutOfMemory,
                       concat("[train] --sync-bn needs ", counted(grains - 1, "more thread"),
                              ", one less than there are grains, but the system provides ", threads_.size(),
                              " (", error.what(), "); raise ulimit -v or ulimit -u, or use fewer --grains")));
  }
}

GrainTurns::~GrainTurns() {
  end_threads();
}

void GrainTurns::end_threads() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    for (std::condition_variable& changed : changed_) changed.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

int64_t GrainTurns::parts() const {
  return grains_ * (ranks_ != nullptr ? ranks_->world() : 1);
}

void GrainTurns::run(const Work& body, const Work& on_turn, std::string what) {
  body_ = &body;
  on_turn_ = &on_turn;
  what_ = std::move(what);
  kernels_ = engine::thread_state::kernel_table();
  first_node_ = engine::thread_state::next_node();
  {
    const MutexLock lock(mutex_);
    failure_ = nullptr;
    running_ = grains_;
    std::fill(has_ended_.begin(), has_ended_.end(), char{0});
    turn_ = 0;
    ++round_;
    for (std::condition_variable& changed : changed_) changed.notify_all();
  }
  const int64_t last = grains_ - 1;
  play(last);
  MutexLock lock(mutex_);
  while (running_ > 0) lock.wait(changed_[static_cast<size_t>(last)]);
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

void GrainTurns::serve(int64_t grain) {
  int64_t seen = 0;
  MutexLock lock(mutex_);
  while (true) {
    while (round_ == seen && !ending_) lock.wait(changed_[static_cast<size_t>(grain)]);
    if (ending_) return;
    seen = round_;
    lock.unlock();
    play(grain);
    lock.lock();
  }
}

void GrainTurns::play(int64_t grain) {
  try {
    wait_for_turn(grain);
    const engine::UseKernelTable kernels(kernels_);
    const engine::UseStatisticsPeers peers(this);
    engine::thread_state::next_node() = first_node_;
    (*body_)(grain);
  } catch (...) {
    fail(std::current_exception());
  }
  {
    const MutexLock lock(mutex_);
    has_ended_[static_cast<size_t>(grain)] = 1;
    if (--running_ == 0) changed_.back().notify_all();
  }
  pass_on(grain);
}

void GrainTurns::fail(std::exception_ptr failure) {
  const MutexLock lock(mutex_);
  if (failure_ == nullptr) failure_ = std::move(failure);
}

void GrainTurns::wait_for_turn(int64_t grain) {
  {
    MutexLock lock(mutex_);
    while (turn_ != grain) lock.wait(changed_[static_cast<size_t>(grain)]);
    if (failure_ != nullptr) throw Error(Status(ErrorCode::kCancelled, "[train] another grain has failed"));
  }
  turn_now_ = grain;
  (*on_turn_)(grain);
}

void GrainTurns::pass_on(int64_t from) {
  const MutexLock lock(mutex_);
  if (running_ == 0) return;
  int64_t next = from;
  do next = (next + 1) % grains_;
  while (has_ended_[static_cast<size_t>(next)] != 0);
  turn_ = next;
  changed_[static_cast<size_t>(next)].notify_all();
}

void GrainTurns::sum(std::span<float> values) {
  const int64_t grain = turn_now_;
  given_[static_cast<size_t>(grain)] = values;
  if (grain + 1 == grains_) add_up();
  if (grains_ == 1) return;
  pass_on(grain);
  wait_for_turn(grain);
}

void GrainTurns::add_up() {
  {
    const MutexLock lock(mutex_);
    const auto is_alike = [&](std::span<float> values) { return values.size() == given_.back().size(); };
    if (running_ != grains_ || !std::ranges::all_of(given_, is_alike))
      throw Error(Status(ErrorCode::kInternal, "[train] the grains of a batch compute different things"));
  }
  for (size_t step = 1; step < given_.size(); step *= 2) {
    for (size_t left = 0; left + step < given_.size(); left += 2 * step) {
      const std::span<float> to = given_[left], from = given_[left + step];
      for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
    }
  }
  if (ranks_ != nullptr) throw_if_error(ranks_->all_reduce(given_.front(), what_).wait());
  for (size_t i = 1; i < given_.size(); ++i) std::ranges::copy(given_.front(), given_[i].begin());
}

namespace {

/// The beginning of what a rank sends to the others; its losses and its reason follow.
struct Head {
  int64_t samples = 0;
  int64_t reason_place = 0;  // batch * all grains + grain
};

}  // namespace

StepSummary::StepSummary(int64_t grains, int64_t batches, engine::Collective* ranks,
                         engine::Collective* stages)
    : grains_(grains), batches_(batches), ranks_(ranks), stages_(stages) {
  losses_.resize(static_cast<size_t>(grains * batches));
}

void StepSummary::begin_step() {
  std::fill(losses_.begin(), losses_.end(), 0.0);
  reason_.clear();
  reason_place_ = 0;
}

void StepSummary::add(int64_t batch, int64_t grain, double loss, const std::string& reason) {
  losses_[static_cast<size_t>(batch * grains_ + grain)] = loss;
  if (reason.empty() || !reason_.empty()) return;
  reason_ = reason;
  const int64_t world = ranks_ != nullptr ? ranks_->world() : 1;
  const int64_t rank = ranks_ != nullptr ? ranks_->rank() : 0;
  reason_place_ = (batch * world + rank) * grains_ + grain;
}

std::string StepSummary::write(int64_t samples) const {
  const Head head{samples, reason_place_};
  std::string text(reinterpret_cast<const char*>(&head), sizeof head);
  text.append(reinterpret_cast<const char*>(losses_.data()), losses_.size() * sizeof(double));
  return text + reason_;
}

void StepSummary::finish(StepOutcome& outcome) {
  std::vector<std::string> all = {write(outcome.samples)};
  if (ranks_ != nullptr)
    all = value_or_throw(ranks_->gather(all.front(), concat("losses of step ", outcome.step + 1)));
  outcome.samples = 0;
  outcome.loss = 0;
  int64_t first = 0;
  for (const std::string& text : all) {
    Head head;
    std::memcpy(&head, text.data(), sizeof head);
    outcome.samples += head.samples;
    const std::string reason = text.substr(sizeof head + losses_.size() * sizeof(double));
    if (reason.empty() || (!outcome.reason.empty() && head.reason_place > first)) continue;
    outcome.reason = reason;
    first = head.reason_place;
  }
  const auto parts = static_cast<double>(batches_ * grains_) * static_cast<double>(all.size());
  for (int64_t batch = 0; batch < batches_; ++batch) {
    for (const std::string& text : all) {
      for (int64_t grain = 0; grain < grains_; ++grain) {
        double loss = 0;
        const auto place = static_cast<size_t>(batch * grains_ + grain);
        std::memcpy(&loss, text.data() + sizeof(Head) + place * sizeof loss, sizeof loss);
        outcome.loss += loss / parts;
      }
    }
  }
  if (stages_ != nullptr) take_from_last_stage(outcome);
}

void StepSummary::take_from_last_stage(StepOutcome& outcome) const {
  std::string mine(reinterpret_cast<const char*>(&outcome.loss), sizeof outcome.loss);
  mine += outcome.reason;
  const std::string last =
      value_or_throw(stages_->gather(mine, concat("the loss of step ", outcome.step + 1))).back();
  std::memcpy(&outcome.loss, last.data(), sizeof outcome.loss);
  outcome.reason = last.substr(sizeof outcome.loss);
}

}  // namespace dlpipe::run
