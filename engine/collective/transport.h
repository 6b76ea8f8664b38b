// What carries bytes between the ranks of a run: all that a backend of engine/collective has to do. One file per
// backend: none.cpp (one rank), simulated.h (threads of one process, for tests), mpi.h, nccl.h.
//
// A Transport belongs to one thread, the communication thread of a Collective (collective.h): it is opened, used and
// closed there. No type of a library that carries the bytes appears in a header.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "dlpipe/base/error.h"

namespace dlpipe::engine {

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int world() const = 0;
  /// Sends `out` to `peer` and receives in.size() bytes from it, both at once. The peer calls it with this rank's
  /// number and the sizes the other way round; either side may be empty on both ranks. Messages between two ranks
  /// arrive in order. kIo says which rank did not answer within the peer timeout, or which one stopped and why; after
  /// it every call answers an error. MPI takes back nothing that it was given: what then comes to lie in `out` may still be
  /// sent, and `in` written, so the process should end.
  virtual Status exchange(int peer, std::span<const std::byte> out, std::span<std::byte> in) = 0;
  /// Tells the others that this rank stops, and why; what they wait for ends with that text. Does not wait.
  virtual void abort(std::string_view reason) noexcept = 0;
  /// Leaves in good order: all ranks call it, after their last exchange. Without it the destructor leaves at once.
  virtual Status close() = 0;
  /// Whether an exchange has failed because another rank said that it stops.
  bool was_told() const { return was_told_.load(std::memory_order_relaxed); }
  /// From another thread: an exchange that waits for its peer ends soon, with an error.
  void stop_waiting() { stops_waiting_.store(true, std::memory_order_relaxed); }

 protected:
  bool stops_waiting() const { return stops_waiting_.load(std::memory_order_relaxed); }

  /// The error of an exchange when `rank` has said that it stops, and why.
  Status told(int rank, std::string_view reason) {
    was_told_.store(true, std::memory_order_relaxed);
    return {ErrorCode::kIo, "rank " + std::to_string(rank) + " stopped: " + std::string(reason)};
  }

 private:
  std::atomic<bool> was_told_{false};
  std::atomic<bool> stops_waiting_{false};
};

/// One rank alone: exchange() is never called.
std::unique_ptr<Transport> make_single_transport();

}  // namespace dlpipe::engine
