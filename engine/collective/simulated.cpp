#include "engine/collective/simulated.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <thread>

#include "base/mutex.h"
#include "base/text.h"
#include "engine/collective/transport.h"

namespace dlpipe::engine {

using Clock = std::chrono::steady_clock;
static constexpr std::chrono::milliseconds kLook{20};  // how often a waiting rank checks if it should stop

// One lock for all mailboxes: this is for tests.
class SimulatedNetwork::Shared {
 public:
  Shared(int world, const SimulatedOptions& options)
      : world_(world),
        options_(options),
        random_(options.seed),
        boxes_(static_cast<size_t>(world * world)),
        hangs_from_(static_cast<size_t>(world)),
        stopped_(static_cast<size_t>(world)),
        late_(world) {}

  int world() const { return world_; }

  void hang(int rank, int64_t exchange) {
    const MutexLock lock(mutex_);
    hangs_from_[static_cast<size_t>(rank)] = exchange;
  }

  void end() {
    const MutexLock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  void stop(int rank, std::string_view reason) {
    const MutexLock lock(mutex_);
    stopped_[static_cast<size_t>(rank)] = std::string(reason);
    changed_.notify_all();
  }

  /// One call of a rank's exchange().
  struct Call {
    int rank;
    int peer;
    int64_t number;
    std::function<bool()> stops;
    std::function<Status(int, const std::string&)> told;
  };
  Status exchange(const Call& call, std::span<const std::byte> out, std::span<std::byte> in) {
    MutexLock lock(mutex_);
    if (const auto& from = hangs_from_[static_cast<size_t>(call.rank)]; from && call.number >= *from) {
      while (!ended_) lock.wait(changed_);
      return {ErrorCode::kIo, "this rank hung: a simulated fault"};
    }
    if (!out.empty()) {
      box(call.rank, call.peer).push_back({due(), {out.begin(), out.end()}});
      changed_.notify_all();
    }
    if (in.empty()) return {};
    return receive(lock, call, in);
  }

 private:
  struct Message {
    Clock::time_point due;
    std::vector<std::byte> bytes;
  };

  std::deque<Message>& box(int from, int to) DLPIPE_REQUIRES(mutex_) {
    return boxes_[static_cast<size_t>(from) * static_cast<size_t>(world_) + static_cast<size_t>(to)];
  }

  Clock::time_point due() DLPIPE_REQUIRES(mutex_) {
    std::uniform_int_distribution<int64_t> delay_us(0, options_.most_delay_us);
    return Clock::now() + std::chrono::microseconds(delay_us(random_));
  }

  Status give_up_on(MutexLock& lock, int rank, int peer) DLPIPE_REQUIRES(mutex_) {
    late_.note(rank, peer);
    const auto listening = LateRanks::listening(options_.peer_timeout_s);
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(listening);
    while (Clock::now() < end) lock.wait_until(changed_, end);
    return late_.gone(peer, options_.peer_timeout_s);
  }

  Status receive(MutexLock& lock, const Call& call, std::span<std::byte> in) DLPIPE_REQUIRES(mutex_) {
    const auto [rank, peer] = std::pair(call.rank, call.peer);
    const auto give_up = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                            std::chrono::duration<double>(options_.peer_timeout_s));
    std::deque<Message>& mail = box(peer, rank);
    while (true) {
      const auto now = Clock::now();
      if (!mail.empty() && mail.front().due <= now) break;
      for (int other = 0; other < world_; ++other) {
        const std::optional<std::string>& reason = stopped_[static_cast<size_t>(other)];
        if (other != rank && reason) return call.told(other, *reason);
      }
      if (call.stops()) return {ErrorCode::kCancelled, "this rank has stopped"};
      if (now >= give_up) return give_up_on(lock, rank, peer);
      const auto look_again = std::min(give_up, now + kLook);
      lock.wait_until(changed_, mail.empty() ? look_again : std::min(look_again, mail.front().due));
    }
    Message message = std::move(mail.front());
    mail.pop_front();
    if (message.bytes.size() != in.size()) {
      return {ErrorCode::kInternal, concat("rank ", peer, " sent ", message.bytes.size(), " bytes, but rank ",
                                           rank, " expected ", in.size())};
    }
    std::ranges::copy(message.bytes, in.begin());
    return {};
  }

  const int world_;
  const SimulatedOptions options_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::mt19937_64 random_ DLPIPE_GUARDED_BY(mutex_);
  std::vector<std::deque<Message>> boxes_ DLPIPE_GUARDED_BY(mutex_);
  std::vector<std::optional<int64_t>> hangs_from_ DLPIPE_GUARDED_BY(mutex_);
  std::vector<std::optional<std::string>> stopped_ DLPIPE_GUARDED_BY(mutex_);
  LateRanks late_ DLPIPE_GUARDED_BY(mutex_);
  bool ended_ DLPIPE_GUARDED_BY(mutex_) = false;
};

class SimulatedNetwork::RankTransport final : public Transport {
 public:
  RankTransport(std::shared_ptr<Shared> shared, int rank) : shared_(std::move(shared)), rank_(rank) {}
  int rank() const override { return rank_; }
  int world() const override { return shared_->world(); }
  Status exchange(int peer, std::span<const std::byte> out, std::span<std::byte> in) override {
    const Shared::Call call{rank_, peer, exchanges_++, [this] { return stops_waiting(); },
                            [this](int other, const std::string& reason) { return told(other, reason); }};
    return shared_->exchange(call, out, in);
  }
  void abort(std::string_view reason) noexcept override { shared_->stop(rank_, reason); }
  Status close() override { return {}; }

 private:
  std::shared_ptr<Shared> shared_;
  int rank_;
  int64_t exchanges_ = 0;
};

SimulatedNetwork::SimulatedNetwork(int world, const SimulatedOptions& options)
    : shared_(std::make_shared<Shared>(world, options)) {}

SimulatedNetwork::~SimulatedNetwork() {
  end();
}

Result<std::unique_ptr<Transport>> SimulatedNetwork::transport(int rank) {
  return std::unique_ptr<Transport>(std::make_unique<RankTransport>(shared_, rank));
}

void SimulatedNetwork::hang(int rank, int64_t exchange) {
  shared_->hang(rank, exchange);
}

void SimulatedNetwork::end() {
  shared_->end();
}

}  // namespace dlpipe::engine
