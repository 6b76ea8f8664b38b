#include "dlpipe/io/formats/tfevents.h"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "dlpipe/base/text.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/io/formats/crc32c.h"

namespace dlpipe::formats {

namespace {

// Protocol-buffer wire format: key = field << 3 | type; types 0 varint, 1 64-bit, 2 length-delimited, 5
// 32-bit.
void put_varint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}
void put_key(std::string& out, int field, int type) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(type));
}
template <class T>
void put_fixed(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_key(out, field, 2);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string event_at(int64_t step) {
  std::string event;
  put_key(event, 1, 1);
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  put_fixed(event, std::chrono::duration<double>(since_epoch).count());
  put_key(event, 2, 0);
  put_varint(event, static_cast<uint64_t>(step));
  return event;
}

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Walks the fields of one message; every read is bounded by the message.
class FieldReader {
 public:
  explicit FieldReader(std::string_view message) : rest_(message) {}

  bool next() {
    if (rest_.empty() || !ok_) return false;
    const uint64_t key = varint();
    field_ = static_cast<int>(key >> 3);
    bytes_ = {};
    value_ = 0;
    switch (key & 7) {
      case 0:
        value_ = varint();
        break;
      case 1:
        take(8);
        break;
      case 2:
        take(varint());
        break;
      case 5:
        take(4);
        break;
      default:
        ok_ = false;
    }
    return ok_;
  }
  bool ok() const { return ok_; }
  int field() const { return field_; }
  uint64_t value() const { return value_; }
  std::string_view bytes() const { return bytes_; }
  template <class T>
  T fixed_value() const {
    T value{};
    if (bytes_.size() == sizeof value) std::memcpy(&value, bytes_.data(), sizeof value);
    return value;
  }

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) break;
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    ok_ = false;
    return 0;
  }
  void take(uint64_t count) {
    if (count > rest_.size()) {
      ok_ = false;
      return;
    }
    bytes_ = rest_.substr(0, count);
    rest_.remove_prefix(count);
  }

  std::string_view rest_;
  std::string_view bytes_;
  uint64_t value_ = 0;
  int field_ = 0;
  bool ok_ = true;
};

bool parse_summary(std::string_view message, std::vector<Scalar>& scalars) {
  FieldReader summary(message);
  while (summary.next()) {
    if (summary.field() != 1) continue;
    Scalar scalar;
    FieldReader value(summary.bytes());
    while (value.next()) {
      if (value.field() == 1) scalar.tag = std::string(value.bytes());
      if (value.field() == 2) scalar.value = value.fixed_value<float>();
    }
    if (!value.ok()) return false;
    scalars.push_back(std::move(scalar));
  }
  return summary.ok();
}

bool parse_event(std::string_view message, EventRecord& event) {
  FieldReader reader(message);
  while (reader.next()) {
    if (reader.field() == 1) event.wall_time = reader.fixed_value<double>();
    if (reader.field() == 2) event.step = static_cast<int64_t>(reader.value());
    if (reader.field() == 3) event.file_version = std::string(reader.bytes());
    if (reader.field() == 5 && !parse_summary(reader.bytes(), event.scalars)) return false;
    if (reader.field() == 7) {
      FieldReader log(reader.bytes());
      while (log.next()) event.session_start |= log.field() == 1 && log.value() == 1;
    }
  }
  return reader.ok();
}

constexpr std::string_view kPrefix = "events.out.tfevents.";

int64_t next_number(const std::string& directory) {
  int64_t next = 1;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    int64_t number = 0;
    if (name.rfind(kPrefix, 0) == 0 && parse_int(split(name, '.')[3], &number) && number >= next)
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
  std::string event = event_at(0);
  put_bytes(event, 3, "brain.Event:2");
  DLPIPE_RETURN_IF_ERROR(writer.record(event));
  return writer;
}

EventWriter::~EventWriter() {
  if (fd_ >= 0) ::close(fd_);
}

Status EventWriter::session_start(int64_t step) {
  std::string event = event_at(step);
  std::string log;
  put_key(log, 1, 0);
  put_varint(log, 1);
  put_bytes(event, 7, log);
  return record(event);
}

Status EventWriter::scalars(int64_t step, std::span<const Scalar> values) {
  std::string summary;
  for (const Scalar& scalar : values) {
    std::string value;
    put_bytes(value, 1, scalar.tag);
    put_key(value, 2, 5);
    put_fixed(value, static_cast<float>(scalar.value));
    put_bytes(summary, 1, value);
  }
  std::string event = event_at(step);
  put_bytes(event, 5, summary);
  return record(event);
}

Status EventWriter::record(std::string_view message) {
  std::string framed;
  put_fixed(framed, static_cast<uint64_t>(message.size()));
  put_fixed(framed, masked_crc32c(as_bytes(framed)));
  framed += message;
  put_fixed(framed, masked_crc32c(as_bytes(message)));
  std::string_view rest = framed;
  while (!rest.empty()) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return status_from_errno("tfevents", concat("cannot write ", path_), errno);
    rest.remove_prefix(static_cast<size_t>(written));
  }
  return {};
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
    EventRecord event;
    if (!parse_event(message, event)) {
      return Status(ErrorCode::kCorrupt, concat("[tfevents] a record that is no Event in ", where));
    }
    events.push_back(std::move(event));
    rest.remove_prefix(length + kFrame);
  }
  return events;
}

}  // namespace dlpipe::formats
