// Protocol buffers' wire format (protobuf.dev/programming-guides/encoding), limited to what one message's fields need: varints,
// fixed 32 and 64 bits, bytes. Used to read and write ONNX and TensorBoard files; it defines no messages.
//
// Reading accepts any bytes: lengths are checked, nothing is copied, groups (deprecated) are rejected. Values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/error.h"

namespace dlpipe::formats {

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct ProtobufField {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t value = 0;      // of a varint or a fixed one
  std::string_view bytes;  // of kBytes: into what was read

  int64_t as_int() const { return static_cast<int64_t>(value); }
  float as_float() const;    // of kFixed32
  double as_double() const;  // of kFixed64
};

/// Iterates over the fields of one message, in the file's order. None is stored: a field of two bytes would need sixteen times
/// its size, and files may have a billion of them.
class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view message) : message_(message) {}
  bool at_end() const { return at_ == message_.size(); }
  /// Before the end. kCorrupt says at which byte something is wrong.
  Result<ProtobufField> next();

 private:
  std::string_view message_;
  size_t at_ = 0;
};

/// Appends the values of a repeated number: packed, or one field each.
Status append_varints(const ProtobufField& field, std::vector<int64_t>& to);
Status append_floats(const ProtobufField& field, std::vector<float>& to);
Status append_doubles(const ProtobufField& field, std::vector<double>& to);

/// Builds one message.
class ProtobufWriter {
 public:
  void add_int(uint32_t number, int64_t value);
  void add_float(uint32_t number, float value);
  void add_double(uint32_t number, double value);
  void add_bytes(uint32_t number, std::string_view bytes);
  void add_message(uint32_t number, const ProtobufWriter& message) { add_bytes(number, message.bytes_); }
  /// Packed.
  void add_ints(uint32_t number, std::span<const int64_t> values);
  void add_floats(uint32_t number, std::span<const float> values);
  const std::string& bytes() const { return bytes_; }

 private:
  void add_varint(uint64_t value);
  void add_tag(uint32_t number, WireType type);
  void add_fixed(uint64_t bits, int size);
  std::string bytes_;
};

}  // namespace dlpipe::formats
