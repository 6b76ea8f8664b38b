#include "engine/collective/rounds.h"

#include <bit>
#include <cstring>
#include <utility>

#include "base/counters.h"
#include "base/text.h"
#include "dlpipe/dtype.h"
#include "dlpipe/error.h"

namespace dlpipe::engine {

namespace {

/// The half of `parts` that `rank` keeps when it halves them with the rank that differs in `bit`. That rank keeps the other half.
Parts half_of(Parts parts, int rank, int bit) {
  const int middle = (parts.begin + parts.end) / 2;
  return (rank & bit) == 0 ? Parts{parts.begin, middle} : Parts{middle, parts.end};
}

/// Sets the offsets of `parts` by repeatedly halving the values [begin, end).
void cut(std::vector<size_t>& cuts, Parts parts, size_t begin, size_t end) {
  cuts[static_cast<size_t>(parts.begin)] = begin;
  cuts[static_cast<size_t>(parts.end)] = end;
  if (parts.end - parts.begin == 1) return;
  const int middle_part = (parts.begin + parts.end) / 2;
  const size_t middle = begin + (end - begin) / 2;
  cut(cuts, {parts.begin, middle_part}, begin, middle);
  cut(cuts, {middle_part, parts.end}, middle, end);
}

/// What a rank has after each round of halving, all parts first.
std::vector<Parts> rounds_of(const Line& line) {
  std::vector<Parts> rounds = {{0, line.world()}};
  for (int bit = 1; bit < line.world(); bit <<= 1) rounds.push_back(half_of(rounds.back(), line.rank(), bit));
  return rounds;
}

std::vector<BFloat16> packed(std::span<const float> values) {
  std::vector<BFloat16> halves(values.size());
  for (size_t i = 0; i < values.size(); ++i) halves[i] = BFloat16(values[i]);
  return halves;
}

void append_size(std::string& to, uint64_t size) {
  to.append(reinterpret_cast<const char*>(&size), sizeof size);
}

uint64_t take_size(std::string_view& from) {
  uint64_t size = 0;
  std::memcpy(&size, from.data(), sizeof size);
  from.remove_prefix(sizeof size);
  return size;
}

}  // namespace

// The bits of the rank's number in reverse order, because the lowest bit chooses the first half.
int part_number(int rank, int world) {
  Parts parts{0, world};
  for (int bit = 1; bit < world; bit <<= 1) parts = half_of(parts, rank, bit);
  return parts.begin;
}

std::vector<size_t> cut_evenly(size_t count, int world) {
  std::vector<size_t> cuts(static_cast<size_t>(world) + 1);
  cut(cuts, {0, world}, 0, count);
  return cuts;
}

// Neighbours exchange first, so that sums follow the tree over ranks. Addition commutes, so both partners get the bits
// that the rank with the smaller number, the left child, would compute.
Status reduce_scatter_on(Line& line, const PartedValues& values, std::vector<float>& scratch) {
  Parts parts{0, line.world()};
  for (int bit = 1; bit < line.world(); bit <<= 1) {
    const int peer = line.rank() ^ bit;
    const Parts kept = half_of(parts, line.rank(), bit);
    const std::span<float> sum = values.of(kept);
    scratch.resize(sum.size());
    DLPIPE_RETURN_IF_ERROR(line.exchange(peer, values.of(half_of(parts, peer, bit)), std::span(scratch)));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += scratch[i];
    parts = kept;
  }
  return {};
}

Status all_gather_on(Line& line, const PartedValues& values) {
  std::vector<Parts> rounds = rounds_of(line);
  for (int bit = line.world() >> 1; bit > 0; bit >>= 1) {
    const int peer = line.rank() ^ bit;
    const Parts mine = rounds.back();
    rounds.pop_back();
    const Parts its = half_of(rounds.back(), peer, bit);
    DLPIPE_RETURN_IF_ERROR(line.exchange(peer, values.of(mine), values.of(its)));
  }
  return {};
}

Status reduce_scatter_rounded_on(Line& line, const PartedValues& values) {
  Parts parts{0, line.world()};
  for (int bit = 1; bit < line.world(); bit <<= 1) {
    const int peer = line.rank() ^ bit;
    const Parts kept = half_of(parts, line.rank(), bit);
    const std::vector<BFloat16> out = packed(values.of(half_of(parts, peer, bit)));
    const std::span<float> sum = values.of(kept);
    std::vector<BFloat16> in(sum.size());
    DLPIPE_RETURN_IF_ERROR(
        line.exchange(peer, std::as_bytes(std::span(out)), std::as_writable_bytes(std::span(in))));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = rounded_to_bf16(sum[i] + static_cast<float>(in[i]));
    parts = kept;
  }
  return {};
}

Status all_gather_rounded_on(Line& line, const PartedValues& values) {
  std::vector<Parts> rounds = rounds_of(line);
  for (int bit = line.world() >> 1; bit > 0; bit >>= 1) {
    const int peer = line.rank() ^ bit;
    const std::vector<BFloat16> out = packed(values.of(rounds.back()));
    rounds.pop_back();
    const std::span<float> its = values.of(half_of(rounds.back(), peer, bit));
    std::vector<BFloat16> in(its.size());
    DLPIPE_RETURN_IF_ERROR(
        line.exchange(peer, std::as_bytes(std::span(out)), std::as_writable_bytes(std::span(in))));
    for (size_t i = 0; i < its.size(); ++i) its[i] = static_cast<float>(in[i]);
  }
  return {};
}

// Each round doubles the number of ranks that have the bytes.
Status broadcast_on(Line& line, std::span<std::byte> bytes, int root) {
  const int place = line.rank() ^ root;
  for (int bit = 1; bit < line.world(); bit <<= 1) {
    if (place >= 2 * bit) continue;
    const int peer = line.rank() ^ bit;
    const bool sends = (place & bit) == 0;
    DLPIPE_RETURN_IF_ERROR(
        line.exchange(peer, sends ? bytes : std::span<std::byte>(), sends ? std::span<std::byte>() : bytes));
  }
  return {};
}

// Each round doubles the block of neighbouring ranks whose bytes a rank has. Blocks stay in the order of ranks.
Status gather_on(Line& line, std::string_view mine, std::vector<std::string>& all) {
  std::string block;
  append_size(block, mine.size());
  block += mine;
  for (int bit = 1; bit < line.world(); bit <<= 1) {
    const int peer = line.rank() ^ bit;
    const uint64_t size = block.size();
    uint64_t its_size = 0;
    DLPIPE_RETURN_IF_ERROR(line.exchange(peer, std::as_bytes(std::span(&size, 1)),
                                         std::as_writable_bytes(std::span(&its_size, 1))));
    std::string its(its_size, '\0');
    DLPIPE_RETURN_IF_ERROR(line.exchange(peer, std::as_bytes(std::span(block.data(), block.size())),
                                         std::as_writable_bytes(std::span(its.data(), its.size()))));
    block.insert((line.rank() & bit) == 0 ? block.size() : 0, its);
  }
  std::string_view rest = block;
  while (!rest.empty()) {
    const uint64_t size = take_size(rest);
    all.emplace_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  return {};
}

Status barrier_on(Line& line) {
  for (int bit = 1; bit < line.world(); bit <<= 1) {
    const std::byte out{};
    std::byte in{};
    DLPIPE_RETURN_IF_ERROR(line.exchange(line.rank() ^ bit, std::span(&out, 1), std::span(&in, 1)));
  }
  return {};
}

static Status stopped(const std::string& reason) {
  return {ErrorCode::kCancelled, "[ranks] this rank has stopped: " + reason};
}

Collective::Worker::~Worker() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

Status Collective::Worker::start(const Open& open) {
  auto opened = std::make_shared<Handle::State>();
  thread_ = std::thread([this, open, opened] { run(open, *opened); });
  return Handle(opened).wait();
}

Collective::Handle Collective::Worker::ask(const RankGroup& group, std::string what, Operation operation) {
  auto state = std::make_shared<Handle::State>();
  if (group.world() == 1) {
    state->finish({});
    return Handle(std::move(state));
  }
  const MutexLock lock(mutex_);
  jobs_.push_back({group, std::move(what), std::move(operation), state});
  changed_.notify_all();
  return Handle(std::move(state));
}

void Collective::Worker::abort(std::string_view reason) noexcept {
  try {
    const MutexLock lock(mutex_);
    if (abort_reason_.empty()) abort_reason_ = reason.empty() ? "unknown" : std::string(reason);
    if (transport_ != nullptr) transport_->stop_waiting();
    changed_.notify_all();
  } catch (...) {  // out of memory: the others notice by their timeout
  }
}

Status Collective::Worker::close() {
  auto state = std::make_shared<Handle::State>();
  {
    const MutexLock lock(mutex_);
    closing_ = state;
    changed_.notify_all();
  }
  return Handle(state).wait();
}

void Collective::Worker::run(const Open& open, Handle::State& opened) {
  try {
    Result<std::unique_ptr<Transport>> transport = open();
    if (!transport.ok()) return opened.finish(transport.status());
    rank_ = (*transport)->rank();
    world_ = (*transport)->world();
    if (world_ < 1 || !std::has_single_bit(static_cast<unsigned>(world_))) {
      return opened.finish(misuse("ranks", world_, " processes; start 1, 2, 4, 8 or another power of two"));
    }
    {
      const MutexLock lock(mutex_);
      transport_ = transport->get();
    }
    opened.finish({});
    serve(**transport);
    const MutexLock lock(mutex_);
    transport_ = nullptr;
  } catch (...) {
    opened.finish(status_from_current_exception("ranks"));
  }
}

void Collective::Worker::serve(Transport& transport) {
  MutexLock lock(mutex_);
  while (true) {
    while (jobs_.empty() && !ending_ && closing_ == nullptr && abort_reason_.empty()) lock.wait(changed_);
    if (!abort_reason_.empty() && failed_.ok()) {
      failed_ = stopped(abort_reason_);
      transport.abort(abort_reason_);
    }
    if (!jobs_.empty()) {
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      work(transport, job);
      lock.lock();
    } else if (closing_ != nullptr) {
      const std::shared_ptr<Handle::State> closing = std::exchange(closing_, nullptr);
      lock.unlock();  // close() may wait for peers, which abort() ends
      closing->finish(failed_.ok() ? transport.close() : failed_);
      lock.lock();
    } else if (ending_) {
      return;
    } else if (!failed_.ok()) {
      lock.wait(changed_);  // aborted: later jobs still get an error
    }
  }
}

void Collective::Worker::work(Transport& transport, Job& job) {
  if (!failed_.ok()) return job.state->finish(failed_);
  const int64_t begin_ns = now_ns();
  Line line(transport, job.group);
  Status status;
  try {
    status = job.operation(line, scratch_);
  } catch (...) {
    status = status_from_current_exception("ranks");
  }
  busy_ns_ += now_ns() - begin_ns;
  bytes_sent_ += line.bytes_sent();
  ++operations_;
  if (!status.ok()) {
    std::string reason;  // why this rank stopped during the exchange
    {
      const MutexLock lock(mutex_);
      reason = abort_reason_;
    }
    failed_ = reason.empty() ? status.with_context(concat("[ranks] rank ", rank_, " of ", world_,
                                                          " waited for ", job.what, ": "))
                             : stopped(reason);
    was_told_ = transport.was_told();
    transport.abort(reason.empty() ? status.message() : std::string_view(reason));
    status = failed_;
  }
  job.state->finish(std::move(status));
}

}  // namespace dlpipe::engine
