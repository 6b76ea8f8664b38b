// Batches on loan, and their way back to the loader.
#include <algorithm>
#include <utility>

#include "dlpipe/base/log.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/pipeline/feed_impl.h"

namespace dlpipe::pipeline {

void Feed::Ring::give_back(const Batch& batch, Stream* stream) {
  --held;
  const Status released = loader->release(batch, stream);
  if (!released.ok()) log(LogLevel::kError, released.message());
  moved.notify_all();
}

void Feed::Ring::take_returned() {
  const auto is_under_way = [this](const std::unique_ptr<Event>& read) {
    const Result<bool> is_over = device->is_complete(*read);
    return is_over.ok() && !*is_over;
  };
  const auto is_still_read = [&](const Returning& one) {
    return std::ranges::any_of(one.read, is_under_way);
  };
  const auto over = std::stable_partition(returning.begin(), returning.end(), is_still_read);
  for (auto one = over; one != returning.end(); ++one) give_back(one->batch, nullptr);
  returning.erase(over, returning.end());
}

Status Feed::Lent::read_on(std::shared_ptr<Stream> stream, Device* reader) {
  if (ring_->device == nullptr || (batch_.ready_event == nullptr && !ring_->is_on_host))
    return misuse("loader", "batches of this loader are read by the CPU: no stream reads them");
  if (batch_.ready_event != nullptr)
    DLPIPE_RETURN_IF_ERROR(ring_->device->wait(*stream, *batch_.ready_event));
  if (reader == nullptr) reader = ring_->device;
  const auto is_it = [&](const Reader& one) {
    return one.device == reader && one.stream->native() == stream->native();
  };
  if (std::ranges::none_of(readers_, is_it)) readers_.push_back({std::move(stream), reader});
  return {};
}

bool Feed::Lent::give_back() {
  // A loader on a device itself waits for one stream.
  const bool is_waited_for = readers_.empty() || (readers_.size() == 1 && !ring_->is_on_host);
  Result<std::vector<std::unique_ptr<Event>>> read = std::vector<std::unique_ptr<Event>>();
  if (!is_waited_for) read = read_until_now();  // before the lock: a device whose queue is full has it wait
  const MutexLock lock(ring_->mutex);
  if (ring_->loader == nullptr) {
    --ring_->held;
    return false;
  }
  if (is_waited_for) {
    ring_->give_back(batch_, readers_.empty() ? nullptr : readers_.front().stream.get());
    return true;
  }
  if (!read.ok()) {
    log(LogLevel::kError, read.status().message());
    return false;
  }
  ring_->returning.push_back({std::move(batch_), *std::move(read)});
  ring_->moved.notify_all();
  return true;
}

Result<std::vector<std::unique_ptr<Event>>> Feed::Lent::read_until_now() {
  std::vector<std::unique_ptr<Event>> all;
  for (const Reader& reader : readers_) {
    DLPIPE_ASSIGN_OR_RETURN(auto read, reader.device->create_event());
    DLPIPE_RETURN_IF_ERROR(reader.device->record(*read, *reader.stream));
    all.push_back(std::move(read));
  }
  return all;
}

void Feed::Lent::give_back_after_waiting() {
  for (const Reader& reader : readers_) (void)reader.device->synchronize(*reader.stream);
  const MutexLock lock(ring_->mutex);
  if (ring_->loader != nullptr) ring_->give_back(batch_, nullptr);
}

Feed::Lent::~Lent() {
  if (::getpid() != ring_->process) return;  // its locks may be held by threads that stayed behind
  // Its memory goes with it, or its slot can't be said to be read later.
  if (!give_back()) give_back_after_waiting();
}

}  // namespace dlpipe::pipeline
