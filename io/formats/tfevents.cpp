#include "io/formats/tfevents.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "base/bytes.h"
#include "base/file.h"
#include "base/text.h"
#include "io/formats/atomic_file.h"
#include "io/formats/protobuf.h"

namespace dlpipe::formats {

namespace {

template <class T>
void put_fixed(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

ProtobufWriter event_at(int64_t step) {
  ProtobufWriter event;
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  event.add_double(1, std::chrono::duration<double>(since_epoch).count());
  event.add_int(2, step);
  return event;
}

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Result<Scalar> parse_scalar(std::string_view message) {
  Scalar scalar;
  for (ProtobufReader reader(message); !reader.at_end();) {
    DLPIPE_ASSIGN_OR_RETURN(const ProtobufField field, reader.next());
    if (field.number == 1) scalar.tag = field.bytes;
    if (field.number == 2 && field.type == WireType::kFixed32) scalar.value = field.as_float();
  }
  return scalar;
}

Status parse_summary(std::string_view message, std::vector<Scalar>& scalars) {
  for (ProtobufReader reader(message); !reader.at_end();) {
    DLPIPE_ASSIGN_OR_RETURN(const ProtobufField field, reader.next());
    if (field.number != 1) continue;
    DLPIPE_ASSIGN_OR_RETURN(Scalar scalar, parse_scalar(field.bytes));
    scalars.push_back(std::move(scalar));
  }
  return {};
}

Result<bool> is_session_start(std::string_view message) {
  bool is_start = false;
  for (ProtobufReader reader(message); !reader.at_end();) {
    DLPIPE_ASSIGN_OR_RETURN(const ProtobufField field, reader.next());
    is_start |= field.number == 1 && field.as_int() == 1;
  }
  return is_start;
}

Result<EventRecord> parse_event(std::string_view message) {
  EventRecord event;
  for (ProtobufReader reader(message); !reader.at_end();) {
    DLPIPE_ASSIGN_OR_RETURN(const ProtobufField field, reader.next());
    if (field.number == 1 && field.type == WireType::kFixed64) event.wall_time = field.as_double();
    if (field.number == 2) event.step = field.as_int();
    if (field.number == 3) event.file_version = field.bytes;
    if (field.number == 5) DLPIPE_RETURN_IF_ERROR(parse_summary(field.bytes, event.scalars));
    if (field.number != 7) continue;
    DLPIPE_ASSIGN_OR_RETURN(const bool is_start, is_session_start(field.bytes));
    event.session_start |= is_start;
  }
  return event;
}

constexpr std::string_view kPrefix = "events.out.tfevents.";

int64_t next_number(const std::string& directory) {
  int64_t next = 1;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    int64_t number = 0;
    constexpr int64_t kMost = 9'999'999'999;  // ten digits: files with more are not dlpipe's
    if (name.starts_with(kPrefix) && parse_int(split(name, '.')[3], &number) && number >= next &&
        number < kMost)
      next = number + 1;
  }
  return next;
}

}  // namespace

Result<EventWriter> EventWriter::create(const std::string& directory) {
  std::string number = std::to_string(next_number(directory));
  number.insert(0, 10 - std::min<size_t>(10, number.size()), '0');
  const std::string path = concat(directory, "/", kPrefix, number, ".dlpipe");
  EventWriter writer(path, ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
  if (writer.fd_ < 0) return status_from_errno("tfevents", concat("cannot create ", path), errno);
  ProtobufWriter event = event_at(0);
  event.add_bytes(3, "brain.Event:2");
  DLPIPE_RETURN_IF_ERROR(writer.record(event.bytes()));
  return writer;
}

EventWriter::~EventWriter() {
  if (fd_ >= 0) ::close(fd_);
}

Status EventWriter::session_start(int64_t step) {
  ProtobufWriter event = event_at(step);
  ProtobufWriter log;
  log.add_int(1, 1);
  event.add_message(7, log);
  return record(event.bytes());
}

Status EventWriter::scalars(int64_t step, std::span<const Scalar> values) {
  ProtobufWriter summary;
  for (const Scalar& scalar : values) {
    ProtobufWriter value;
    value.add_bytes(1, scalar.tag);
    value.add_float(2, static_cast<float>(scalar.value));
    summary.add_message(1, value);
  }
  ProtobufWriter event = event_at(step);
  event.add_message(5, summary);
  return record(event.bytes());
}

Status EventWriter::record(std::string_view message) {
  std::string framed;
  put_fixed(framed, static_cast<uint64_t>(message.size()));
  put_fixed(framed, masked_crc32c(as_bytes(framed)));
  framed += message;
  put_fixed(framed, masked_crc32c(as_bytes(message)));
  return write_all("tfevents", fd_, as_bytes(framed), path_);
}

Result<std::vector<EventRecord>> read_events(const std::string& path) {
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  std::vector<EventRecord> events;
  std::string_view rest = text;
  auto load = [](std::string_view bytes, auto value) {
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  };
  constexpr size_t kFrame = 16;  // length, its checksum, the message's checksum
  while (rest.size() >= kFrame) {
    const auto length = load(rest, uint64_t{});
    const std::string where = concat(path, " at byte ", text.size() - rest.size());
    if (load(rest.substr(8), uint32_t{}) != masked_crc32c(as_bytes(rest.substr(0, 8)))) {
      return Status(ErrorCode::kCorrupt, concat("[tfevents] wrong checksum of a record's length in ", where));
    }
    if (length > rest.size() - kFrame) break;
    const std::string_view message = rest.substr(12, length);
    if (load(rest.substr(12 + length), uint32_t{}) != masked_crc32c(as_bytes(message))) {
      return Status(ErrorCode::kCorrupt, concat("[tfevents] wrong checksum of a record in ", where));
    }
    auto event = parse_event(message);
    if (!event.ok())
      return event.status().with_context(concat("[tfevents] a record that is not an Event in ", where, ": "));
    events.push_back(std::move(*event));
    rest.remove_prefix(length + kFrame);
  }
  return events;
}

}  // namespace dlpipe::formats
