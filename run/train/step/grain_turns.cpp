#include "dlpipe/run/train/step/grain_turns.h"

#include <algorithm>
#include <utility>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/node.h"

namespace dlpipe::run {

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
    throw Error(
        Status(ErrorCode::kOutOfMemory,
               concat("[train] --sync-bn needs ", grains - 1,
                      " threads more, one less than there are grains, and the system gives ", threads_.size(),
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
      throw Error(Status(ErrorCode::kInternal, "[train] the grains of a batch differ in what they compute"));
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

}  // namespace dlpipe::run
