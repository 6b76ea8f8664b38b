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
  const auto is_still_read = [this](const Returning& one) {
    const Result<bool> is_read = device->is_complete(*one.read);
    return is_read.ok() && !*is_read;
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
  stream_ = std::move(stream);
  reader_ = reader != nullptr ? reader : ring_->device;
  return {};
}

bool Feed::Lent::give_back() {
  const MutexLock lock(ring_->mutex);
  if (ring_->loader == nullptr) {
    --ring_->held;
    return false;
  }
  if (stream_ == nullptr || !ring_->is_on_host) {
    ring_->give_back(batch_, stream_.get());
    return true;
  }
  Result<std::unique_ptr<Event>> read = read_until_now();
  if (!read.ok()) {
    log(LogLevel::kError, read.status().message());
    return false;
  }
  ring_->returning.push_back({std::move(batch_), *std::move(read)});
  ring_->moved.notify_all();
  return true;
}

Result<std::unique_ptr<Event>> Feed::Lent::read_until_now() {
  DLPIPE_ASSIGN_OR_RETURN(auto read, reader_->create_event());
  DLPIPE_RETURN_IF_ERROR(reader_->record(*read, *stream_));
  return read;
}

void Feed::Lent::give_back_after_waiting() {
  if (stream_ != nullptr) (void)reader_->synchronize(*stream_);
  const MutexLock lock(ring_->mutex);
  if (ring_->loader != nullptr) ring_->give_back(batch_, nullptr);
}

Feed::Lent::~Lent() {
  if (::getpid() != ring_->process) return;  // its locks may be held by threads that stayed behind
  // Its memory goes with it, or its slot can't be said to be read later.
  if (!give_back()) give_back_after_waiting();
}

}  // namespace dlpipe::pipeline
