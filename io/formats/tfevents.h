// TensorBoard event files: scalars over steps. TFRecord framing around protocol-buffer Event messages, of
// which only the few fields that scalars need are written (tensorflow/core/util/event.proto,
// framework/summary.proto):
//
//   record   u64 length, u32 masked CRC-32C of the length, the message, u32 masked CRC-32C of the message
//   Event    1 wall_time f64, 2 step i64, 3 file_version "brain.Event:2", 5 summary, 7 session_log
//   Summary  1 value {1 tag, 2 simple_value f32}       SessionLog  1 status (START = 1)
//
// A resumed run writes a new file whose SessionLog START at step s makes TensorBoard discard older files' data from step s on.
// A writer owns its descriptor and belongs to one thread; every call writes through to the system, so that a killed process
// loses nothing that was logged.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dlpipe/error.h"

namespace dlpipe::formats {

struct Scalar {
  std::string tag;
  double value = 0;
};

class EventWriter {
 public:
  /// Creates the next event file of `directory`: events.out.tfevents.<number>.dlpipe, numbered so that names
  /// sort in the order of writing.
  static Result<EventWriter> create(const std::string& directory);
  EventWriter(EventWriter&& other) noexcept
      : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  EventWriter& operator=(EventWriter&&) = delete;
  ~EventWriter();

  const std::string& path() const { return path_; }
  /// SessionLog START: this run resumes at `step`.
  Status session_start(int64_t step);
  /// All scalars of one step in one record.
  Status scalars(int64_t step, std::span<const Scalar> values);

 private:
  EventWriter(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  Status record(std::string_view message);
  std::string path_;
  int fd_ = -1;
};

/// One event read back.
struct EventRecord {
  double wall_time = 0;
  int64_t step = 0;
  std::string file_version;
  bool session_start = false;
  std::vector<Scalar> scalars;
};

/// All complete records of a file; an incomplete last record (from a killed writer) ends the list. kCorrupt on a wrong
/// checksum.
Result<std::vector<EventRecord>> read_events(const std::string& path);

}  // namespace dlpipe::formats
